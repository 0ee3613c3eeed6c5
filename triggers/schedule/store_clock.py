"""The store clock: this machine's time, or the database's where the two disagree.

All schedulers share one database, and its clock already rules leases and waiting runs. A machine that is an hour
ahead would fire early, and count due times as missed. Between two syncs time follows the monotonic clock.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

log = logging.getLogger(__name__)

# More than synced clocks differ, and harmless: dedupe keys have nominal times.
MAX_CLOCK_SKEW = timedelta(seconds=5)
SYNC_INTERVAL_S = 5.0
MAX_ANSWER_DELAY_S = 2.0  # a slower answer is too inaccurate


class StoreClock:
    def __init__(
        self,
        database: AsyncDatabase[dict[str, Any]],
        *,
        local: Callable[[], datetime] = lambda: datetime.now(UTC),
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._local = local
        self._steady = steady
        self._base, self._since = local(), steady()
        self._is_off = False

    def __call__(self) -> datetime:
        return self._base + timedelta(seconds=self._steady() - self._since)

    async def sync(self) -> float:
        """Returns the seconds until the next sync."""
        asked_at = self._steady()
        answer = await self._database.command("hello", codec_options=self._database.codec_options)
        now = self._steady()
        if now - asked_at < MAX_ANSWER_DELAY_S:
            self._set(answer["localTime"] + timedelta(seconds=(now - asked_at) / 2), now)
        return SYNC_INTERVAL_S

    def _set(self, store: datetime, now: float) -> None:
        local = self._local()
        is_off = abs(local - store) > MAX_CLOCK_SKEW
        self._base, self._since = store if is_off else local, now
        if is_off and not self._is_off:
            log.warning("clock_is_off", extra={"ahead_s": round((local - store).total_seconds(), 1)})
        elif self._is_off and not is_off:
            log.info("clock_is_right_again")
        self._is_off = is_off
