"""Usage, added up by what metrics show of it. All totals are read once, and from then on those that have changed.

What has changed is told by `seq`, see the roll-up. Rows that are in no total yet are summed up anew at each look; there
are few while roll-ups go on. Apps without a label of their own are added up under one here already, so that a snapshot
is no larger for the thousands of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

from accounting.app_labels import AppLabels
from accounting.totals.sums import BY_CHANGE, STATE, STATE_ID, SUMMED, TOTALS
from accounting.totals.usage_query import EVERYTHING, TotalsReader, totals_in_snapshot
from accounting.usage import UsageTotals

NO_SEQ = -1
KEYS = ("app_id", "workflow", "model", "provider", "ok", "agent")

Document = dict[str, Any]
Key = tuple[Any, ...]
Sums = dict[Key, list[int]]


@dataclass(frozen=True, slots=True)
class UsageChange:
    """What a look has found. `anew`: what was known before counts no more."""

    seq: int
    is_full: bool = False
    totals: Sequence[Mapping[str, Any]] = ()
    waiting: Sequence[UsageTotals] = field(default_factory=list)

    def calls_by_app(self) -> list[tuple[str, int]]:
        of_totals = [(total["app_id"], int(total["calls"])) for total in self.totals]
        return [*of_totals, *((each.key["app_id"], each.calls) for each in self.waiting)]


class UsageCounts:
    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._database = database
        self._seq = NO_SEQ
        self._totals: dict[str, list[int]] = {}
        self._sums: Sums = {}

    async def read_change(self, session: AsyncClientSession) -> UsageChange:
        """As the ledger is at the moment of this snapshot. Nothing is taken over yet."""
        state = await self._database[STATE].find_one({"_id": STATE_ID, "ready": True}, session=session)
        if state is None:
            return UsageChange(
                NO_SEQ, is_full=True, waiting=await totals_in_snapshot(self._database, KEYS, EVERYTHING, session)
            )
        anew = state["seq"] < self._seq  # somebody has put back an older store
        since = NO_SEQ if anew else self._seq
        changed = self._database[TOTALS].find({"seq": {"$gt": since}}, session=session, hint=BY_CHANGE)
        totals = [] if state["seq"] == since else await changed.to_list(None)
        reader = TotalsReader(self._database, KEYS, session)
        await reader.add_pending(EVERYTHING)
        return UsageChange(state["seq"], anew, totals, reader.totals())

    def apply_change(self, change: UsageChange, apps: AppLabels) -> list[UsageTotals]:
        """All of it, with the label of each app for its name."""
        if change.is_full:
            self._totals, self._sums = {}, {}
        for total in change.totals:
            values = [int(total[name]) for name in SUMMED]
            before = self._totals.get(total["_id"])
            grown = values if before is None else [now - then for now, then in zip(values, before, strict=True)]
            _add_values(self._sums, _key(total, apps), grown)
            self._totals[total["_id"]] = values
        self._seq = change.seq
        return _as_totals(_add_waiting(self._sums, change, apps))


def _add_waiting(sums: Sums, change: UsageChange, apps: AppLabels) -> Sums:
    waiting: Sums = {}
    for each in change.waiting:
        _add_values(waiting, _key(each.key, apps), [getattr(each, name) for name in SUMMED])
    for key, values in waiting.items():
        _add_values(waiting, key, sums.get(key, [0] * len(values)))
    return {**sums, **waiting}


def _key(fields: Mapping[str, Any], apps: AppLabels) -> Key:
    return (apps.label(fields["app_id"]), *(fields[name] for name in KEYS[1:]))


def _add_values(sums: Sums, key: Key, values: Sequence[int]) -> None:
    have = sums.get(key)
    sums[key] = list(values) if have is None else [one + other for one, other in zip(have, values, strict=True)]


def _as_totals(sums: Sums) -> list[UsageTotals]:
    return [
        UsageTotals(key=dict(zip(KEYS, key, strict=True)), **dict(zip(SUMMED, values, strict=True)))
        for key, values in sums.items()
    ]
