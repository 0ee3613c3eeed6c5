"""Rejections: how often a budget has kept a run from starting or a call from being made, counted here and told to the
store a moment later. A process that is killed loses what it has counted since.
"""

import asyncio
import logging
from contextvars import Context

from pymongo.errors import PyMongoError

from accounting.budgets.places import Place
from accounting.budgets.window_store import WindowStore

log = logging.getLogger(__name__)

TOLD_AFTER_S = 0.3


class Rejections:
    def __init__(self, windows: WindowStore) -> None:
        self._windows = windows
        self._counts: dict[str, tuple[Place, int]] = {}
        self._telling: asyncio.Task[None] | None = None

    def count(self, place: Place) -> None:
        _, before = self._counts.get(place.id, (place, 0))
        self._counts[place.id] = place, before + 1
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_soon(), context=Context())  # of no one run

    async def close(self) -> None:
        if self._telling is not None:
            await asyncio.wait([self._telling])

    async def _tell_soon(self) -> None:
        try:
            while self._counts:
                await asyncio.sleep(TOLD_AFTER_S)
                await self._tell()
        finally:
            self._telling = None

    async def _tell(self) -> None:
        counts, self._counts = self._counts, {}
        if not counts:
            return
        try:
            await self._windows.add_rejections([*counts.values()])
        except PyMongoError as error:
            log.warning("budget_rejections_not_counted", extra={"error": type(error).__name__})
