"""Definitions: all budgets there are, as this process knows them. There are few, and they are read when they are asked
for, at most every two seconds. While the store is away those hold that were read last.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextvars import Context

import pymongo
from pymongo.errors import PyMongoError

from accounting.budgets.places import Applying, applying
from accounting.budgets.store import Budgets, KeptBudget

log = logging.getLogger(__name__)

READ_EVERY_S = 2.0
READ_WITHIN_S = 5.0
WAITED_FOR_S = 1.0  # by those who know some already
MOST_REMEMBERED = 10_000


class Definitions:
    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._known: Sequence[KeptBudget] | None = None
        self._looked_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self._applying: dict[tuple[str, str], tuple[Applying, ...]] = {}
        self._is_away = False

    async def applying(self, app_id: str, workflow: str) -> tuple[Applying, ...]:
        """Raises PyMongoError when none were ever read, and cannot be now."""
        if time.monotonic() - self._looked_at >= READ_EVERY_S:
            await self._look()
        if not self._known:
            return ()
        found = self._applying.get((app_id, workflow))
        if found is None:
            if len(self._applying) >= MOST_REMEMBERED:
                self._applying.clear()
            found = self._applying[app_id, workflow] = applying(self._known, app_id, workflow)
        return found

    async def _look(self) -> None:
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read(), context=Context())
            self._reading.add_done_callback(lambda done: done.cancelled() or done.exception())  # all may be gone
        reading = asyncio.shield(self._reading)
        if self._known is None:
            await reading
            return
        try:
            async with asyncio.timeout(WAITED_FOR_S):
                await reading
        except (PyMongoError, TimeoutError) as error:
            if not self._is_away:
                log.warning("budgets_not_read", extra={"error": type(error).__name__})
            self._is_away = True

    async def _read(self) -> None:
        try:
            with pymongo.timeout(READ_WITHIN_S):
                known = await self._budgets.list()
            if known != self._known:
                self._known = known
                self._applying.clear()
            self._is_away = False
        finally:
            self._looked_at = time.monotonic()
            self._reading = None
