"""Rejections: how often a budget has kept a run from starting or a call from being made, counted here and told to the
store a moment later. A process that is killed loses what it has counted since.
"""

import asyncio
import logging
from contextvars import Context

from pymongo.errors import PyMongoError

from accounting.budgets.places import BudgetWindow
from accounting.budgets.window_store import WindowStore

log = logging.getLogger(__name__)

FLUSH_DELAY_S = 0.3


class RejectionCounter:
    def __init__(self, windows: WindowStore) -> None:
        self._windows = windows
        self._counts: dict[str, tuple[BudgetWindow, int]] = {}
        self._flush_task: asyncio.Task[None] | None = None

    def count(self, window: BudgetWindow) -> None:
        _, before = self._counts.get(window.id, (window, 0))
        self._counts[window.id] = window, before + 1
        if self._flush_task is None:
            self._flush_task = asyncio.create_task(self._flush_later(), context=Context())  # of no one run

    async def close(self) -> None:
        if self._flush_task is not None:
            await asyncio.wait([self._flush_task])

    async def _flush_later(self) -> None:
        try:
            while self._counts:
                await asyncio.sleep(FLUSH_DELAY_S)
                await self._flush()
        finally:
            self._flush_task = None

    async def _flush(self) -> None:
        counts, self._counts = self._counts, {}
        if not counts:
            return
        try:
            await self._windows.add_rejections([*counts.values()])
        except PyMongoError as error:
            log.warning("budget_rejections_not_counted", extra={"error": type(error).__name__})
