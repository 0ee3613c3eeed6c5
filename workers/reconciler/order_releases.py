"""Order releases: runs that wait for their turn although no earlier run of their key is left.

The process that ends a run releases the next one of its order key. This step releases the rest: that process died, or
was of an older version, which leaves the turn to ended runs. Each pass continues where the last one stopped, through
the index alone, so that a hundred thousand waiting keys cost at most `MAX_ENTRIES` at a time, and the keys of a crash
at most `MAX_RELEASED`.
"""

import logging
from collections import Counter
from collections.abc import Collection

from accounting.infra.aio import gather_all
from workers.store.run import HoldKind
from workers.store.run_document import Document
from workers.store.run_order import RunOrder
from workers.store.run_store import RunStore
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

MAX_ENTRIES = 2_000  # index entries in one pass
MAX_RELEASED = 500  # each is a write, and reclaims must not wait for many of them
MAX_CONCURRENT = 50


class OrderReleases:
    def __init__(
        self,
        store: RunStore,
        wakeups: WakeupSender,
        *,
        max_entries: int = MAX_ENTRIES,
        max_released: int = MAX_RELEASED,
    ) -> None:
        self._order: RunOrder = store.order
        self._wakeups = wakeups
        self._max_entries = max_entries
        self._max_released = max_released
        self._last = ""

    async def run_pass(self, counts: Counter[str]) -> None:
        keys, self._last = await self._order.list_waiting_keys(after=self._last, limit=self._max_entries)
        if not keys:
            return
        await self._order.clear_finished_heads(keys)
        headless = sorted(await self._order.keys_without_head(keys))
        if len(headless) > self._max_released:
            headless = headless[: self._max_released]
            self._last = headless[-1]
        for start in range(0, len(headless), MAX_CONCURRENT):
            chunk = headless[start : start + MAX_CONCURRENT]
            counts[HoldKind.CONCURRENCY.value] += self._wake_heads(
                await gather_all(self._order.release_next(key, sends_wakeup=True) for key in chunk)
            )

    def _wake_heads(self, heads: Collection[Document | None]) -> int:
        released = [head for head in heads if head is not None]
        for head in released:
            log.info("run_let_go_in_order", extra={"run_id": head["_id"], "app_id": head["app_id"]})
            if "lane" in head:
                self._wakeups.send(head["_id"])
        return len(released)
