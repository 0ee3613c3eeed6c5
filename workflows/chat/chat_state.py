"""The state of a live chat, and of the turn that is being taken in it.

A context variable of asyncio holds the turn. Model calls, tools, sub-tasks and the compaction of a history all run
inside it, on whatever path through a library.
"""

import copy
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from workflows.chat.history.checkpoint import RunCounters
from workflows.chat.history.transcript import Turn
from workflows.chat.history.turn_journal import (
    AnswerStep,
    CallStep,
    Journal,
    JournalStep,
    NewAnswer,
    OpenTurn,
    PendingStep,
)
from workflows.chat.limits.run_clock import RunClock
from workflows.chat.package_code.incidents import MAX_INCIDENTS, Incident
from workflows.chat.questions.question import Question
from workflows.context.call_context import ContextChanges
from workflows.context.context_variables import ContextVariables
from workflows.context.redaction import Redactor, remove_hidden
from workflows.context.values.storable_values import plain_context, storable_text
from workflows.outcome import Outcome
from workflows.package.normal_form.package_model import Package, Rule, Variable
from workflows.spans import NO_SPANS, Spans

if TYPE_CHECKING:
    from workflows.chat.agents.built_packages import BuiltPackage
    from workflows.chat.hooks.turn_hooks import HookedAgent
    from workflows.chat.model_call.metered_client import RunMeter

MAX_NOTED_CALLS = 200
MAX_NOTED_ARGUMENTS = 500

OnToolCall = Callable[[str, float, bool], None]
"""Called after each answered tool call with its name, seconds and failure."""
RecordAnswer = Callable[[Mapping[str, Any]], Coroutine[Any, Any, None]]
SaveOpenTurn = Callable[[OpenTurn], Awaitable[None]]
RefreshVariables = Callable[[Collection[Variable]], Awaitable[Mapping[str, Any]]]


async def _save_nothing(_: Any) -> None: ...


async def _read_nothing(_: Collection[Variable]) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class ChatTimeouts:
    """How long a chat waits for a package's step, for all steps after its end, and for the budgets."""

    step_s: float = 60.0
    closing_s: float = 60.0
    budget_s: float = 10.0


@dataclass(slots=True)
class Conversation:
    """State of one run's chat while it lasts.

    `fixed_values` identify the run; a tool that writes to these names finds them restored after its turn.
    `ui_responses` are the trigger's answers in advance, by tool; `standing_answer_source` names that trigger.
    `tool_answers` are the answers to tools' questions, by question id; `record_answer` stores each use of a standing
    answer. `user_message` is a person's message since the last turn that no turn contains yet. `questions` are those
    for which the chat rests. `open_turn` is the turn in which it rested and continues; `save_open_turn` makes one
    durable. `refresh_variables` reads variables of the database."""

    built_package: "BuiltPackage"
    context: ContextVariables
    suppressed_names: frozenset[str]
    meter: "RunMeter"
    opening_message: str
    turns: list[Turn] = field(default_factory=list)
    next_agent: str | None = None
    fixed_values: Mapping[str, Any] = field(default_factory=dict)
    idempotency_run_id: str | None = None  # the run whose idempotency keys this one continues
    redactor: Redactor = field(default_factory=Redactor)
    final_outcome: Outcome | None = None
    ui_responses: Mapping[str, Any] = field(default_factory=dict)
    standing_answer_source: str = "trigger"
    tool_answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    record_answer: RecordAnswer = _save_nothing
    user_message: str | None = None
    questions: list[Question] = field(default_factory=list)
    open_turn: OpenTurn | None = None
    is_resting: bool = False  # before or in the middle of a turn: the stored context is that of the last turn
    save_open_turn: SaveOpenTurn = _save_nothing
    refresh_variables: RefreshVariables = _read_nothing
    step_counts: Counter[str] = field(default_factory=Counter)  # steps outside of turns, by label
    incidents: list[Incident] = field(default_factory=list)  # outside of committed turns
    failed_steps: int = 0  # outside of turns
    clock: RunClock = field(default_factory=lambda: RunClock(float("inf")))
    current_turn: "LiveTurn | None" = None
    timeouts: ChatTimeouts = field(default_factory=ChatTimeouts)
    on_tool_call: OnToolCall = lambda _tool, _seconds, _failed: None
    spans: Spans = NO_SPANS
    # The context of the last committed turn, if life cycle steps or hand-offs changed it since.
    committed_snapshot: Mapping[str, Any] | None = None
    pending_handoffs: list[tuple[str, str]] = field(default_factory=list)  # since then, if states wait for hand-offs

    @property
    def package(self) -> Package:
        return self.built_package.package

    @property
    def counters(self) -> RunCounters:
        return self.meter.counters

    def storable_context(self) -> dict[str, Any]:
        """Returns the context as it may be stored.

        Hides also what a tool's own thread wrote after its turn."""
        context = ContextVariables(plain_context(self.context.items(), self.redactor.redact_data))
        remove_hidden(context, self.suppressed_names, self.redactor, fixed=self.fixed_values)
        return context.data

    @property
    def failed_tool_count(self) -> int:
        """Counts failures of an uncommitted turn and of steps outside of turns too."""
        in_current_turn = 0 if self.current_turn is None else self.current_turn.failed_tools
        return self.counters.failed_tools + in_current_turn + self.failed_steps

    def note_incident(self, incident: Incident) -> None:
        self.failed_steps += incident.is_failure
        if len(self.incidents) < MAX_INCIDENTS:
            self.incidents.append(incident.redacted(self.redactor.redact_text))


@dataclass(slots=True)
class NotedToolCall:
    """A call of the open turn. `begun`: outcome unknown. `asked`: waits for a person."""

    tool: str
    arguments: str = ""
    state: Literal["begun", "done", "failed", "asked"] = "begun"


