"""What is kept of a run: what a worker would have in its store, as it would come back from there."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from accounting.usage import ModelCall
from ops.one_run.plan import Plan
from workers.storable import NotStorableError, as_storable
from workflows.chat.checkpoint import Checkpoint
from workflows.chat.errors import PackageDefect
from workflows.chat.live import Conversation
from workflows.chat.transcript import Turn
from workflows.context.derived import changes
from workflows.context.documents import DocumentWrite
from workflows.context.writes import writes_at_success, writes_of_turn


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
        try:
            document = {**turn.as_document(), "context_changes": as_storable(turn.context_changes)}
            context = as_storable(checkpoint.context)
        except NotStorableError as error:
            raise PackageDefect(str(error)) from None
        document["errors"] = plan.around.redactor.data(document["errors"])
        self.writes.extend(
            writes_of_turn(
                plan.package, turn.context_changes, checkpoint.context, plan.key_facts, first=checkpoint.turn == 1
            )
        )
        self.turns.append(document)
        self.rest = {**checkpoint.progress(), "next_agent": checkpoint.next_agent, "context": context}
        return document

    def owed_at_success(self, plan: Plan, chat: Conversation, before: Mapping[str, str]) -> Sequence[DocumentWrite]:
        """`before`: the context as the last turn left it; what changed since is what the package's last steps did."""
        kept = chat.kept()
        at_the_end = changes(before, kept)
        changed = {name for turn in chat.turns for name in turn.context_changes}
        return (
            *writes_of_turn(plan.package, at_the_end, kept, plan.key_facts),
            *writes_at_success(plan.package, changed | at_the_end.keys(), kept, plan.key_facts),
        )

    def note_errors_of(self, plan: Plan, chat: Conversation) -> None:
        self.errors.extend(plan.around.redactor.data(each.as_document()) for each in chat.incidents)

    def checkpoint(self) -> Checkpoint | None:
        """A copy, to go on from; None before the first turn."""
        if not self.turns:
            return None
        return Checkpoint.from_json(json.loads(json.dumps({**self.rest, "turns": self.turns})))
