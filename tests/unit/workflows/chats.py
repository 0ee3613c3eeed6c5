"""Chats in this process: a package, the script provider, and a store in lists."""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from accounting.budgets.reservation_types import PlannedCall, Reserve, Settle, reserve_unlimited
from accounting.usage import BegunCall, ModelCall, RunOwner
from tests.quick_yaml import dumped
from workers.local_run.local_lease import LocalLease, NeverStops
from workers.steps.run_chat import new_chat
from workers.steps.run_execution import RunExecution
from workers.steps.run_services import RunServices
from workers.steps.take_turns import take_turns
from workers.store.run import Claim, RunRequest, TriggerEvent
from workers.store.run_document import run_document
from workflows.chat.agents.built_packages import BuiltPackage, build_package
from workflows.chat.chat_loop import close_conversation
from workflows.chat.chat_state import ChatTimeouts, Conversation
from workflows.chat.history.checkpoint import Checkpoint, RunCounters
from workflows.chat.history.transcript import Turn
from workflows.chat.history.turn_journal import OpenTurn
from workflows.chat.limits.run_clock import RunClock
from workflows.chat.package_code.tool_threads import ToolThreads
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.chat.questions.question import Question
from workflows.context.context_loader import ContextSources
from workflows.context.context_variables import ContextVariables
from workflows.context.documents.document_access import DocumentRead, DocumentWrite
from workflows.context.redaction import Redactor
from workflows.models_file import ScriptModel
from workflows.outcome import Outcome
from workflows.package.normal_form.package_model import Package

if TYPE_CHECKING:
    from workers.steps.run_services import GetPackage, UsageLedger
    from workers.store.run_repository import RunRepository

THREADS = ToolThreads(4, name="test-tools")


def never() -> bool:
    return False


@dataclass
class ChatRecorder:
    """Stores checkpoints as a worker's store would, as JSON."""

    saved: list[str] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    open_turn: str | None = None
    standing: list[Mapping[str, Any]] = field(default_factory=list)

    async def record_answer(self, answer: Mapping[str, Any]) -> None:
        if all(each["question"]["id"] != answer["question"]["id"] for each in self.standing):
            self.standing.append(answer)

    def read_open_turn(self) -> OpenTurn | None:
        turn = None if self.open_turn is None else OpenTurn.from_document(json.loads(self.open_turn))
        return turn if turn is not None and turn.number == len(self.saved) + 1 else None

    async def record(self, call: ModelCall) -> None:
        self.calls.append(call)

    async def keep_open_turn(self, turn: Mapping[str, Any]) -> None:
        self.open_turn = json.dumps(turn)

    async def commit(self, number: int, turn: Mapping[str, Any], checkpoint: Mapping[str, Any]) -> None:
        assert number == len(self.saved) + 1
        earlier = json.loads(self.saved[-1])["turns"] if self.saved else []
        rest = {"context": checkpoint["context"], "next_agent": checkpoint["next_agent"]}
        self.saved.append(json.dumps({**checkpoint["progress"], **rest, "turns": [*earlier, turn]}))

    def checkpoint(self, number: int) -> Checkpoint:
        return Checkpoint.from_json(json.loads(self.saved[number - 1]))

    @property
    def turns(self) -> list[Turn]:
        return list(self.checkpoint(len(self.saved)).turns) if self.saved else []

    def turn(self, number: int) -> Turn:
        return self.turns[number - 1]

    def context(self, number: int) -> dict[str, Any]:
        return dict(self.checkpoint(number).context)

    @property
    def speakers(self) -> list[str]:
        return [turn.agent for turn in self.turns]

    def copy_up_to(self, number: int) -> "ChatRecorder":
        return ChatRecorder(self.saved[:number])


class KeptRuns:
    """The part of a run repository that a chat needs while it takes turns."""

    def __init__(self, kept: ChatRecorder) -> None:
        self._kept = kept

    async def commit_turn(
        self,
        claim: Claim,
        *,
        number: int,
        turn: Mapping[str, Any],
        checkpoint: Mapping[str, Any],
        writes: Sequence[DocumentWrite] = (),
    ) -> None:
        del claim, writes
        await self._kept.commit(number, turn, checkpoint)

    async def keep_open_turn(self, claim: Claim, *, number: int, turn: Mapping[str, Any]) -> None:
        del claim, number
        await self._kept.keep_open_turn(turn)

    async def record_answer(self, claim: Claim, answer: Mapping[str, Any]) -> None:
        del claim
        await self._kept.record_answer(answer)


class KeptCalls:
    """The part of a ledger that a chat needs."""

    def __init__(self, kept: ChatRecorder) -> None:
        self._kept = kept

    async def begin(self, owner: RunOwner, *, lease_token: int, call: BegunCall) -> None: ...

    async def record(self, owner: RunOwner, *, lease_token: int, call: ModelCall, holder: str | None = None) -> None:
        del owner, lease_token, holder
        await self._kept.record(call)


@dataclass(frozen=True)
class Reserving:
    """Budgets that are one function."""

    function: Reserve

    async def reserve(self, planned: PlannedCall) -> Settle:
        return await self.function(planned)

    def __call__(self, *, app_id: str, workflow: str, amount_used: Any, has_begun: Any) -> "Reserving":
        del app_id, workflow, amount_used, has_begun
        return self

    def holder_of(self, call: ModelCall) -> None:
        del call


