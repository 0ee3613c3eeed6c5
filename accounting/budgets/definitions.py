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

from accounting.budgets.places import EffectiveBudget, effective_budgets
from accounting.budgets.store import BudgetStore, StoredBudget

log = logging.getLogger(__name__)

READ_EVERY_S = 2.0
READ_WITHIN_S = 5.0
REFRESH_WAIT_S = 1.0  # by those who know some already
MAX_CACHED_SCOPES = 10_000


class BudgetCache:
    def __init__(self, budgets: BudgetStore) -> None:
        self._budgets = budgets
        self._known: Sequence[StoredBudget] | None = None
        self._read_at = float("-inf")
        self._read_task: asyncio.Task[None] | None = None
        self._by_scope: dict[tuple[str, str], tuple[EffectiveBudget, ...]] = {}
        self._is_away = False

    async def effective_budgets(self, app_id: str, workflow: str) -> tuple[EffectiveBudget, ...]:
        """Raises PyMongoError when none were ever read, and cannot be now."""
        if time.monotonic() - self._read_at >= READ_EVERY_S:
            await self._refresh()
        if not self._known:
            return ()
        found = self._by_scope.get((app_id, workflow))
        if found is None:
            if len(self._by_scope) >= MAX_CACHED_SCOPES:
                self._by_scope.clear()
            found = self._by_scope[app_id, workflow] = effective_budgets(self._known, app_id, workflow)
        return found

    async def _refresh(self) -> None:
        if self._read_task is None:
            self._read_task = asyncio.get_running_loop().create_task(self._read(), context=Context())
            self._read_task.add_done_callback(lambda done: done.cancelled() or done.exception())  # all may be gone
        reading = asyncio.shield(self._read_task)
        if self._known is None:
            await reading
            return
        try:
            async with asyncio.timeout(REFRESH_WAIT_S):
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
                self._by_scope.clear()
            self._is_away = False
        finally:
            self._read_at = time.monotonic()
            self._read_task = None
