"""The journal of an open turn: its finished model answers and tool calls.

A turn that rests with a question keeps its journal. When the turn is resumed, recorded answers enter the chat in their
order without a model call, and recorded results without a tool call. The first step that is not recorded is executed. A
position is `answer.ordinal` as the model wrote it, never the order of start or completion.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ag2.events import BaseEvent, ModelResponse, ToolCallEvent

from workflows.chat.chat_errors import PackageDefect
from workflows.chat.history.answer_codec import decode_answer, encode_answer
from workflows.chat.package_code.incidents import Incident
from workflows.context.values.storable_values import Redact

# The finished turn repeats nearly all of it, and both stand in one document of at most 16 MB.
MAX_JOURNAL_BYTES = 6 * 1024 * 1024

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerStep:
    """A stored model answer.

    `asker` is the name for which the model was called, `answer` what its client returned."""

    asker: str
    answer: str
    tokens: Mapping[str, int]

    def decode(self) -> tuple[Sequence[BaseEvent], ModelResponse]:
        return decode_answer(self.answer)


@dataclass(frozen=True, slots=True)
class NewAnswer:
    """An answer of this attempt.

    It is encoded only when the turn is saved, since nearly all turns finish at once."""

    asker: str
    events: Sequence[BaseEvent]
    response: ModelResponse
    tokens: Mapping[str, int]

    def encode(self, redact: Redact) -> AnswerStep:
        return AnswerStep(self.asker, encode_answer(self.events, self.response, redact), self.tokens)


@dataclass(frozen=True, slots=True)
class CallStep:
    """A finished tool call.

    `written` are the variables that it wrote, `answers` people's answers to it, under the names that they go by."""

    position: str
    name: str
    text: str
    failed: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    removed: Names = ()
    written: Names = ()
    answers: tuple[tuple[Names, Mapping[str, Any]], ...] = ()
    incidents: tuple[Incident, ...] = ()

    def as_document(self) -> dict[str, Any]:
        answers = [{"names": list(names), "response": dict(response)} for names, response in self.answers]
        incidents = [incident.as_document() for incident in self.incidents]
        named = {name: list(getattr(self, name)) for name in ("removed", "written")}
        return {**asdict(self), **named, "answers": answers, "incidents": incidents}

    @staticmethod
    def from_document(raw: Mapping[str, Any]) -> "CallStep":
        return CallStep(
            position=raw["position"],
            name=raw["name"],
            text=raw["text"],
            failed=raw["failed"],
            changes=raw["changes"],
            removed=tuple(raw["removed"]),
            written=tuple(raw["written"]),
            answers=tuple((tuple(answer["names"]), answer["response"]) for answer in raw["answers"]),
            incidents=tuple(map(Incident.from_document, raw["incidents"])),
        )


JournalStep = AnswerStep | CallStep
PendingStep = JournalStep | NewAnswer


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """An unfinished turn: its agent and its steps, in the order of completion.

    `refreshed_values` are the variables read again for it; None if there were none to read. `handoffs` are sources and
    targets of those that led to it, if states wait for hand-offs."""

    number: int
    agent: str
    steps: tuple[JournalStep, ...]
    refreshed_values: Mapping[str, Any] | None = None
    handoffs: tuple[tuple[str, str], ...] = ()

    def as_document(self) -> dict[str, Any]:
        """Returns the stored form. PackageDefect when it is too large."""
        steps = [_step_document(step) for step in self.steps]
        kept = [*steps, self.refreshed_values]
        if len(json.dumps(kept, ensure_ascii=False, default=str).encode()) > MAX_JOURNAL_BYTES:
            raise PackageDefect(
                f"the journal of turn {self.number}, which waits for a person, is larger than"
                f" {MAX_JOURNAL_BYTES // 1024**2} MB; let its tools return less, and write less to the context"
            )
        document: dict[str, Any] = {"agent": self.agent, "number": self.number, "steps": steps}
        if self.refreshed_values is not None:
            document["refreshed"] = dict(self.refreshed_values)
        if self.handoffs:
            document["handoffs"] = [list(handoff) for handoff in self.handoffs]
        return document

    @staticmethod
    def from_document(raw: Mapping[str, Any]) -> "OpenTurn":
        handoffs = tuple((source, target) for source, target in raw.get("handoffs", ()))
        steps = tuple(map(_step_from_document, raw["steps"]))
        return OpenTurn(raw["number"], raw["agent"], steps, raw.get("refreshed"), handoffs)


def _step_document(step: JournalStep) -> dict[str, Any]:
    return (
        {"kind": "answer", **asdict(step)} if isinstance(step, AnswerStep) else {"kind": "call", **step.as_document()}
    )


def _step_from_document(raw: Mapping[str, Any]) -> JournalStep:
    if raw["kind"] == "answer":
        return AnswerStep(raw["asker"], raw["answer"], raw["tokens"])
    return CallStep.from_document(raw)


@dataclass(slots=True)
class Journal:
    """The journal of the turn in progress.

    `is_durable`: the turn has rested with a question, so each further step is saved before the next one begins."""

    steps: list[PendingStep] = field(default_factory=list)
    is_durable: bool = False
    answer_count: int = 0  # in this attempt, from a model or from the record
    refreshed_values: Mapping[str, Any] | None = None
    _calls: dict[str, CallStep] = field(default_factory=dict)
    _positions: dict[int, tuple[ToolCallEvent, str]] = field(default_factory=dict)

    @staticmethod
    def resume(turn: OpenTurn) -> "Journal":
        calls = {step.position: step for step in turn.steps if isinstance(step, CallStep)}
        return Journal(list(turn.steps), is_durable=True, refreshed_values=turn.refreshed_values, _calls=calls)

    def next_recorded_answer(self) -> AnswerStep | None:
        """Returns the recorded answer that is due; None when a model must be called."""
        answers = [step for step in self.steps if isinstance(step, AnswerStep)]
        return answers[self.answer_count] if self.answer_count < len(answers) else None

    def add(self, step: PendingStep) -> None:
        self.steps.append(step)
        if isinstance(step, CallStep):
            self._calls[step.position] = step

    def assign_positions(self, response: ModelResponse) -> None:
        """Counts the answer and gives each of its calls a position.

        The call is referenced, since its id() must stay its own."""
        self.answer_count += 1
        for ordinal, call in enumerate(response.tool_calls.calls, start=1):
            self._positions[id(call)] = (call, f"{self.answer_count}.{ordinal}")

    def find_position(self, call: ToolCallEvent) -> str:
        """Returns a call's position; a call of no answer here, as a sub-task's, its id."""
        known = self._positions.get(id(call))
        return f"call {call.id}" if known is None else known[1]

    def recorded_call(self, position: str) -> CallStep | None:
        return self._calls.get(position)

    def results_of_newest_answer(self) -> Iterator[CallStep]:
        """Yields recorded calls of the newest answer, in the order of completion."""
        prefix = f"{self.answer_count}."
        return (step for position, step in self._calls.items() if position.startswith(prefix))
