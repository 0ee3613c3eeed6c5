"""The run document: what a new one says, what everybody may see of one, and the history of its owners."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from workers.store.run import RunRequest, RunState, new_run_id
from workers.store.storable import NotStorableError, check_storable
from workflows.outcome import OutcomeKind
from workflows.package.priority import LEAST_URGENT, MOST_URGENT

Document = dict[str, Any]

MAX_HISTORY = 50
MAX_REASON = 300

# Ours alone: how a run finds its worker.
_HIDDEN = frozenset({"_id", "lane", "wake_at", "wakes", "worker_losses", "progress", "claimed_at"})


def run_document(request: RunRequest, *, now: datetime, republish_after: timedelta) -> Document:
    run_id = new_run_id()
    if not LEAST_URGENT <= request.priority <= MOST_URGENT:
        raise NotStorableError(f"priority is {request.priority}; it is from {LEAST_URGENT} to {MOST_URGENT}")
    check_storable(request.input)
    check_storable(request.message, path="message")
    return {
        "_id": run_id,
        "app_id": request.app_id,
        "user_id": request.user_id,
        "chat_id": request.chat_id or run_id,
        "workflow": request.workflow,
        "package_version": None,
        "trigger": asdict(request.trigger),
        "dedupe_key": request.dedupe_key,
        "correlation_id": request.correlation_id or run_id,
        "parent_run_id": request.parent_run_id,
        "replay_of": request.replay_of,
        "input": dict(request.input),
        "message": request.message,
        "priority": request.priority,
        "state": RunState.QUEUED.value,
        # The app, while the run may be claimed: see by_lane. `held_by` names the limit that holds it: see
        # by_limit_and_workflow.
        "lane": request.app_id,
        # When a wake-up counts as lost. The message itself is sent right after the insert.
        "wake_at": now + republish_after,
        "created_at": now,
        **_not_yet(),
    }


def _not_yet() -> Document:
    """What a run says before anybody has worked on it."""
    return {
        **dict.fromkeys(("hold", "next_agent", "progress", "question", "outcome", "usage", "cancel_requested")),
        **dict.fromkeys(("not_before", "claimed_at", "started_at", "finished_at")),
        "attempt": 1,
        "worker_losses": 0,
        "wakes": 0,
        "turn": 0,
        "lease": {"owner": None, "token": 0, "until": None},
        "context": {},
        "answers": [],
        "errors": [],
        "history": [],
    }


def as_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """A run as the CLI and the API show it: section 4's names, `run_id` for `_id`."""
    # Of a run that was let go and waits for a worker, `held_by` is a note for those who count.
    hidden = _HIDDEN if document.get("hold") else _HIDDEN | {"held_by"}
    return {"run_id": document["_id"], **{name: value for name, value in document.items() if name not in hidden}}


# Parts of update pipelines. In one `$set` every expression sees the document as it was before.

# Ready means now: a time of the past would be one of the future again for a new primary whose clock is behind.
READY: Document = {"lane": "$app_id", "hold": None, "held_by": "$$REMOVE", "not_before": None}
NOT_READY: Document = {"lane": "$$REMOVE", "hold": None, "held_by": "$$REMOVE"}
LET_GO: Document = {"lease.owner": None, "lease.until": None}

# A run that is given up while somebody has asked to cancel it does not start again.
_CANCELLED: Document = {
    **NOT_READY,
    "state": RunState.CANCELLED.value,
    "outcome": {
        "kind": OutcomeKind.CANCELLED.value,
        "reason": {"$concat": ["cancelled by ", "$cancel_requested.by"]},
        "error": None,
    },
    "question": None,  # nobody is asked any more
    "not_before": None,
    "finished_at": "$$NOW",
}
ENDED_IF_CANCELLED: Document = {
    name: {"$cond": [{"$gt": ["$cancel_requested", None]}, value, f"${name}"]} for name, value in _CANCELLED.items()
}


def history_of(how: str, reason: str) -> Document:
    """One more line of the run's history: who had it, from when to when, how far it was, and how that ended."""
    line = {
        "token": "$lease.token",
        "owner": "$lease.owner",
        "from": "$claimed_at",
        "until": "$$NOW",
        "turn": "$turn",
        "package_version": "$package_version",
        "ended": how,
        "reason": literal(reason[:MAX_REASON]),
    }
    lines = {"$concatArrays": [{"$ifNull": ["$history", []]}, [line]]}
    return {"history": {"$slice": [lines, -MAX_HISTORY]}}


def literal(value: Any) -> Document:
    """In a pipeline a `$` would name a field, and anybody's text or data may have one."""
    return {"$literal": value}
