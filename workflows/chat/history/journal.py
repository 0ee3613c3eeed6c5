"""The journal of an open turn: its finished model answers and tool calls, which are not asked or made again.

A turn that rests with a question keeps its journal. When the turn is taken up again, recorded answers are given to the
chat in their order without asking a model, recorded results without calling the tool, and the first step that is not
recorded is really made. A position is `answer.ordinal` as the model wrote it, never the order of start or completion.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ag2.events import BaseEvent, ModelResponse, ToolCallEvent

from workflows.chat.chat_errors import PackageDefect
from workflows.chat.history.answer_codec import decode_answer, encode_answer
from workflows.chat.package_code.incidents import Incident

# Bytes. The finished turn says nearly all of it once more, and both stand in one document, of at most 16 MB.
MAX_JOURNAL_BYTES = 6 * 1024 * 1024

Names = tuple[str, ...]
Redact = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class AnswerStep:
    """A model's answer as it is kept: `asker` is whom it was asked for, `answer` what its client returned."""

    asker: str
    answer: str
    tokens: Mapping[str, int]

    def decode(self) -> tuple[Sequence[BaseEvent], ModelResponse]:
        return decode_answer(self.answer)


@dataclass(frozen=True, slots=True)
class NewAnswer:
    """One of this taking, written in the codec only when the turn is kept: nearly all turns are finished at once."""

    asker: str
    events: Sequence[BaseEvent]
    response: ModelResponse
    tokens: Mapping[str, int]

    def encode(self, redact: Redact) -> AnswerStep:
        return AnswerStep(self.asker, encode_answer(self.events, self.response, redact), self.tokens)


@dataclass(frozen=True, slots=True)
class CallStep:
    """A finished tool call. `written` are the variables that it wrote, `answers` what people answered it, under the
    names that they go by."""

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
        incidents = [each.as_document() for each in self.incidents]
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
            answers=tuple((tuple(each["names"]), each["response"]) for each in raw["answers"]),
            incidents=tuple(map(Incident.from_document, raw["incidents"])),
        )


JournalStep = AnswerStep | CallStep
PendingStep = JournalStep | NewAnswer


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A turn that is not finished: whose it is, and its steps in the order in which they were finished. `refreshed`:
    what was read again for it; None where nothing was to be read. `handoffs`: the sources and targets of those that led
    to it, as far as states wait for hand-offs."""

    number: int
    agent: str
    steps: tuple[JournalStep, ...]
    refreshed_values: Mapping[str, Any] | None = None
    handoffs: tuple[tuple[str, str], ...] = ()

    def as_document(self) -> dict[str, Any]:
        """PackageDefect when it is too large to be kept."""
        steps = [_step_document(step) for step in self.steps]
        kept = [*steps, self.refreshed_values]
        if len(json.dumps(kept, ensure_ascii=False, default=str).encode()) > MAX_JOURNAL_BYTES:
            raise PackageDefect(
                f"what turn {self.number} has to keep while it waits for a person is larger than"
                f" {MAX_JOURNAL_BYTES // 1024**2} MB; let its tools return less, and write less to the context"
            )
        document: dict[str, Any] = {"agent": self.agent, "number": self.number, "steps": steps}
        if self.refreshed_values is not None:
            document["refreshed"] = dict(self.refreshed_values)
        if self.handoffs:
            document["handoffs"] = [list(each) for each in self.handoffs]
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
    """Of the turn that is being taken. `durable`: each further step is to be kept before the next one begins, since
    the turn has rested with a question before."""

    steps: list[PendingStep] = field(default_factory=list)
    is_durable: bool = False
    answer_count: int = 0  # in this taking, by a model or from the record
    refreshed_values: Mapping[str, Any] | None = None
    _calls: dict[str, CallStep] = field(default_factory=dict)
    _positions: dict[int, tuple[ToolCallEvent, str]] = field(default_factory=dict)

    @staticmethod
    def resume(turn: OpenTurn) -> "Journal":
        calls = {step.position: step for step in turn.steps if isinstance(step, CallStep)}
        return Journal(list(turn.steps), is_durable=True, refreshed_values=turn.refreshed_values, _calls=calls)

    def next_recorded_answer(self) -> AnswerStep | None:
        """The recorded answer that is due now; None when a model has to be asked."""
        answers = [step for step in self.steps if isinstance(step, AnswerStep)]
        return answers[self.answer_count] if self.answer_count < len(answers) else None

    def add(self, step: PendingStep) -> None:
        self.steps.append(step)
        if isinstance(step, CallStep):
            self._calls[step.position] = step

    def assign_positions(self, response: ModelResponse) -> None:
        """Counts the answer and gives each of its calls a position. The call is kept: its id() must stay its own."""
        self.answer_count += 1
        for ordinal, call in enumerate(response.tool_calls.calls, start=1):
            self._positions[id(call)] = (call, f"{self.answer_count}.{ordinal}")

    def find_position(self, call: ToolCallEvent) -> str:
        """A call that no answer of this turn holds, such as a sub-task's, goes by its id."""
        known = self._positions.get(id(call))
        return f"call {call.id}" if known is None else known[1]

    def recorded_call(self, position: str) -> CallStep | None:
        return self._calls.get(position)

    def results_of_newest_answer(self) -> Iterator[CallStep]:
        """In the order in which the calls were finished."""
        begins = f"{self.answer_count}."
        return (each for position, each in self._calls.items() if position.startswith(begins))
