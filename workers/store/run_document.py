"""The run document: the fields of a new run, the public view of a run, and the history of its owners."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from workers.store.dedupe_key import quote_app_id
from workers.store.run import (
    ISOLATED_LANE_PREFIX,
    RUN_FORMAT,
    SUSPECT_LOSSES,
    RunRequest,
    RunState,
    TriggerEvent,
    new_run_id,
)
from workers.store.storable import NotStorableError, check_storable
from workflows.outcome import OutcomeKind
from workflows.package.trigger_specs.priority import MAX_PRIORITY, MIN_PRIORITY

Document = dict[str, Any]

MAX_HISTORY = 50
MAX_REASON = 300
MAX_ORDER_KEY = 1000

_TEXTS = ("app_id", "workflow", "user_id", "chat_id", "correlation_id", "parent_run_id", "trigger.name", "trigger.id")
_texts_of = attrgetter(*_TEXTS)

# Internal fields, with which a run finds its worker.
_HIDDEN = frozenset(
    {
        "_id",
        "lane",
        "wake_at",
        "wakes",
        "worker_losses",
        "losses_alone",
        "progress",
        "claimed_at",
        "ready_at",
        "order_head",
        "traceparent",
        "format",
    }
)


def run_document(request: RunRequest, *, now: datetime, republish_after: timedelta) -> Document:
    run_id = new_run_id()
    if not MIN_PRIORITY <= request.priority <= MAX_PRIORITY:
        raise NotStorableError(f"priority is {request.priority}; it is from {MIN_PRIORITY} to {MAX_PRIORITY}")
    _check_texts(request)
    check_storable(request.input)
    check_storable(request.message, path="message")
    check_storable(request.ui_responses, path="ui_responses", any_key=True)
    return {
        "_id": run_id,
        "format": RUN_FORMAT,
        "app_id": request.app_id,
        "user_id": request.user_id,
        "chat_id": request.chat_id or run_id,
        "workflow": request.workflow,
        "package_version": None,
        "trigger": trigger_document(request.trigger),
        "dedupe_key": request.dedupe_key,
        "correlation_id": request.correlation_id or run_id,
        "parent_run_id": request.parent_run_id,
        "replay_of": request.replay_of,
        "input": dict(request.input),
        "message": request.message,
        "priority": request.priority,
        "state": RunState.QUEUED.value,
        "created_at": now,
        **_initial_fields(),
        **_start_fields(request, now, republish_after),
        **({"chain": list(request.chain)} if request.chain else {}),
        **({} if request.traceparent is None else {"traceparent": request.traceparent}),
        **({} if request.keys_of is None else {"keys_of": request.keys_of}),
        **({} if request.ui_responses is None else {"ui_responses": dict(request.ui_responses)}),
        **({} if request.order_key is None else {"order": _order_fields(request, request.order_key, run_id)}),
    }


def format_of(run: Mapping[str, Any]) -> int:
    """Returns the format; runs of versions without formats have 1."""
    return int(run.get("format", 1))


def _check_texts(request: RunRequest) -> None:
    texts = _texts_of(request)
    if "".join([text for text in texts if text]).isascii():
        return  # the common case
    for name, text in zip(_TEXTS, texts, strict=True):
        check_storable(text, path=name)


def trigger_document(event: TriggerEvent) -> Document:
    return {
        "type": event.type,
        "name": event.name,
        "id": event.id,
        "fired_at": event.fired_at,
        "nominal_at": event.nominal_at,
    }


def _start_fields(request: RunRequest, now: datetime, republish_after: timedelta) -> Document:
    """Returns the lane and wake-up time of a new run.

    A run that starts later is in no lane until then, like a retry: the reconciler finds it by `wake_at`.
    """
    if request.not_before is not None and request.not_before > now:
        return {"not_before": request.not_before, "wake_at": request.not_before}
    # `lane` is the app while the run may be claimed: see by_lane. The wake-up is sent right after the insert, and
    # counts as lost at `wake_at`.
    return {"lane": request.app_id, "wake_at": now + republish_after}


def _order_fields(request: RunRequest, key: str, run_id: str) -> Document:
    """Returns the order key, and the position in it.

    The position is the run id, so the clock and sequence of this process, unless the caller sets one.
    """
    check_storable([key, request.order_seq], path="order_key")
    if not 0 < len(key) <= MAX_ORDER_KEY:
        raise NotStorableError(f"order_key has {len(key)} characters; 1 to {MAX_ORDER_KEY} are possible")
    return {"key": key_of_app(request.app_id, key), "seq": request.order_seq or run_id}


def key_of_app(app_id: str, key: str) -> str:
    """Prefixes the key with the app, so that apps share no key."""
    return f"{quote_app_id(app_id)}/{key}"


def _initial_fields() -> Document:
    """Returns the fields of a run before its first owner.

    `hold` is the reason why it may not start, `held_by` names the limit (see by_limit_and_workflow), and `held_until`
    is the time from which it has room, if known.
    """
    return {
        **dict.fromkeys(("hold", "next_agent", "progress", "question", "outcome", "usage", "cancel_requested")),
        **dict.fromkeys(("not_before", "claimed_at", "started_at", "finished_at")),
        "attempt": 1,
        "worker_losses": 0,
        "wakes": 0,
        "turn": 0,
        "failed_tools": 0,
        "lease": {"owner": None, "token": 0, "until": None},
        "context": {},
        "answers": [],
        "errors": [],
        "history": [],
    }


def as_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a run as the CLI and the API show it: names of section 4, `run_id` for `_id`."""
    # In a released run that waits for a worker, `held_by` only serves the counts of limits.
    hidden = _HIDDEN if document.get("hold") else _HIDDEN | {"held_by", "held_until"}
    shown = {name: value for name, value in document.items() if name not in hidden}
    if debounce := document.get("debounce"):
        shown["debounce"] = {"until": debounce["until"], "events": len(debounce["events"])}
    if "question" in document:  # lists may leave it out
        shown["questions"] = document.get("questions") or ([document["question"]] if document["question"] else [])
    return {"run_id": document["_id"], "failed_tools": 0, **shown}  # missing in runs of older versions


