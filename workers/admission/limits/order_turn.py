"""The turn of an order key: its runs are worked on one at a time, in the order of acceptance.

A new run is placed behind the others on insert (`workers.store.run_order`), so a claimed run always has its turn.
"""

from workers.admission.limits.limit import Released
from workers.store.limit_name import LimitName
from workers.store.run import Claim
from workers.store.run_order import RunOrder


class OrderTurn:
    def __init__(self, order: RunOrder) -> None:
        self._order = order

    async def has_room(self, limit: LimitName) -> int:
        return int(await self._order.head_of(limit.name) is None)

    async def admit(self, claim: Claim) -> None:
        del claim

    async def release(self, limit: LimitName, *, count: int = 1, after: str = "") -> Released:
        """Releases the next run of the key.

        Releases none while a run has the turn, even if that run waits for its next attempt, or if the next run is not
        due.
        """
        del count, after
        head = await self._order.release_next(limit.name, sends_wakeup=True)
        run_ids = [head["_id"]] if head is not None and "lane" in head else []
        return Released(run_ids, count=len(run_ids))
