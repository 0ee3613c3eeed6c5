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
from workers.store.ordering import Order
from workers.store.run import HoldKind
from workers.store.run_document import Document
from workers.store.run_store import RunStore
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

MOST = 2_000  # entries of the index in one pass
MOST_LET_GO = 500  # each is a write: the runs of dead workers must not wait for them
AT_ONCE = 50


class Orders:
    def __init__(self, store: RunStore, wakeups: WakeupSender) -> None:
        self._order: Order = store.order
        self._wakeups = wakeups
        self._last = ""

    async def run_pass(self, counts: Counter[str]) -> None:
        keys, self._last = await self._order.some_waiting(after=self._last, most=MOST)
        if not keys:
            return
        await self._order.depose_ended(keys)
        headless = sorted(await self._order.headless(keys))
        if len(headless) > MOST_LET_GO:
            headless = headless[:MOST_LET_GO]
            self._last = headless[-1]
        for start in range(0, len(headless), AT_ONCE):
            some = headless[start : start + AT_ONCE]
            counts[HoldKind.CONCURRENCY.value] += self._woken(
                await gather_all(self._order.let_next_go(key, woken=True) for key in some)
            )

    def _woken(self, heads: Collection[Document | None]) -> int:
        let_go = [head for head in heads if head is not None]
        for head in let_go:
            log.info("run_let_go_in_order", extra={"run_id": head["_id"], "app_id": head["app_id"]})
            if "lane" in head:
                self._wakeups.send(head["_id"])
        return len(let_go)
