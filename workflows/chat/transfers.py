"""Transfers: hand-offs that a model judges, offered to it as tools; calling one ends the turn.

A tool's description is made once in a turn, as the prompt is: `${name}` in a rule is filled if the agent sees it.
A rule that names a suppressed variable is not offered, as an expression over one does not hold.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ag2.context import ConversationContext
from ag2.events import ModelResponse, ToolCallsEvent
from ag2.tools.final import FunctionToolSchema
from ag2.tools.schemas import ToolSchema
from ag2.tools.tool import Tool as AG2Tool
from typing_extensions import override

from workflows.chat.live import LiveTurn, OfferedTransfer, live_turn
from workflows.context.templates import fill_judged
from workflows.package.judged_rules import find_names
from workflows.package.models import Package, Rule

PREFIX = "transfer_to_"
LONGEST_NAME = 64  # of a tool, where models are served
LONGEST_DESCRIPTION = 1_000
MAX_FILLED = 200  # of one value in a rule
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class TransferTool(AG2Tool):
    """Only shown to the model. Its call is taken out of the answer, so that nothing ever runs."""

    def __init__(self, name: str, rules: Sequence[Rule]) -> None:
        self.name = name
        self.rules = tuple(rules)

    def __deepcopy__(self, memo: dict[int, Any]) -> "TransferTool":
        return self  # AG2 copies tools per agent; this one never changes

    @override
    async def schemas(self, context: ConversationContext) -> Iterable[ToolSchema]:
        offered = live_turn().transfers.get(self.name)
        return () if offered is None else (_schema(self.name, offered.description),)


@lru_cache(maxsize=4_096)
def _schema(name: str, description: str) -> FunctionToolSchema:
    parameters = {"type": "object", "properties": {}, "additionalProperties": False}
    return FunctionToolSchema.from_dict(
        {"function": {"name": name, "description": description, "parameters": parameters}}
    )


def transfers_of(live: LiveTurn) -> dict[str, OfferedTransfer]:
    """What the model may choose in this turn, by the names of the tools, as the context is now."""
    chat = live.chat
    tools = [tool for tool in chat.built.agents[live.agent].tools if isinstance(tool, TransferTool)]
    exposed = chat.package.exposed.get(live.agent, ())
    offered = offered_transfers(tools, exposed=exposed, values=chat.context, suppressed=chat.suppressed)
    return {name: replace(each, description=chat.redactor.text(each.description)) for name, each in offered.items()}


def offered_transfers(
    tools: Iterable[TransferTool],
    *,
    exposed: Collection[str] = (),
    values: Mapping[str, Any],
    suppressed: Collection[str] = (),
) -> dict[str, OfferedTransfer]:
    offered: dict[str, OfferedTransfer] = {}
    for tool in tools:
        rules = [rule for rule in tool.rules if not find_names(rule.judged or "", suppressed)]
        if rules:
            texts = (fill_judged(rule.judged or "", exposed, values, limit=MAX_FILLED) for rule in rules)
            offered[tool.name] = OfferedTransfer(rules[0], _cut(" or ".join(dict.fromkeys(texts))))
    return offered


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
        tools.append(TransferTool(name, rules))
    return tools


def take_transfer(live: LiveTurn, response: ModelResponse) -> ModelResponse:
    """The answer without its transfer; the rule that was chosen is noted in the turn. Of several the first one is."""
    calls = response.tool_calls.calls
    if live.asking is not None or not any(call.name.startswith(PREFIX) for call in calls):
        return response
    rules = {name: each.rule for name, each in live.transfers.items()}
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
