"""Chats in this process: a package, the script provider, and a store in lists."""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from accounting.budgets.reservation_types import Reserve, reserve_unlimited
from accounting.usage import ModelCall
from workflows.chat.agents.built_packages import BuiltPackage, build_package
from workflows.chat.chat_loop import close_conversation, run_conversation
from workflows.chat.chat_state import Conversation
from workflows.chat.history.checkpoint import Checkpoint, RunCounters
from workflows.chat.history.journal import OpenTurn
from workflows.chat.history.transcript import Turn
from workflows.chat.limits.run_clock import RunClock
from workflows.chat.model_call.metered_client import RunMeter
from workflows.chat.package_code.tool_threads import ToolThreads
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.chat.questions.question import Question
from workflows.context.context_variables import ContextVariables
from workflows.context.redaction import Redactor
from workflows.models_file import ScriptModel
from workflows.outcome import Outcome
from workflows.package.normal_form.package_model import Package

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

    async def keep_open_turn(self, turn: OpenTurn) -> None:
        self.open_turn = json.dumps(turn.as_document())

    def read_open_turn(self) -> OpenTurn | None:
        turn = None if self.open_turn is None else OpenTurn.from_document(json.loads(self.open_turn))
        return turn if turn is not None and turn.number == len(self.saved) + 1 else None

    async def record(self, call: ModelCall) -> None:
        self.calls.append(call)

    async def commit(self, number: int, turn: Turn, checkpoint: Checkpoint) -> None:
        assert number == checkpoint.turn_count == len(self.saved) + 1
        assert checkpoint.turns[-1] is turn
        self.saved.append(json.dumps(checkpoint.as_json()))

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


def build_chat(package: Package, answers: Mapping[str, Any] | Path, folder: Path) -> BuiltPackage:
    # Beside the package, not in it: a package whose files change after it was read is not built.
    file = answers if isinstance(answers, Path) else folder.parent / f"{folder.name}-answers.yaml"
    if not isinstance(answers, Path):
        file.write_text(yaml.safe_dump(dict(answers)), encoding="utf-8")
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
    last: Conversation | None = None

    def conversation(self, recorder: ChatRecorder, *, failed: Mapping[str, int] | None = None) -> Conversation:
        number = len(recorder.saved)
        start = Checkpoint((), copy.deepcopy(dict(self.context)), None, RunCounters(failed=dict(failed or {})))
        checkpoint = recorder.checkpoint(number) if number else start
        self.last = Conversation(
            built_package=self.built,
            context=ContextVariables(checkpoint.context),
            suppressed_names=self.suppressed,
            meter=RunMeter(recorder.record, checkpoint.counters, reserve=self.reserve),
            opening_message=self.opening,
            turns=list(checkpoint.turns),
            next_agent=checkpoint.next_agent,
            final_outcome=checkpoint.final_outcome,
            fixed_values=self.fixed,
            redactor=self.redactor,
            ui_responses=self.ui_responses,
            tool_answers=dict(self.answers),
            open_turn=recorder.read_open_turn(),
            record_answer=recorder.record_answer,
            save_open_turn=recorder.keep_open_turn,
            user_message=self.answer,
            clock=RunClock(self.wall_clock_s, checkpoint.counters.worked_s),
        )
        return self.last

    async def run(
        self,
        recorder: ChatRecorder | None = None,
        *,
        stopping: Callable[[], bool] = never,
        failed: Mapping[str, int] | None = None,
    ) -> tuple[Outcome, ChatRecorder]:
        recorder = recorder or ChatRecorder()
        outcome = await run_conversation(
            self.conversation(recorder, failed=failed), save_turn=recorder.commit, should_stop=stopping
        )
        return outcome, recorder

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
