"""Automatic tools: those of an agent in auto_tool_mode, called with what its structured reply says."""

from collections.abc import Mapping, Sequence
from typing import Any

from workflows.chat.live import LiveTurn


async def call_auto_tools(live: LiveTurn, output: Any) -> Sequence[Mapping[str, Any]]:
    """What they add to the turn's events, shaped like tools that a model called. StepFailed when one fails."""
    del live, output
    return ()