class StopsWhen(NeverStops):
    def __init__(self, stopping: Callable[[], bool]) -> None:
        self._stopping = stopping

    def is_stopping(self) -> bool:
        return self._stopping()


async def no_document(_: DocumentRead) -> None: ...


def build_chat(package: Package, answers: Mapping[str, Any] | Path, folder: Path) -> BuiltPackage:
    # Beside the package, not in it: a package whose files change after it was read is not built.
    file = answers if isinstance(answers, Path) else folder.parent / f"{folder.name}-answers.yaml"
    if not isinstance(answers, Path):
        file.write_text(dumped(dict(answers)), encoding="utf-8")
    specs = {"default": ScriptModel(provider="script", file=file)}
    return build_package(package, ModelRegistry(specs, lambda reference: reference), THREADS)


@dataclass
class Chat:
    """Runs a chat from its beginning or from a checkpoint.

    All objects are fresh, as in another worker."""

    built: BuiltPackage
    context: Mapping[str, Any] = field(default_factory=dict)
    suppressed: frozenset[str] = frozenset()
    opening: str = "Begin."
    redactor: Redactor = field(default_factory=Redactor)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    ui_responses: Mapping[str, Any] = field(default_factory=dict)
    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    answer: str | None = None
    wall_clock_s: float = float("inf")
    reserve: Reserve = reserve_unlimited
    timeouts: ChatTimeouts = field(default_factory=ChatTimeouts)
    last: Conversation | None = None

    def conversation(self, recorder: ChatRecorder, *, failed: Mapping[str, int] | None = None) -> Conversation:
        """As the engine makes it of a run that was claimed."""
        number = len(recorder.saved)
        start = Checkpoint((), copy.deepcopy(dict(self.context)), None, RunCounters(failed=dict(failed or {})))
        checkpoint = recorder.checkpoint(number) if number else start
        claim, services = self._claim(checkpoint), self._services(recorder, never)
        chat = self.last = new_chat(claim, self.built, services)
        chat.context, chat.turns = ContextVariables(checkpoint.context), list(checkpoint.turns)
        chat.suppressed_names, chat.fixed_values = self.suppressed, self.fixed
        chat.tool_answers, chat.user_message, chat.open_turn = (
            dict(self.answers),
            self.answer,
            recorder.read_open_turn(),
        )
        chat.timeouts = self.timeouts
        chat.clock = RunClock(self.wall_clock_s, checkpoint.counters.worked_s)
        return chat

    def _claim(self, checkpoint: Checkpoint) -> Claim:
        event = TriggerEvent("manual", "trigger", "1", fired_at=datetime.now(UTC))
        request = RunRequest("acme", self.built.package.name, event, message=self.opening)
        document = run_document(request, now=datetime.now(UTC), republish_after=timedelta(0))
        document |= {"progress": checkpoint.progress(), "next_agent": checkpoint.next_agent}
        document |= {"turn": len(checkpoint.turns), "ui_responses": self.ui_responses}
        return Claim(document["_id"], "test", 1, document)

    def _services(self, kept: ChatRecorder, stopping: Callable[[], bool]) -> RunServices:
        return RunServices(
            repository=cast("RunRepository", KeptRuns(kept)),
            get_package=cast("GetPackage", None),
            context_sources=ContextSources({}, production=False, include_schema=False, read_document=no_document),
            ledger=cast("UsageLedger", KeptCalls(kept)),
            lease=LocalLease(),
            shutdown=StopsWhen(stopping),
            redactor=self.redactor,
            open_budgets=Reserving(self.reserve),
        )

    async def run(
        self,
        recorder: ChatRecorder | None = None,
        *,
        stopping: Callable[[], bool] = never,
        failed: Mapping[str, int] | None = None,
    ) -> tuple[Outcome, ChatRecorder]:
        recorder = recorder or ChatRecorder()
        return await self.take_turns(self.conversation(recorder, failed=failed), recorder, stopping=stopping), recorder

    async def take_turns(
        self, conversation: Conversation, kept: ChatRecorder, *, stopping: Callable[[], bool] = never
    ) -> Outcome:
        """With the step of the engine."""
        services = self._services(kept, stopping)
        run = RunExecution(self._claim(Checkpoint((), {}, None)), services, chat=conversation)
        await take_turns(run)
        assert run.outcome is not None
        return run.outcome

    def questions(self) -> list[Question]:
        """Returns the questions with which the last chat rests."""
        assert self.last is not None
        return self.last.questions

    def give(self, question: Question, response: Mapping[str, Any]) -> None:
        """Answers a question as a person; the next `run` continues with it."""
        responses = {str(question.tool): response}
        self.answers[question.id] = {"responses": responses, "question": question.as_document()}

    async def run_to_its_close(self, recorder: ChatRecorder | None = None) -> tuple[Outcome, ChatRecorder]:
        outcome, recorder = await self.run(recorder)
        assert self.last is not None
        return await close_conversation(self.last, outcome), recorder
