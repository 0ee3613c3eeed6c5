"""The report of a run: the output of `unattended run --json`, and the result in package tests."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from accounting.prices import PriceTable
from accounting.usage import ModelCall
from workers.store.run import RunState
from workflows.context.documents.document_access import DocumentWrite
from workflows.outcome import Outcome


@dataclass(frozen=True, slots=True)
class ToolCallReport:
    """`result` is the text that the model received; None for a hand-off or a call that never ran."""

    name: str
    arguments: Any
    result: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class TurnReport:
    agent: str
    text: str
    tool_calls: tuple[ToolCallReport, ...]
    handoff: str | None
    context_changes: Mapping[str, Any]
    tokens: Mapping[str, int]
    duration_s: float
    errors: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class CallReport:
    """A model call. `cost_usd` is None if no price is known."""

    agent: str
    provider: str
    model: str
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    ok: bool
    error: str | None
    cost_usd: float | None
    duration_s: float


@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of a run. `writes` are the database writes that a worker would have made."""

    run_id: str
    workflow: str
    state: RunState
    outcome: Outcome
    turns: tuple[TurnReport, ...]
    context: Mapping[str, Any]
    usage: tuple[CallReport, ...]
    errors: tuple[Mapping[str, Any], ...]
    writes: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]
    attempts: int
    duration_s: float

    @property
    def succeeded(self) -> bool:
        return self.state is RunState.SUCCEEDED

    @property
    def speakers(self) -> list[str]:
        return [turn.agent for turn in self.turns]

    def as_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "workflow": self.workflow,
            "outcome": self.outcome.as_document(),
            "state": self.state.value,
            "turns": [asdict(turn) for turn in self.turns],
            "context": dict(self.context),
            "usage": [asdict(call) for call in self.usage],
            "errors": [dict(error) for error in self.errors],
            "writes": [dict(write) for write in self.writes],
            "notes": list(self.notes),
            "attempts": self.attempts,
            "duration_s": self.duration_s,
        }


def turn_report(document: Mapping[str, Any]) -> TurnReport:
    """Returns the report of a turn document as a worker stores it."""
    return TurnReport(
        agent=document["agent"],
        text=document["text"],
        tool_calls=tuple(_tool_calls(document["events"])),
        handoff=document["handoff"],
        context_changes=document["context_changes"],
        tokens=document["tokens"],
        duration_s=document["duration_s"],
        errors=tuple(document.get("errors", ())),  # a turn of an older version has none
    )


def _tool_calls(events: Iterable[Mapping[str, Any]]) -> Iterable[ToolCallReport]:
    lines = list(events)
    results = {result["id"]: result for line in lines for result in line.get("tool_results", ())}
    for call in (call for line in lines for call in line.get("tool_calls", ())):
        result = results.get(call["id"], {})
        arguments = _parse_arguments(call["arguments"])
        yield ToolCallReport(call["name"], arguments, result.get("text"), bool(result.get("failed")))


def _parse_arguments(arguments: str) -> Any:
    """Parses JSON arguments into an object, as scripts have them; other text stays text."""
    try:
        return json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments


def call_report(call: ModelCall, prices: PriceTable) -> CallReport:
    nano_usd = prices.cost(call.tokens, provider=call.provider, model=call.model, at=call.started_at)
    return CallReport(
        agent=call.agent,
        provider=call.provider,
        model=call.model,
        input_tokens=call.tokens.input,
        cached_input_tokens=call.tokens.cached_input,
        output_tokens=call.tokens.output,
        reasoning_tokens=call.tokens.reasoning,
        ok=call.ok,
        error=call.error,
        cost_usd=None if nano_usd is None else nano_usd / 1e9,
        duration_s=round(call.duration_s, 6),
    )


def write_report(write: DocumentWrite) -> Mapping[str, Any]:
    names = ("variable", "database", "collection", "key", "key_value")
    return {**{name: getattr(write, name) for name in names}, "values": dict(write.values)}
