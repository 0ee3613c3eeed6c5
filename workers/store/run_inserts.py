"""Inserts: new runs of a process share bulk writes, so that many cost little more than one.

A run with an order key is placed among those of its key first: see `workers.store.run_order`. Of several in one command
the first may become the head.
"""

import logging
from collections.abc import Iterable, Sequence

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import DuplicateKeyError, PyMongoError, WTimeoutError

from accounting.infra.aio import gather_all
from accounting.infra.bulk_writer import BulkWriter, collect_bulk_errors
from workers.store.run_document import Document
from workers.store.run_order import RunOrder, as_head, as_held, is_head_taken, order_key_of

log = logging.getLogger(__name__)

_MAX_TRIES = 20


class RunInserts:
    def __init__(self, runs: AsyncCollection[Document], order: RunOrder) -> None:
        self._runs = runs
        self._order = order
        self._writer = BulkWriter(self._insert_all, drop_cancelled=True)

    async def insert(self, run: Document) -> bool:
        """Inserts a run durably; returns whether a worker may take it now.

        Raises DuplicateKeyError for an event that has its run already.
        """
        for _ in range(_MAX_TRIES):
            try:
                return await self._writer.submit(run)
            except DuplicateKeyError as error:
                if not is_head_taken(error):
                    raise
            # Another run became the head of its key meanwhile: the next try is placed behind it.
        raise WTimeoutError("other runs of its order key come and go faster than it finds its place")

    async def insert_all(self, runs: Sequence[Document]) -> Sequence[bool | Exception]:
        """Inserts several runs in one command; each result is that of `insert`.

        A run that lost the race for the head of its key is not retried here.
        """
        return await self._writer.submit_all(runs)

    async def _insert_all(self, runs: Sequence[Document]) -> Sequence[bool | Exception]:
        placed = await self._place_in_order(runs)
        errors = await collect_bulk_errors(self._runs.insert_many(placed, ordered=False), len(placed))
        held = {
            run["_id"]: run for run, error in zip(placed, errors, strict=True) if error is None and "held_by" in run
        }
        ready = {run["_id"] for run in placed if "lane" in run} | await self._release_without_head(held.values())
        return [run["_id"] in ready if error is None else error for run, error in zip(placed, errors, strict=True)]

    async def _place_in_order(self, runs: Sequence[Document]) -> list[Document]:
        """Returns the runs in their order, those with an order key as heads or held."""
        keys = {key for run in runs if (key := order_key_of(run)) is not None}
        if not keys:
            return [*runs]
        headless, awaited = await gather_all([self._order.keys_without_head(keys), self._order.keys_with_waiters(keys)])
        free = headless - awaited
        placed: dict[str, Document] = {}
        for run in sorted(runs, key=_sequence):
            key = order_key_of(run)
            placed[run["_id"]] = run if key is None else as_head(run) if key in free else as_held(run)
            free.discard(key or "")
        return [placed[run["_id"]] for run in runs]

    async def _release_without_head(self, held: Iterable[Document]) -> set[str]:
        """Releases held runs whose predecessors have left since they were placed."""
        keys = {run["order"]["key"] for run in held}
        try:
            headless = await self._order.keys_without_head(keys) if keys else ()
            released = await gather_all(self._order.release_next(key, sends_wakeup=False) for key in headless)
        except PyMongoError as error:  # the runs are durable; the reconciler releases them
            log.warning("order_left_to_reconciler", extra={"keys": len(keys), "error": type(error).__name__})
            return set()
        return {run["_id"] for run in released if run is not None and "lane" in run}


def _sequence(run: Document) -> tuple[str, str]:
    order = run.get("order")
    return (order["seq"] if order else "", run["_id"])
