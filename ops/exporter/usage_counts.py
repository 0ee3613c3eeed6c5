"""Sums of usage by the labels of the metrics: all totals are read once, then only changed ones.

The roll-up's `seq` identifies changes. Rows that are in no total yet are summed again in each read; they are few while
roll-ups run. Apps without a label of their own are merged here already, to keep the snapshot small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

from accounting.app_labels import AppLabels
from accounting.totals.row_sums import BY_CHANGE, STATE, STATE_ID, SUMMED, TOTALS
from accounting.totals.usage_query import EVERYTHING, TotalsReader, totals_in_snapshot
from accounting.usage import UsageTotals

NO_SEQ = -1
KEYS = ("app_id", "workflow", "model", "provider", "ok", "agent")

Document = dict[str, Any]
Key = tuple[Any, ...]
Sums = dict[Key, list[int]]


@dataclass(frozen=True, slots=True)
class UsageChange:
    """What one read has found; a full change replaces everything before."""

    seq: int
    is_full: bool = False
    totals: Sequence[Mapping[str, Any]] = ()
    waiting: Sequence[UsageTotals] = field(default_factory=list)

    def calls_by_app(self) -> list[tuple[str, int]]:
        from_totals = [(total["app_id"], int(total["calls"])) for total in self.totals]
        return [*from_totals, *((row.key["app_id"], row.calls) for row in self.waiting)]


class UsageCounts:
    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._database = database
        self._seq = NO_SEQ
        self._totals: dict[str, list[int]] = {}
        self._sums: Sums = {}

    async def read_change(self, session: AsyncClientSession) -> UsageChange:
        """Read the change at the snapshot's point in time, without applying it."""
        state = await self._database[STATE].find_one({"_id": STATE_ID, "ready": True}, session=session)
        if state is None:
            return UsageChange(
                NO_SEQ, is_full=True, waiting=await totals_in_snapshot(self._database, KEYS, EVERYTHING, session)
            )
        is_full = state["seq"] < self._seq  # an older backup was restored
        since = NO_SEQ if is_full else self._seq
        changed = self._database[TOTALS].find({"seq": {"$gt": since}}, session=session, hint=BY_CHANGE)
        totals = [] if state["seq"] == since else await changed.to_list(None)
        reader = TotalsReader(self._database, KEYS, session)
        await reader.add_pending(EVERYTHING)
        return UsageChange(state["seq"], is_full, totals, reader.totals())

    def apply_change(self, change: UsageChange, apps: AppLabels) -> list[UsageTotals]:
        """Apply a change; return all sums, with labels instead of app ids."""
        if change.is_full:
            self._totals, self._sums = {}, {}
        for total in change.totals:
            values = [int(total[name]) for name in SUMMED]
            previous = self._totals.get(total["_id"])
            growth = values if previous is None else [new - old for new, old in zip(values, previous, strict=True)]
            _add_values(self._sums, _key(total, apps), growth)
            self._totals[total["_id"]] = values
        self._seq = change.seq
        return _as_totals(_add_waiting(self._sums, change, apps))


def _add_waiting(sums: Sums, change: UsageChange, apps: AppLabels) -> Sums:
    waiting: Sums = {}
    for row in change.waiting:
        _add_values(waiting, _key(row.key, apps), [getattr(row, name) for name in SUMMED])
    for key, values in waiting.items():
        _add_values(waiting, key, sums.get(key, [0] * len(values)))
    return {**sums, **waiting}


def _key(fields: Mapping[str, Any], apps: AppLabels) -> Key:
    return (apps.label(fields["app_id"]), *(fields[name] for name in KEYS[1:]))


def _add_values(sums: Sums, key: Key, values: Sequence[int]) -> None:
    present = sums.get(key)
    sums[key] = list(values) if present is None else [old + new for old, new in zip(present, values, strict=True)]


def _as_totals(sums: Sums) -> list[UsageTotals]:
    return [
        UsageTotals(key=dict(zip(KEYS, key, strict=True)), **dict(zip(SUMMED, values, strict=True)))
        for key, values in sums.items()
    ]
