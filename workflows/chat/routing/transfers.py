"""Transfers: hand-offs judged by a model, offered as tools; a call ends the turn.

A tool's description is made once in a turn, as the prompt is: `${name}` in a rule is filled if the agent sees it. A
rule that names a suppressed variable is not offered, as an expression over one does not hold.
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

from workflows.chat.chat_state import LiveTurn, OfferedTransfer, live_turn
from workflows.context.expressions.prompt_templates import fill_judged
from workflows.context.values.value_text import shorten
from workflows.package.normal_form.model_judged_rules import find_mentioned_names
from workflows.package.normal_form.package_model import Package, Rule

TRANSFER_PREFIX = "transfer_to_"
MAX_NAME_CHARACTERS = 64  # of a tool, as model servers allow
MAX_DESCRIPTION_CHARACTERS = 1_000
MAX_FILLED_CHARACTERS = 200  # of one value in a rule
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class TransferTool(AG2Tool):
    """A tool that is only shown to the model.

    Its call is removed from the answer, so it is never executed."""

    def __init__(self, name: str, rules: Sequence[Rule]) -> None:
        self.name = name
        self.rules = tuple(rules)

    def __deepcopy__(self, memo: dict[int, Any]) -> "TransferTool":
        return self  # AG2 copies tools per agent; this one never changes

    @override
    async def schemas(self, context: ConversationContext) -> Iterable[ToolSchema]:
        offered = live_turn().transfers.get(self.name)
        return () if offered is None else (_tool_schema(self.name, offered.description),)


@lru_cache(maxsize=4_096)
def _tool_schema(name: str, description: str) -> FunctionToolSchema:
    parameters = {"type": "object", "properties": {}, "additionalProperties": False}
    return FunctionToolSchema.from_dict(
        {"function": {"name": name, "description": description, "parameters": parameters}}
    )


def offer_transfers(live: LiveTurn) -> dict[str, OfferedTransfer]:
    """Returns this turn's transfers by their tools' names, for the current context."""
    chat = live.chat
    tools = [tool for tool in chat.built_package.agents[live.agent].tools if isinstance(tool, TransferTool)]
    exposed = chat.package.exposures.get(live.agent, ())
    offered = describe_transfers(tools, exposed=exposed, values=chat.context, suppressed=chat.suppressed_names)
    return {
        name: replace(transfer, description=chat.redactor.redact_text(transfer.description))
        for name, transfer in offered.items()
    }


def describe_transfers(
    tools: Iterable[TransferTool],
    *,
    exposed: Collection[str] = (),
    values: Mapping[str, Any],
    suppressed: Collection[str] = (),
) -> dict[str, OfferedTransfer]:
    offered: dict[str, OfferedTransfer] = {}
    for tool in tools:
        rules = [rule for rule in tool.rules if not find_mentioned_names(rule.judgement or "", suppressed)]
        if rules:
            texts = (fill_judged(rule.judgement or "", exposed, values, limit=MAX_FILLED_CHARACTERS) for rule in rules)
            offered[tool.name] = OfferedTransfer(
                rules[0], shorten(" or ".join(dict.fromkeys(texts)), MAX_DESCRIPTION_CHARACTERS, counts_mark=True)
            )
    return offered


def build_transfer_tools(package: Package, agent: str) -> Sequence[TransferTool]:
    """Builds one tool for each target and reason that the agent's judged rules have."""
    rules_to: dict[tuple[str, str | None], list[Rule]] = {}
    for rule in package.rules:
        if rule.source == agent and rule.judgement is not None:
            rules_to.setdefault((rule.target, rule.termination_reason), []).append(rule)
    taken = {tool.function for tool in package.tools if tool.is_offered and agent in tool.agents}
    tools = []
    for (target, _), rules in rules_to.items():
        name = _free_name(target, taken)
        taken.add(name)
        tools.append(TransferTool(name, rules))
    return tools


def take_transfer(live: LiveTurn, response: ModelResponse) -> ModelResponse:
    """Removes transfers from an answer and notes the rule of the first one."""
    calls = response.tool_calls.calls
    if live.asker_override is not None or not any(call.name.startswith(TRANSFER_PREFIX) for call in calls):
        return response
    rules = {name: transfer.rule for name, transfer in live.transfers.items()}
    chosen = next((rules[call.name] for call in calls if call.name in rules), None)
    if chosen is None:
        return response
    live.transfer = chosen
    response.tool_calls = ToolCallsEvent([call for call in calls if call.name not in rules])
    if (response.content or "").strip():
        live.transfer_text = response.content or ""
    else:
        response.message = None  # providers refuse a blank message in a later history
    return response


def _free_name(target: str, taken: set[str]) -> str:
    name = _NOT_IN_NAMES.sub("_", f"{TRANSFER_PREFIX}{target}")
    number, free = 1, name[:MAX_NAME_CHARACTERS]
    while free in taken:
        number += 1
        ending = f"_{number}"
        free = f"{name[: MAX_NAME_CHARACTERS - len(ending)]}{ending}"
    return free