# Parts of update pipelines. All expressions of one `$set` read the document as it was before.

# Ready means now: a past time could be in the future again for a new primary whose clock is behind.
NOT_HELD: Document = {"hold": None, "held_by": "$$REMOVE", "held_until": "$$REMOVE"}
# A suspect waits in a lane that only isolated processes serve: see `workers.store.worker_losses`.
LANE: Document = {
    "$cond": [{"$gte": ["$worker_losses", SUSPECT_LOSSES]}, {"$concat": [ISOLATED_LANE_PREFIX, "$app_id"]}, "$app_id"]
}
READY: Document = {**NOT_HELD, "lane": LANE, "not_before": None, "ready_at": "$$NOW"}
NOT_READY: Document = {**NOT_HELD, "lane": "$$REMOVE"}
CLEAR_LEASE: Document = {"lease.owner": None, "lease.until": None}
# A run that ends or rests leaves its turn to the next one of its order key: see `workers.store.run_order`.
CLEAR_ORDER_HEAD: Document = {"order_head": "$$REMOVE"}

# A run that is given up with a cancellation request does not start again.
_CANCELLED_FIELDS: Document = {
    **NOT_READY,
    **CLEAR_ORDER_HEAD,
    "state": RunState.CANCELLED.value,
    "outcome": {
        "kind": OutcomeKind.CANCELLED.value,
        "reason": {"$concat": ["cancelled by ", "$cancel_requested.by"]},
        "error": None,
    },
    "question": None,  # no question is open any more
    "questions": "$$REMOVE",
    "not_before": None,
    "finished_at": "$$NOW",
}
ENDED_IF_CANCELLED: Document = {
    name: {"$cond": [{"$gt": ["$cancel_requested", None]}, value, f"${name}"]}
    for name, value in _CANCELLED_FIELDS.items()
}


def append_history(how: str, reason: str) -> Document:
    """Appends a line to the history of the run.

    It holds the owner, its time, its progress and the reason of its end.
    """
    line = {
        "token": "$lease.token",
        "owner": "$lease.owner",
        "from": "$claimed_at",
        "until": "$$NOW",
        "turn": "$turn",
        "package_version": "$package_version",
        "ended": how,
        "reason": literal(reason[:MAX_REASON]),
        "alone": {"$cond": [{"$eq": ["$lease.alone", True]}, True, "$$REMOVE"]},
    }
    lines = {"$concatArrays": [{"$ifNull": ["$history", []]}, [line]]}
    return {"history": {"$slice": [lines, -MAX_HISTORY]}}


def literal(value: Any) -> Document:
    """Quotes a value: in a pipeline a `$` would name a field, and texts of users may contain one."""
    return {"$literal": value}
