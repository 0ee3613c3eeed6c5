"""Rules of the run document: each state has its own, and every writer keeps them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workers.store.run import TERMINAL, RunState

Document = Mapping[str, Any]


def faults_of(run: Document) -> list[str]:
    rule = _RULES.get(run["state"], _check_ended)
    return [f"{run['_id']} is {run['state']}: {fault}" for fault in (*rule(run), *_check_order(run))]


def _check_order(run: Document) -> Iterator[str]:
    key, head, held_by = (run.get("order") or {}).get("key"), run.get("order_head"), run.get("held_by")
    if head is not None and (head != key or run["state"] not in {RunState.QUEUED, RunState.RUNNING}):
        yield f"it is the head of {head}, and its order is {key}"
    if str(held_by).startswith("order:") and (held_by != f"order:{key}" or head is not None):
        yield f"it is held by {held_by}, its order is {key}, and it is the head of {head}"
    # Next to the head only an answered run may go on.
    free = key is not None and head is None and not str(held_by).startswith("order:") and not run.get("answers")
    if free and run["state"] in {RunState.QUEUED, RunState.RUNNING}:
        yield f"it may start, and it is not the head of {key}"


def _check_queued(run: Document) -> Iterator[str]:
    lane, held_by = run.get("lane"), run.get("held_by")
    yield from _check_unowned(run)
    yield from _empty(run, "outcome", "usage", "finished_at", "question", "cancel_requested")
    let_go = str(held_by or "released:").startswith("released:")
    if run["hold"] is not None and (lane is not None or let_go):
        yield f"it is held, by {held_by} in lane {lane}"
    if run["hold"] is None and lane is not None and (lane != run["app_id"] or not let_go):
        yield f"it is ready, in lane {lane} of {held_by}"
    if run["hold"] is None and lane is None and held_by is not None:
        yield f"no lane knows it, and {held_by} does"
    if run["wake_at"] is None or (run.get("not_before") or run["wake_at"]) > run["wake_at"]:
        yield f"it is woken at {run['wake_at']}, and may start at {run['not_before']}"


def _check_running(run: Document) -> Iterator[str]:
    if run["lease"]["owner"] is None or run["lease"]["until"] is None or run["claimed_at"] is None:
        yield f"its lease has no end: {run['lease']}"
    yield from _in_no_lane(run)
    yield from _empty(run, "outcome", "usage", "finished_at", "question")


def _check_ended(run: Document) -> Iterator[str]:
    yield from _check_unowned(run)
    if RunState(run["state"]) not in TERMINAL and run.get("cancel_requested") is not None:
        yield "it rests, and somebody wants it cancelled"
    if not isinstance(run["outcome"], Mapping) or not isinstance(run["outcome"]["reason"], str):
        yield f"its outcome is {run['outcome']}"
    if run["finished_at"] is None or run["usage"] is None:
        yield f"it ended at {run['finished_at']}, with usage {run['usage']}"
    yield from _in_no_lane(run)


_RULES = {RunState.QUEUED: _check_queued, RunState.RUNNING: _check_running}


def _check_unowned(run: Document) -> Iterator[str]:
    if run["lease"]["owner"] is not None or run["lease"]["until"] is not None:
        yield f"somebody owns it: {run['lease']}"


def _in_no_lane(run: Document) -> Iterator[str]:
    if "lane" in run or "held_by" in run or run["hold"] is not None:
        yield f"lane {run.get('lane')}, hold {run['hold']} by {run.get('held_by')}"


def _empty(run: Document, *names: str) -> Iterator[str]:
    yield from (f"{name} is {run[name]}" for name in names if run.get(name) is not None)


def turns_faults(run: Document, turns: Sequence[Document]) -> Iterator[str]:
    """Counted turns are 1 to n, by owners in the history; an uncounted one of the last owner is the next."""
    numbers = sorted(turn["number"] for turn in turns)
    counted = list(range(1, run["turn"] + 1))
    if numbers not in (counted, [*counted, run["turn"] + 1]):
        yield f"{run['_id']} has {run['turn']} turns, kept are {numbers}"
    if any(turn["number"] == run["turn"] and turn["token"] != run["context"]["token"] for turn in turns):
        yield f"{run['_id']} counts a turn {run['turn']} that another owner has written over"
    if any(turn["token"] > run["lease"]["token"] for turn in turns):
        yield f"{run['_id']} has a turn of an owner it never had"


def later_faults(before: Document, now: Document) -> Iterator[str]:
    """Returns faults between two reads."""
    if now["lease"]["token"] < before["lease"]["token"] or now["turn"] < before["turn"]:
        yield f"{now['_id']} went back from {before['lease']}, turn {before['turn']}, to {now['lease']}, {now['turn']}"
    if before["state"] in TERMINAL and _lasting(before) != _lasting(now):
        yield f"{now['_id']} had ended, and changed"


def _lasting(run: Document) -> Document:
    """Returns all but the age, which tests change, and `open`, which the next event corrects."""
    return {**run, "finished_at": None, "debounce": {**run.get("debounce", {}), "open": None}}
