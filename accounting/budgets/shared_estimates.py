"""Shared estimates: what this process learns about calls is known to the next one, and what others learn to this one.

No call waits for it. All of it is read at start. What is unknown then is looked up beside the call that wants it, once;
what is learnt is written at most every `WRITE_EVERY_S`, in one command. A process that is killed loses the last of it.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextvars import Context

from pymongo.errors import PyMongoError

from accounting.budgets.estimate_store import EstimateStore
from accounting.budgets.estimating import Estimates

log = logging.getLogger(__name__)

WRITE_EVERY_S = 10.0
MAX_KEYS_PER_COMMAND = 500  # keys in one command


class SharedEstimates:
    def __init__(self, store: EstimateStore, estimates: Estimates) -> None:
        self._store = store
        self._estimates = estimates
        self._lookup_task: asyncio.Task[None] | None = None
        self._flush_task: asyncio.Task[None] | None = None
        self._is_closed = False

    async def load(self) -> None:
        """Budgets work without it, as in a process that knows nothing yet."""
        try:
            self._estimates.add_stored(await self._store.read_newest())
        except PyMongoError as error:
            log.warning("budget_estimates_not_read", extra={"error": type(error).__name__})

    def look_up_unknown(self) -> None:
        if self._estimates.has_unknown and _is_done(self._lookup_task) and not self._is_closed:
            self._lookup_task = _start_task(self._look_up(), "budget estimates, lookup")

    def schedule_flush(self) -> None:
        if self._estimates.has_unsaved and _is_done(self._flush_task) and not self._is_closed:
            self._flush_task = _start_task(self._flush_later(), "budget estimates, writing")

    async def flush(self) -> None:
        """At once. What cannot be written now is tried again with what is learnt next."""
        learnt = self._estimates.take_unsaved(MAX_KEYS_PER_COMMAND)
        if not learnt:
            return
        try:
            await self._store.add(learnt)
        except BaseException as error:
            self._estimates.restore_unsaved(learnt)
            if not isinstance(error, PyMongoError):
                raise
            log.debug("budget_estimates_not_written", extra={"error": type(error).__name__})

    async def close(self) -> None:
        self._is_closed = True
        under_way = [task for task in (self._lookup_task, self._flush_task) if task is not None and not task.done()]
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)
        await self.flush()

    async def _look_up(self) -> None:
        while keys := self._estimates.take_unknown(MAX_KEYS_PER_COMMAND):
            try:
                self._estimates.add_stored(await self._store.read(keys))
            except PyMongoError as error:
                log.debug("budget_estimates_not_read", extra={"error": type(error).__name__})

    async def _flush_later(self) -> None:
        while self._estimates.has_unsaved:
            await asyncio.sleep(WRITE_EVERY_S)
            await self.flush()


def _is_done(task: "asyncio.Task[None] | None") -> bool:
    return task is None or task.done()


def _start_task(work: Coroutine[None, None, None], name: str) -> "asyncio.Task[None]":
    """In no caller's context: a deadline of one would be that of all."""
    return asyncio.get_running_loop().create_task(work, name=name, context=Context())
