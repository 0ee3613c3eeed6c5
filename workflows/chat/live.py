"""A live chat: what a conversation holds while it goes on, and the turn that is being taken in it.

The turn is found by a context variable of asyncio: model calls, tools, sub-tasks and the compaction of a history
all happen inside of it, whatever path through a library leads there.
"""

import copy
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from workflows.chat.checkpoint import Counters
from workflows.chat.clock import WorkedTime
from workflows.chat.incidents import MAX_KEPT, Incident
from workflows.chat.journal import AnswerStep, AnyStep, CallStep, Journal, NewAnswer, OpenTurn, Step
from workflows.chat.question import Question
from workflows.chat.transcript import Turn
from workflows.context.call_context import ContextChanges
from workflows.context.context_variables import ContextVariables
from workflows.context.redaction import Redactor, take_out
from workflows.context.storable_values import plain_values, storable
from workflows.outcome import Outcome
from workflows.package.models import Package, Rule, Variable
from workflows.spans import NO_SPANS, Spans

if TYPE_CHECKING:
    from workflows.chat.agents import BuiltPackage
    from workflows.chat.hooked_agent import HookedAgent
    from workflows.chat.meter import RunMeter

MAX_CALLS = 200
MAX_ARGUMENTS = 500

OnToolCall = Callable[[str, float, bool], None]
"""Told of each tool call that was answered: the tool's name, the seconds it took, whether it failed."""
RecordAnswer = Callable[[Mapping[str, Any]], Coroutine[Any, Any, None]]
KeepOpenTurn = Callable[[OpenTurn], Awaitable[None]]
ReadAgain = Callable[[Collection[Variable]], Awaitable[Mapping[str, Any]]]


async def _keep_nothing(_: Any) -> None: ...


async def _read_nothing(_: Collection[Variable]) -> Mapping[str, Any]:
    return {}


@dataclass(slots=True)
class Conversation:
    """`fixed`: whose run it is. A tool that writes to these names finds them as they were after its turn.
    `ui_responses`: what the trigger answers in advance, by tool; `standing_by` names that trigger. `answers`: what was
    answered to tools' questions, by the question's id; `record_answer` keeps each use of a standing answer. `answer`:
    what a person has said since the last turn, and no turn says yet. `questions`: what tools ask of a person, when that
    is why the chat rests. `open_turn`: the turn in which it rested, and goes on; `keep_open_turn` makes one durable.
    `read_again` reads variables of the database."""

    built: "BuiltPackage"
    context: ContextVariables
    suppressed: frozenset[str]
    meter: "RunMeter"
    opening: str
    turns: list[Turn] = field(default_factory=list)
    next_agent: str | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    keys_of: str | None = None  # the run whose idempotency keys this one goes on with
    redactor: Redactor = field(default_factory=Redactor)
    ended: Outcome | None = None
    ui_responses: Mapping[str, Any] = field(default_factory=dict)
    standing_by: str = "trigger"
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    record_answer: RecordAnswer = _keep_nothing
    answer: str | None = None
    questions: list[Question] = field(default_factory=list)
    open_turn: OpenTurn | None = None
    resting: bool = False  # before a turn or in the middle of one: the context that is kept is that of the last turn
    keep_open_turn: KeepOpenTurn = _keep_nothing
    read_again: ReadAgain = _read_nothing
    begun: Counter[str] = field(default_factory=Counter)  # steps outside of turns, by label
    incidents: list[Incident] = field(default_factory=list)  # outside of committed turns
    failed_steps: int = 0  # outside of turns
    clock: WorkedTime = field(default_factory=lambda: WorkedTime(float("inf")))
    speaking: "LiveTurn | None" = None
    on_tool_call: OnToolCall = lambda _tool, _seconds, _failed: None
    spans: Spans = NO_SPANS
    # The context as the last committed turn left it, when life cycle steps or hand-offs changed it since.
    unseen: Mapping[str, Any] | None = None
    handoffs: list[tuple[str, str]] = field(default_factory=list)  # those since then, if states wait for hand-offs

    @property
    def package(self) -> Package:
        return self.built.package

    @property
    def counters(self) -> Counters:
        return self.meter.counters

    def kept(self) -> dict[str, Any]:
        """The context as it may be stored. What a tool's own thread writes after its turn is hidden there as well."""
        kept = ContextVariables(plain_values(self.context.items(), self.redactor.data))
        take_out(kept, self.suppressed, self.redactor, fixed=self.fixed)
        return kept.data

    @property
    def failed_tools(self) -> int:
        """Also those of a turn that is not committed, and of steps outside of turns."""
        speaking = 0 if self.speaking is None else self.speaking.failed_tools
        return self.counters.failed_tools + speaking + self.failed_steps

    def note(self, incident: Incident) -> None:
        self.failed_steps += incident.is_failure
        if len(self.incidents) < MAX_KEPT:
            self.incidents.append(incident.kept(self.redactor.text))


@dataclass(slots=True)
class BegunToolCall:
    """`begun`: what came of it is not known. `asked`: it waits for a person."""

    tool: str
    arguments: str = ""
    state: Literal["begun", "done", "failed", "asked"] = "begun"


