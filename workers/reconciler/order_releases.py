"""Orders: runs that wait for their turn though nobody before them is left.

Whoever ends a run lets the next one of its order go. What remains is for here: that process died, or it was of an
older version, which ends runs and leaves them the turn. Each pass goes on where the last one stopped, through the
index alone, so that a hundred thousand keys that are waited for cost no more than `MOST` at a time, and those that a
crash has left no more than `MOST_LET_GO`.
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

MAX_ENTRIES = 2_000  # entries of the index in one pass
MAX_RELEASED = 500  # each is a write: the runs of dead workers must not wait for them
MAX_CONCURRENT = 50


class OrderReleases:
    def __init__(self, store: RunStore, wakeups: WakeupSender) -> None:
        self._order: RunOrder = store.order
        self._wakeups = wakeups
        self._last = ""

    async def run_pass(self, counts: Counter[str]) -> None:
        keys, self._last = await self._order.list_waiting_keys(after=self._last, limit=MAX_ENTRIES)
        if not keys:
            return
        await self._order.clear_finished_heads(keys)
        headless = sorted(await self._order.keys_without_head(keys))
        if len(headless) > MAX_RELEASED:
            headless = headless[:MAX_RELEASED]
            self._last = headless[-1]
        for start in range(0, len(headless), MAX_CONCURRENT):
            some = headless[start : start + MAX_CONCURRENT]
            counts[HoldKind.CONCURRENCY.value] += self._wake_heads(
                await gather_all(self._order.release_next(key, sends_wakeup=True) for key in some)
            )

    def _wake_heads(self, heads: Collection[Document | None]) -> int:
        let_go = [head for head in heads if head is not None]
        for head in let_go:
            log.info("run_let_go_in_order", extra={"run_id": head["_id"], "app_id": head["app_id"]})
            if "lane" in head:
                self._wakeups.send(head["_id"])
        return len(let_go)
