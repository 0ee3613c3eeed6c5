"""Transfers: hand-offs that a model judges, offered to it as tools; calling one ends the turn."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ag2.context import ConversationContext
from ag2.events import ModelResponse, ToolCallsEvent
from ag2.tools.final import FunctionToolSchema
from ag2.tools.schemas import ToolSchema
from ag2.tools.tool import Tool as AG2Tool
from typing_extensions import override

from workflows.chat.live import LiveTurn
from workflows.package.models import Package, Rule

PREFIX = "transfer_to_"
LONGEST_NAME = 64  # of a tool, where models are served
LONGEST_DESCRIPTION = 1_000
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class TransferTool(AG2Tool):
    """Only shown to the model. Its call is taken out of the answer, so that nothing ever runs."""

    def __init__(self, name: str, description: str, rule: Rule) -> None:
        self.name = name
        self.description = description
        self.rule = rule
        self._schema = FunctionToolSchema.from_dict(
            {
                "function": {
                    "name": name,
                    "description": description,
                    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
                }
            }
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "TransferTool":
        return self  # AG2 copies tools per agent; this one never changes

    @override
    async def schemas(self, context: ConversationContext) -> Iterable[ToolSchema]:
        return (self._schema,)


def transfer_tools(package: Package, agent: str) -> Sequence[TransferTool]:
    """One tool for each end that rules of the agent leave to the model: a target, and why the chat ends there."""
    rules_to: dict[tuple[str, str | None], list[Rule]] = {}
    for rule in package.rules:
        if rule.source == agent and rule.judged is not None:
            rules_to.setdefault((rule.target, rule.termination_reason), []).append(rule)
    taken = {tool.function for tool in package.tools if tool.offered and agent in tool.agents}
    tools = []
    for (target, _), rules in rules_to.items():
        name = _free_name(target, taken)
        taken.add(name)
        described = " or ".join(dict.fromkeys(rule.judged or "" for rule in rules))
        tools.append(TransferTool(name, _cut(described), rules[0]))
    return tools


def take_transfer(live: LiveTurn, response: ModelResponse) -> ModelResponse:
    """The answer without its transfer; the rule that was chosen is noted in the turn. Of several the first one is."""
    calls = response.tool_calls.calls
    if live.asking is not None or not any(call.name.startswith(PREFIX) for call in calls):
        return response
    tools = live.chat.built.agents[live.agent].tools
    rules = {tool.name: tool.rule for tool in tools if isinstance(tool, TransferTool)}
    chosen = next((rules[call.name] for call in calls if call.name in rules), None)
    if chosen is None:
        return response
    live.transfer = chosen
    response.tool_calls = ToolCallsEvent([call for call in calls if call.name not in rules])
    if (response.content or "").strip():
        live.parting = response.content or ""
    else:
        response.message = None  # providers refuse a blank message in a later history
    return response


def _free_name(target: str, taken: set[str]) -> str:
    name = _NOT_IN_NAMES.sub("_", f"{PREFIX}{target}")
    number, free = 1, name[:LONGEST_NAME]
    while free in taken:
        number += 1
        ending = f"_{number}"
        free = f"{name[: LONGEST_NAME - len(ending)]}{ending}"
    return free


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_DESCRIPTION else f"{text[: LONGEST_DESCRIPTION - 1]}…"
