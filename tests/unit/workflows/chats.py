"""Chats in this process: a package, the script provider, and everything a worker would keep, in lists."""

import copy
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from accounting.usage import ModelCall
from workflows.chat.agents import BuiltPackage, build_package
from workflows.chat.conversation import Checkpoint, Conversation, converse
from workflows.chat.meter import RunMeter
from workflows.chat.models import Models
from workflows.chat.transcript import Turn
from workflows.context.context_variables import ContextVariables
from workflows.context.redaction import Redactor
from workflows.models_file import ScriptModel
from workflows.outcome import Outcome
from workflows.package.models import Package

THREADS = ThreadPoolExecutor(4, thread_name_prefix="test-tools")


def never() -> bool:
    return False


@dataclass
class Kept:
    """What the store of a worker would hold, as JSON."""

    turns: list[str] = field(default_factory=list)
    checkpoints: list[tuple[str | None, str]] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)

    async def record(self, call: ModelCall) -> None:
        self.calls.append(call)

    async def commit(self, number: int, turn: Turn, checkpoint: Checkpoint) -> None:
        assert number == checkpoint.turn == len(self.turns) + 1
        self.turns.append(json.dumps(turn.as_document()))
        self.checkpoints.append((checkpoint.next_agent, json.dumps(dict(checkpoint.context))))

    def turn(self, number: int) -> Turn:
        return Turn.from_document(json.loads(self.turns[number - 1]))

    def context(self, number: int) -> dict[str, Any]:
        context: dict[str, Any] = json.loads(self.checkpoints[number - 1][1])
        return context

    @property
    def speakers(self) -> list[str]:
        return [self.turn(number).agent for number in range(1, len(self.turns) + 1)]

    def up_to(self, number: int) -> "Kept":
        return Kept(self.turns[:number], self.checkpoints[:number])


def built(package: Package, answers: Mapping[str, Any] | Path, folder: Path) -> BuiltPackage:
    # Beside the package, not in it: a package whose files change after it was read is not built.
    file = answers if isinstance(answers, Path) else folder.parent / f"{folder.name}-answers.yaml"
    if not isinstance(answers, Path):
        file.write_text(yaml.safe_dump(dict(answers)), encoding="utf-8")
    specs = {"default": ScriptModel(provider="script", file=file)}
    return build_package(package, Models(specs, lambda reference: reference), THREADS)


@dataclass
class Chat:
    """Runs a chat from its beginning or from a checkpoint, always with fresh objects, as another worker would."""

    built: BuiltPackage
    context: Mapping[str, Any] = field(default_factory=dict)
    suppressed: frozenset[str] = frozenset()
    max_calls: int = 100
    opening: str = "Begin."
    redactor: Redactor = field(default_factory=Redactor)

    async def run(
        self,
        kept: Kept | None = None,
        *,
        stopping: Callable[[], bool] = never,
        failed: Mapping[str, int] | None = None,
    ) -> tuple[Outcome, Kept]:
        kept = kept or Kept()
        number = len(kept.turns)
        context = kept.context(number) if number else copy.deepcopy(dict(self.context))
        conversation = Conversation(
            built=self.built,
            context=ContextVariables(context),
            suppressed=self.suppressed,
            meter=RunMeter(kept.record, self.max_calls, failed_by_agent=dict(failed or {})),
            opening=self.opening,
            turns=[kept.turn(each) for each in range(1, number + 1)],
            next_agent=kept.checkpoints[-1][0] if number else None,
            redactor=self.redactor,
        )
        outcome = await converse(conversation, commit=kept.commit, stopping=stopping)
        return outcome, kept
