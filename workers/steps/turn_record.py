"""The record of a turn: its stored document, and the writes of a run that succeeds."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.store.run import Claim, run_labels
from workers.store.storable import NotStorableError, as_storable
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.chat_state import Conversation
from workflows.chat.history.checkpoint import Checkpoint
from workflows.chat.history.transcript import Turn
from workflows.chat.history.turn_journal import OpenTurn
from workflows.context.documents.document_access import DocumentWrite
from workflows.context.documents.document_writes import success_writes, turn_writes
from workflows.context.reads.persistent_states import PersistentState, changed_states
from workflows.context.state.state_derivation import changes_since

log = logging.getLogger(__name__)


def turn_document(turn: Turn, checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the turn's document and the fields for the run's own.

    Raises PackageDefect if they are too large to be stored.
    """
    try:
        document = {**turn.as_document(), "context_changes": as_storable(turn.context_changes)}
        context = as_storable(checkpoint.context)
    except NotStorableError as error:
        raise PackageDefect(str(error)) from None
    return document, {
        "next_agent": checkpoint.next_agent,
        "context": context,
        "progress": checkpoint.progress(),
        "failed_tools": checkpoint.counters.failed_tools,
    }


def record_of_writes(writes: Sequence[DocumentWrite]) -> dict[str, Any]:
    """Returns which documents were written.

    It is stored in the same step as the writes, since a replay would repeat them.
    """
    names = ("variable", "database", "collection", "key", "key_value")
    return {"writes": [{name: getattr(write, name) for name in names} for write in writes]} if writes else {}


def log_written(claim: Claim, writes: Sequence[DocumentWrite]) -> None:
    if writes:
        variables = [write.variable for write in writes]
        log.info("documents_written", extra={**run_labels(claim.document), "variables": variables})


def unfinished_turn(chat: Conversation, claim: Claim) -> dict[str, Any] | None:
    """Returns what is known of the tools of a turn that was not finished.

    `tokens` are those of the leases under which its calls were recorded; calls of other owners are not known.
    """
    turn = chat.current_turn
    if turn is None:
        return None
    noted = claim.document.get("unfinished") or {}
    earlier = noted.get("tokens", []) if turn.journal.is_durable and noted.get("turn") == turn.number else []
    return {**turn.calls_as_document(), "tokens": [*earlier, claim.token]}


def as_storable_turn(turn: OpenTurn) -> dict[str, Any]:
    """Returns an open turn's document. Raises NotStorableError if its tools' data is too large."""
    document = turn.as_document()
    for step in document["steps"]:
        if step["kind"] == "call":
            step["changes"] = as_storable(step["changes"])
    if "refreshed" in document:
        document["refreshed"] = as_storable(document["refreshed"])
    return document


@dataclass(frozen=True, slots=True)
class PendingWrites:
    """Writes for the step that ends a run: documents of the package, and states for later runs."""

    writes: tuple[DocumentWrite, ...] = ()
    states: tuple[PersistentState, ...] = ()


NO_WRITES = PendingWrites()


def writes_on_success(chat: Conversation, before: Mapping[str, str], facts: Mapping[str, Any]) -> PendingWrites:
    """Returns the writes of a run that succeeds.

    `before` is the context after the last turn. Changes since then come from the last steps of the package.
    """
    kept = chat.storable_context()
    at_the_end = changes_since(before, kept)
    changed = {name for turn in chat.turns for name in turn.context_changes}  # including turns before a resume
    changed |= at_the_end.keys()
    writes = (
        *turn_writes(chat.package, at_the_end, kept, facts),
        *success_writes(chat.package, changed, kept, facts),
    )
    return PendingWrites(writes, changed_states(chat.package, chat.fixed_values, changed, kept))
