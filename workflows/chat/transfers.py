"""Transfers: hand-offs that a model judges, offered to it as tools; calling one ends the turn."""

from collections.abc import Sequence

from ag2.events import ModelResponse
from ag2.tools.tool import Tool as AG2Tool

from workflows.chat.live import LiveTurn
from workflows.package.models import Package


def transfer_tools(package: Package, agent: str) -> Sequence[AG2Tool]:
    """One tool per target that a rule of the agent leaves to the model's judgement."""
    del package, agent
    return ()


def take_transfer(live: LiveTurn, response: ModelResponse) -> ModelResponse:
    """The answer without its transfer; the rule that was chosen is noted in the turn."""
    del live
    return response
