"""The order of runs: of the runs of an app with one order key, one at a time runs, in the order of acceptance.

1. A new run becomes the head of its key, `order_head`, if the key has neither a head nor waiting runs. A unique index
   settles the race. Otherwise the run is held by `order:<key>` until it becomes the head.
2. A write that ends a run or lets it rest removes its `order_head`. Its process then releases the first waiting run
   with one command, which the index refuses if another process was faster.
3. After the insert of a held run its process reads the head again: either the run that left or the run that came sees
   the other. If that process dies in between, the reconciler releases the run.

A head that waits for its next attempt, for its time or for a limit keeps its turn, and so does one whose worker died.
Reads are local: they include all writes that this server ever acknowledged, even without a known majority.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pymongo import ASCENDING, IndexModel, ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import DuplicateKeyError, PyMongoError
from pymongo.read_concern import ReadConcern

from workers.store.limit_name import LimitKind
from workers.store.run import UNFINISHED, HoldKind, RunState
from workers.store.run_document import LANE, Document

log = logging.getLogger(__name__)

ORDER_PREFIX = f"{LimitKind.ORDER.value}:"
ORDER_PREFIX_END = f"{LimitKind.ORDER.value};"  # the first name that sorts after all of them
HELD_IN_ORDER: Mapping[str, Any] = {"$gte": ORDER_PREFIX, "$lt": ORDER_PREFIX_END}
_FIRST = {"held_by": ASCENDING, "order.seq": ASCENDING, "_id": ASCENDING}
_ORDER = list(_FIRST.items())

ORDER_INDEXES = (
    # The head of each order key.
    IndexModel(
        [("order_head", ASCENDING)],
        name="one_head_of_each_order",
        unique=True,
        partialFilterExpression={"order_head": {"$exists": True}},
    ),
    # The runs that wait for their turn, in order.
    IndexModel(_ORDER, name="by_order", partialFilterExpression={"held_by": HELD_IN_ORDER}),
)
_HEADS, _WAITING = (index.document["name"] for index in ORDER_INDEXES)


def order_key_of(run: Mapping[str, Any]) -> str | None:
    """Returns the order key of a run document, not of a request to replay it."""
    order = run.get("order")
    return None if order is None else str(order["key"])


def awaited_order_key(run: Mapping[str, Any]) -> str | None:
    """Returns the order key that a held run waits for; None for other runs."""
    return order_key_of(run) if str(run.get("held_by")).startswith(ORDER_PREFIX) else None


def as_head(run: Document) -> Document:
    return {**_without_place(run), "order_head": run["order"]["key"]}


def as_held(run: Document) -> Document:
    placed = {**_without_place(run), "hold": HoldKind.CONCURRENCY.value, "held_by": ORDER_PREFIX + run["order"]["key"]}
    placed.pop("lane", None)
    return placed


def _without_place(run: Document) -> Document:
    unplaced = {**run, "hold": None}
    unplaced.pop("order_head", None)
    unplaced.pop("held_by", None)
    return unplaced


def is_head_taken(error: DuplicateKeyError) -> bool:
    return is_index_conflict(error, "order_head")


def is_index_conflict(error: DuplicateKeyError, field: str) -> bool:
    """Returns whether the unique index on this field caused the error."""
    return field in ((error.details or {}).get("keyPattern") or {})


class RunOrder:
    def __init__(self, runs: AsyncCollection[Document], *, republish_after_ms: int) -> None:
        self._runs = runs.with_options(read_concern=ReadConcern("local"))
        self._republish_after_ms = republish_after_ms

    async def keys_without_head(self, keys: Collection[str]) -> set[str]:
        """Returns the keys that have no head."""
        query = {"order_head": {"$in": [*keys]}}
        found = self._runs.find(query, {"_id": 0, "order_head": 1}, hint=_HEADS)
        return set(keys) - {run["order_head"] async for run in found}

    async def keys_with_waiters(self, keys: Collection[str]) -> set[str]:
        """Returns the keys that have waiting runs, with a seek for each."""
        pipeline: list[Mapping[str, Any]] = [
            {"$match": {"held_by": {"$in": [ORDER_PREFIX + key for key in keys]}}},
            {"$sort": _FIRST},
            {"$group": {"_id": "$held_by"}},
        ]
        found = await self._runs.aggregate(pipeline, hint=_WAITING)
        return {row["_id"].removeprefix(ORDER_PREFIX) async for row in found}

    async def head_of(self, key: str) -> str | None:
        """Returns the run that has the turn."""
        head = await self._runs.find_one({"order_head": key}, {"_id": 1}, hint=_HEADS)
        return None if head is None else str(head["_id"])

    async def release_next(self, key: str, *, sends_wakeup: bool) -> Document | None:
        """Makes the first waiting run the head. Returns None if there is a head, or no run waits.

        `sends_wakeup`: the caller sends its wake-up, if it has a `lane`; otherwise the reconciler does, in its next
        pass.
        """
        waiting = {"held_by": ORDER_PREFIX + key, "state": RunState.QUEUED.value}
        try:
            return await self._runs.find_one_and_update(
                waiting,
                [{"$set": self._head_fields(sends_wakeup=sends_wakeup)}],
                {"lane": 1, "app_id": 1, "workflow": 1},
                sort=_ORDER,
                hint=_WAITING,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:
            return None

    async def release_after(self, run: Mapping[str, Any]) -> None:
        """Releases the next run after this one has ended or come to rest.

        The caller sends no wake-ups.
        """
        key = order_key_of(run)
        if key is None:
            return
        try:
            await self.release_next(key, sends_wakeup=False)
        except PyMongoError as error:
            log.warning("order_left_to_reconciler", extra={"keys": 1, "error": type(error).__name__})

    def _head_fields(self, *, sends_wakeup: bool) -> Document:
        """Returns the fields of a new head, which may still have to wait for its time.

        null sorts before every date.
        """
        later = {"$gt": ["$not_before", "$$NOW"]}
        wake_at = {"$add": ["$$NOW", self._republish_after_ms if sends_wakeup else 0]}
        return {
            "order_head": "$order.key",
            "hold": None,
            "held_by": "$$REMOVE",
            "lane": {"$cond": [later, "$$REMOVE", LANE]},
            "not_before": {"$cond": [later, "$not_before", None]},
            "wake_at": {"$cond": [later, "$not_before", wake_at]},
            "ready_at": "$$NOW",
            "wakes": 0,
        }

    async def clear_finished_heads(self, keys: Collection[str]) -> None:
        """Clears heads that an older version ended without giving up their turn."""
        over = {"$nin": [state.value for state in UNFINISHED]}
        ended = {"order_head": {"$in": [*keys]}, "state": over}
        if await self._runs.find_one(ended, {"_id": 1}, hint=_HEADS) is not None:
            await self._runs.update_many(ended, {"$unset": {"order_head": 1}}, hint=_HEADS)

    async def list_waiting_keys(self, *, after: str, limit: int) -> tuple[Sequence[str], str]:
        """Lists keys with waiting runs by name, and the key to continue after ("" for the beginning).

        Reads at most `limit` entries, from the index alone.
        """
        query = {"held_by": {"$gt": ORDER_PREFIX + after, "$lt": ORDER_PREFIX_END}}
        found = self._runs.find(query, {"_id": 0, "held_by": 1}, hint=_WAITING).sort(_ORDER).limit(limit)
        keys = [run["held_by"].removeprefix(ORDER_PREFIX) async for run in found]
        return list(dict.fromkeys(keys)), keys[-1] if len(keys) == limit else ""