@dataclass(frozen=True, slots=True)
class OfferedTransfer:
    """A hand-off that the model may choose in this turn, as it is described to it."""

    rule: Rule
    description: str


@dataclass(slots=True)
class LiveTurn:
    """`asking` is who the model is asked for, when that is not the agent. `stop` is why the chat must not go on, found
    where nothing can be raised: the next model call raises it, or the end of the turn. `transfer` is the rule that a
    model has chosen."""

    chat: Conversation
    agent: str
    number: int
    tokens: dict[str, int] = field(default_factory=lambda: {"input": 0, "output": 0})
    answers: Counter[str] = field(default_factory=Counter)
    asking: str | None = None
    transfers: Mapping[str, OfferedTransfer] = field(default_factory=dict)  # by the names of their tools
    transfer: Rule | None = None
    parting: str = ""  # what it said beside its transfer
    stop: Exception | None = None
    incidents: list[Incident] = field(default_factory=list)
    failed_tools: int = 0  # not as many as `incidents` may hold, but all
    # What was answered for people, by the tool that showed something and by the function that asked.
    ui_answers: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    hooked: "HookedAgent | None" = None  # how its hooks see the agent in this turn
    tool_calls: list[BegunToolCall] = field(default_factory=list)  # those that may have changed something
    journal: Journal = field(default_factory=Journal)
    questions: list[Question] = field(default_factory=list)
    written: set[str] = field(default_factory=set)  # the variables that its tools wrote
    step_calls: Counter[str] = field(default_factory=Counter)  # of hooks and lifecycle steps, by label
    found: Mapping[str, Any] = field(default_factory=dict)  # the context as the newest reply found it

    @property
    def asker(self) -> str:
        return self.asking or self.agent

    @property
    def idempotency_key(self) -> str:
        """The same when the turn is taken again, after a crash or by a replay of a run that has not succeeded; and of
        no other turn."""
        return f"{self.chat.keys_of or self.chat.fixed.get('run_id', 'run')}:{self.number}"

    def begin_call(self, tool: str, arguments: str) -> BegunToolCall:
        """The note of a call, kept until the turn is committed. A turn of very many calls keeps the first ones."""
        call = BegunToolCall(tool, storable(self.chat.redactor.text(arguments))[:MAX_ARGUMENTS])
        if len(self.tool_calls) < MAX_CALLS:
            self.tool_calls.append(call)
        return call

    def calls_as_document(self) -> dict[str, Any]:
        """What is known of a turn that is not finished."""
        return {"turn": self.number, "agent": self.agent, "calls": [asdict(call) for call in self.tool_calls]}

    def note(self, incident: Incident) -> None:
        self.failed_tools += incident.is_failure
        if len(self.incidents) < MAX_KEPT:
            self.incidents.append(incident.kept(self.chat.redactor.text))

    def apply(self, changes: ContextChanges) -> None:
        """What a finished call did to the context."""
        self.chat.context.update(changes.values)
        for name in changes.removed:
            self.chat.context.remove(name)
        self.written |= changes.written

    def apply_recorded(self, step: CallStep) -> None:
        """The same of a call that another taking of this turn has made."""
        self.apply(ContextChanges(copy.deepcopy(dict(step.changes)), step.removed, frozenset(step.written)))
        self.learn_answers(step.answers)
        self.incidents.extend(step.incidents)
        self.failed_tools += sum(each.is_failure for each in step.incidents)

    def learn_answers(self, answers: Iterable[tuple[tuple[str, ...], Mapping[str, Any]]]) -> None:
        self.ui_answers.extend((name, response) for names, response in answers for name in names)

    def open_turn(self) -> OpenTurn:
        """As it may be kept: without hidden values, and without the names that no tool may write."""
        steps, refreshed = tuple(map(self._kept_step, self.journal.steps)), self.journal.refreshed
        shown = None if refreshed is None else plain_values(refreshed.items(), self.chat.redactor.data)
        return OpenTurn(self.number, self.agent, steps, shown, tuple(self.chat.handoffs))

    def _kept_step(self, step: AnyStep) -> Step:
        show, chat = self.chat.redactor.data, self.chat
        if isinstance(step, NewAnswer):
            return step.written(show)
        if isinstance(step, AnswerStep):
            return step
        out = {*chat.suppressed, *chat.fixed}
        changes = plain_values(((name, value) for name, value in step.changes.items() if name not in out), show)
        # As in the context itself, a name that holds a hidden value goes with what it names.
        return replace(
            step,
            changes={name: value for name, value in changes.items() if show(name) is name},
            removed=tuple(name for name in step.removed if show(name) is name),
            written=tuple(name for name in step.written if show(name) is name),
            answers=show(step.answers),
        )

    async def keep_journal(self) -> None:
        """A turn that has rested before keeps each further step before the next one begins."""
        if self.journal.durable:
            await self.chat.keep_open_turn(self.open_turn())

    @contextmanager
    def current(self) -> Iterator["LiveTurn"]:
        token = _live.set(self)
        try:
            yield self
        finally:
            _live.reset(token)


_live: ContextVar[LiveTurn] = ContextVar("unattended_live_turn")


def live_turn() -> LiveTurn:
    """LookupError outside of a turn."""
    return _live.get()
