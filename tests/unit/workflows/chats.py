"""Chats in this process: a package, the script provider, and everything a worker would keep, in lists."""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accounting.budgets.asking import Reserve, unlimited
from accounting.usage import ModelCall
from tests.quick_yaml import dumped
from workflows.chat.agents import BuiltPackage, build_package
from workflows.chat.checkpoint import Checkpoint, Counters
from workflows.chat.clock import WorkedTime
from workflows.chat.conversation import close, converse
from workflows.chat.journal import OpenTurn
from workflows.chat.live import Conversation
from workflows.chat.meter import RunMeter
from workflows.chat.models import Models
from workflows.chat.question import Question
from workflows.chat.tool_threads import ToolThreads
from workflows.chat.transcript import Turn
from workflows.context.context_variables import ContextVariables
from workflows.context.redaction import Redactor
from workflows.models_file import ScriptModel
from workflows.outcome import Outcome
from workflows.package.models import Package

THREADS = ToolThreads(4, name="test-tools")


def never() -> bool:
    return False


@dataclass
class Kept:
    """What the store of a worker would hold, as JSON: every checkpoint whole."""

    saved: list[str] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    open_turn: str | None = None
    standing: list[Mapping[str, Any]] = field(default_factory=list)

    async def record_answer(self, answer: Mapping[str, Any]) -> None:
        if all(each["question"]["id"] != answer["question"]["id"] for each in self.standing):
            self.standing.append(answer)

    async def keep_open_turn(self, turn: OpenTurn) -> None:
        self.open_turn = json.dumps(turn.as_document())

    def opened(self) -> OpenTurn | None:
        turn = None if self.open_turn is None else OpenTurn.from_document(json.loads(self.open_turn))
        return turn if turn is not None and turn.number == len(self.saved) + 1 else None

    async def record(self, call: ModelCall) -> None:
        self.calls.append(call)

    async def commit(self, number: int, turn: Turn, checkpoint: Checkpoint) -> None:
        assert number == checkpoint.turn == len(self.saved) + 1
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

    def up_to(self, number: int) -> "Kept":
        return Kept(self.saved[:number])


def built(package: Package, answers: Mapping[str, Any] | Path, folder: Path) -> BuiltPackage:
    # Beside the package, not in it: a package whose files change after it was read is not built.
    file = answers if isinstance(answers, Path) else folder.parent / f"{folder.name}-answers.yaml"
    if not isinstance(answers, Path):
        file.write_text(dumped(dict(answers)), encoding="utf-8")
    specs = {"default": ScriptModel(provider="script", file=file)}
    return build_package(package, Models(specs, lambda reference: reference), THREADS)


@dataclass
class Chat:
    """Runs a chat from its beginning or from a checkpoint, always with fresh objects, as another worker would."""

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
    reserve: Reserve = unlimited
    last: Conversation | None = None

    def conversation(self, kept: Kept, *, failed: Mapping[str, int] | None = None) -> Conversation:
        number = len(kept.saved)
        start = Checkpoint((), copy.deepcopy(dict(self.context)), None, Counters(failed=dict(failed or {})))
        checkpoint = kept.checkpoint(number) if number else start
        self.last = Conversation(
            built=self.built,
            context=ContextVariables(checkpoint.context),
            suppressed=self.suppressed,
            meter=RunMeter(kept.record, checkpoint.counters, reserve=self.reserve),
            opening=self.opening,
            turns=list(checkpoint.turns),
            next_agent=checkpoint.next_agent,
            ended=checkpoint.ended,
            fixed=self.fixed,
            redactor=self.redactor,
            ui_responses=self.ui_responses,
            answers=dict(self.answers),
            open_turn=kept.opened(),
            record_answer=kept.record_answer,
            keep_open_turn=kept.keep_open_turn,
            answer=self.answer,
            clock=WorkedTime(self.wall_clock_s, checkpoint.counters.worked_s),
        )
        return self.last

    async def run(
        self,
        kept: Kept | None = None,
        *,
        stopping: Callable[[], bool] = never,
        failed: Mapping[str, int] | None = None,
    ) -> tuple[Outcome, Kept]:
        kept = kept or Kept()
        outcome = await converse(self.conversation(kept, failed=failed), commit=kept.commit, stopping=stopping)
        return outcome, kept

    def questions(self) -> list[Question]:
        """What the last chat rests with."""
        assert self.last is not None
        return self.last.questions

    def give(self, question: Question, response: Mapping[str, Any]) -> None:
        """A person answers this question, and the run goes on with the next `run`."""
        responses = {str(question.tool): response}
        self.answers[question.id] = {"responses": responses, "question": question.as_document()}

    async def run_to_its_close(self, kept: Kept | None = None) -> tuple[Outcome, Kept]:
        outcome, kept = await self.run(kept)
        assert self.last is not None
        return await close(self.last, outcome), kept
