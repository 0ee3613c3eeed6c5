"""Following the totals: all of them in memory, of which each look asks the store for what has changed.

By `seq`: see the roll-up. Rows that are not added yet are summed at each look; there are few while roll-ups go on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pymongo.asynchronous.client_session import AsyncClientSession

from accounting.totals.reading import EVERYTHING, Database, Reader, totals_at
from accounting.totals.sums import BY_CHANGE, STATE, STATE_ID, SUMMED, TOTALS, Sums, sum_up
from accounting.usage import UsageTotals


class UsageFollower:
    def __init__(self, database: Database, keys: Sequence[str]) -> None:
        self._database = database
        self._keys = keys
        self._forget()

    def _forget(self) -> None:
        self._seq = -1
        self._by_id: dict[str, Sums] = {}
        self._sums: dict[tuple[Any, ...], Sums] = {}

    async def look(self, session: AsyncClientSession) -> list[UsageTotals]:
        """As the ledger is at the moment of this snapshot."""
        state = await self._database[STATE].find_one({"_id": STATE_ID, "ready": True}, session=session)
        if state is None:
            return await totals_at(self._database, self._keys, EVERYTHING, session)
        if state["seq"] < self._seq:
            self._forget()  # somebody has put back an older store
        if state["seq"] > self._seq:
            await self._take_changes(session)
            self._seq = state["seq"]
        reader = Reader(self._database, self._keys, session, {key: dict(sums) for key, sums in self._sums.items()})
        await reader.add_waiting(EVERYTHING)
        return reader.totals()

    async def _take_changes(self, session: AsyncClientSession) -> None:
        changed = self._database[TOTALS].find({"seq": {"$gt": self._seq}}, session=session, hint=BY_CHANGE)
        async for total in changed:
            self._take(total)

    def _take(self, total: Mapping[str, Any]) -> None:
        now = {name: int(total[name]) for name in SUMMED}
        before = self._by_id.get(total["_id"], {})
        self._by_id[total["_id"]] = now
        grown = {name: value - before.get(name, 0) for name, value in now.items()}
        sum_up(self._sums, tuple(total[key] for key in self._keys), grown)
