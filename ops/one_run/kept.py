"""What is kept of a run: what a worker would have in its store, as it would come back from there."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from accounting.usage import ModelCall
from ops.one_run.plan import Plan
from workers.steps.turn_record import turn_document
from workflows.chat.checkpoint import Checkpoint
from workflows.chat.live import Conversation
from workflows.chat.transcript import Turn
from workflows.context.documents import DocumentWrite
from workflows.context.writes import writes_of_turn


@dataclass(slots=True)
class Kept:
    """`errors` are those outside of its turns, of all attempts."""

    turns: list[Mapping[str, Any]] = field(default_factory=list)
    rest: Mapping[str, Any] = field(default_factory=dict)
    calls: list[ModelCall] = field(default_factory=list)
    writes: list[DocumentWrite] = field(default_factory=list)
    errors: list[Mapping[str, Any]] = field(default_factory=list)

    async def record(self, call: ModelCall) -> None:
        self.calls.append(call)

    def commit(self, plan: Plan, turn: Turn, checkpoint: Checkpoint) -> Mapping[str, Any]:
        document, state = turn_document(turn, checkpoint)
        document["errors"] = plan.around.redactor.data(document["errors"])
        self.writes.extend(
            writes_of_turn(
                plan.package, turn.context_changes, checkpoint.context, plan.key_facts, first=checkpoint.turn == 1
            )
        )
        self.turns.append(document)
        self.rest = {**state.pop("progress"), **state}
        return document

    def note_errors_of(self, plan: Plan, chat: Conversation) -> None:
        self.errors.extend(plan.around.redactor.data(each.as_document()) for each in chat.incidents)

    def checkpoint(self) -> Checkpoint | None:
        """A copy, to go on from; None before the first turn."""
        if not self.turns:
            return None
        return Checkpoint.from_json(json.loads(json.dumps({**self.rest, "turns": self.turns})))