@dataclass(frozen=True, slots=True)
class OfferedTransfer:
    """A hand-off that the model may choose in this turn, with its description for it."""

    rule: Rule
    description: str


@dataclass(slots=True)
class LiveTurn:
    """The turn that is being taken.

    `asker_override` is the name for which the model is called, where it is not the agent's. `stop_error` was found
    where nothing can be raised: the next model call or the end of the turn raises it. `transfer` is the rule that a
    model has chosen."""

    chat: Conversation
    agent: str
    number: int
    tokens: dict[str, int] = field(default_factory=lambda: {"input": 0, "output": 0})
    answer_counts: Counter[str] = field(default_factory=Counter)
    asker_override: str | None = None
    transfers: Mapping[str, OfferedTransfer] = field(default_factory=dict)  # by the names of their tools
    transfer: Rule | None = None
    transfer_text: str = ""  # the text beside the transfer
    stop_error: Exception | None = None
    incidents: list[Incident] = field(default_factory=list)
    failed_tools: int = 0  # all of them, also beyond what `incidents` may hold
    # Answers given for people, by the tool that showed a surface and by the function that asked.
    ui_answers: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    hooked_agent: "HookedAgent | None" = None  # the agent as its hooks see it in this turn
    tool_calls: list[NotedToolCall] = field(default_factory=list)  # calls that may have changed something
    journal: Journal = field(default_factory=Journal)
    questions: list[Question] = field(default_factory=list)
    written_names: set[str] = field(default_factory=set)  # variables that the turn's tools wrote
    step_counts: Counter[str] = field(default_factory=Counter)  # of hooks and lifecycle steps, by label
    reply_context: Mapping[str, Any] = field(default_factory=dict)  # the context at the newest reply

    @property
    def asker(self) -> str:
        return self.asker_override or self.agent

    @property
    def idempotency_key(self) -> str:
        """Returns the turn's key, equal when the turn is repeated, and of no other turn.

        A turn is repeated after a crash, or by a replay of a run that has not succeeded."""
        return f"{self.chat.idempotency_run_id or self.chat.fixed_values.get('run_id', 'run')}:{self.number}"

    def begin_call(self, tool: str, arguments: str) -> NotedToolCall:
        """Notes a call until the turn is committed; keeps the first MAX_NOTED_CALLS."""
        call = NotedToolCall(tool, storable_text(self.chat.redactor.redact_text(arguments))[:MAX_NOTED_ARGUMENTS])
        if len(self.tool_calls) < MAX_NOTED_CALLS:
            self.tool_calls.append(call)
        return call

    def calls_as_document(self) -> dict[str, Any]:
        """Returns the stored record of an unfinished turn."""
        return {"turn": self.number, "agent": self.agent, "calls": [asdict(call) for call in self.tool_calls]}

    def note_incident(self, incident: Incident) -> None:
        self.failed_tools += incident.is_failure
        if len(self.incidents) < MAX_INCIDENTS:
            self.incidents.append(incident.redacted(self.chat.redactor.redact_text))

    def apply_changes(self, changes: ContextChanges) -> None:
        """Applies to the context what a finished call changed."""
        self.chat.context.update(changes.values)
        for name in changes.removed_names:
            self.chat.context.remove(name)
        self.written_names |= changes.written_names

    def apply_recorded(self, step: CallStep) -> None:
        """Applies a call that an earlier attempt at this turn has made."""
        self.apply_changes(ContextChanges(copy.deepcopy(dict(step.changes)), step.removed, frozenset(step.written)))
        self.add_answers(step.answers)
        self.incidents.extend(step.incidents)
        self.failed_tools += sum(incident.is_failure for incident in step.incidents)

    def add_answers(self, answers: Iterable[tuple[tuple[str, ...], Mapping[str, Any]]]) -> None:
        self.ui_answers.extend((name, response) for names, response in answers for name in names)

    def as_open_turn(self) -> OpenTurn:
        """Returns the turn as it may be stored.

        Leaves out hidden values and names that no tool may write."""
        steps, refreshed = tuple(map(self._redact_step, self.journal.steps)), self.journal.refreshed_values
        shown = None if refreshed is None else plain_context(refreshed.items(), self.chat.redactor.redact_data)
        return OpenTurn(self.number, self.agent, steps, shown, tuple(self.chat.pending_handoffs))

    def _redact_step(self, step: PendingStep) -> JournalStep:
        redact, chat = self.chat.redactor.redact_data, self.chat
        if isinstance(step, NewAnswer):
            return step.encode(redact)
        if isinstance(step, AnswerStep):
            return step
        excluded = {*chat.suppressed_names, *chat.fixed_values}
        changes = plain_context(((name, value) for name, value in step.changes.items() if name not in excluded), redact)
        # As in the context itself, a name that holds a hidden value is removed with its value.
        return replace(
            step,
            changes={name: value for name, value in changes.items() if redact(name) is name},
            removed=tuple(name for name in step.removed if redact(name) is name),
            written=tuple(name for name in step.written if redact(name) is name),
            answers=redact(step.answers),
        )

    async def save_journal(self) -> None:
        """Saves each further step of a turn that has rested, before the next step begins."""
        if self.journal.is_durable:
            await self.chat.save_open_turn(self.as_open_turn())

    @contextmanager
    def as_current(self) -> Iterator["LiveTurn"]:
        token = _live_turn.set(self)
        try:
            yield self
        finally:
            _live_turn.reset(token)


_live_turn: ContextVar[LiveTurn] = ContextVar("unattended_live_turn")


def live_turn() -> LiveTurn:
    """Returns the turn in progress. LookupError outside of a turn."""
    return _live_turn.get()
