"""Usage queries: sums of what was used, exactly as the ledger has it at that moment.

The sum has three parts, read in one snapshot: the totals of the roll-up, the rows that it has not added yet, and, for a
period that does not begin and end with an hour, the rows of those parts of hours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

from accounting.infra.snapshot_read import snapshot_read
from accounting.ledger.ledger_rows import COLLECTION, CORRECTS, DUE, NOT_OPEN, Row
from accounting.totals.row_sums import (
    HOURS,
    LABELS,
    STATE,
    STATE_ID,
    SUMMED,
    TOTALS,
    Sums,
    add_sums,
    additions,
    hour_of,
)
from accounting.usage import UsageTotals

Database = AsyncDatabase[dict[str, Any]]
Query = Mapping[str, Any]

# Names of groups, and the expressions to group by: over rows and over hours.
_BY_LABEL: Mapping[str, Any] = {name: f"${name}" for name in LABELS}
_DAY, _HOUR = "%Y-%m-%d", "%Y-%m-%dT%H:00Z"
_LAST_HOUR = datetime(9999, 12, 31, 23, tzinfo=UTC)


def _time_groups(field: str) -> Mapping[str, Any]:
    return {
        "day": {"$dateToString": {"date": f"${field}", "format": _DAY}},
        "hour": {"$dateToString": {"date": f"${field}", "format": _HOUR}},
    }


GROUPS: Mapping[str, Any] = {**_BY_LABEL, **_time_groups("at"), "run_id": "$run_id"}
_GROUPS_OF_HOURS: Mapping[str, Any] = {**_BY_LABEL, **_time_groups("hour")}


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Selects calls. None matches everything.

    `since` and `until` compare with the time at which a call began.
    """

    app_id: str | None = None
    workflow: str | None = None
    agent: str | None = None
    model: str | None = None
    provider: str | None = None
    trigger_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def query(self, time: str = "at") -> dict[str, Any]:
        names = ("app_id", "workflow", "agent", "model", "provider", "trigger_type")
        query = {name: value for name in names if (value := getattr(self, name)) is not None}
        bounds = {"$gte": self.since, "$lt": self.until}
        within = {sign: value for sign, value in bounds.items() if value is not None}
        return {**query, time: within} if within else query


EVERYTHING = UsageFilter()


async def usage_totals(
    database: Database, keys: Sequence[str], usage_filter: UsageFilter = EVERYTHING
) -> list[UsageTotals]:
    async def read_totals(session: AsyncClientSession) -> list[UsageTotals]:
        return await totals_in_snapshot(database, keys, usage_filter, session)

    return await snapshot_read(database, read_totals)


async def totals_in_snapshot(
    database: Database, keys: Sequence[str], usage_filter: UsageFilter, session: AsyncClientSession
) -> list[UsageTotals]:
    """Reads totals in a snapshot of the caller."""
    state = await database[STATE].find_one({"_id": STATE_ID, "ready": True}, session=session)
    reader = TotalsReader(database, keys, session)
    if state is None or "run_id" in keys:
        await reader.add_rows({**usage_filter.query(), "rollup": NOT_OPEN})
    elif usage_filter.since is None and usage_filter.until is None and not {"day", "hour"} & set(keys):
        await reader.add(TOTALS, GROUPS, usage_filter.query())
        await reader.add_pending(usage_filter)
    else:
        await reader.add_hours(usage_filter, kept_since=state.get("kept_since"))
    return reader.totals()


class TotalsReader:
    """Sums up, grouped by the given keys, all that is added to it."""

    def __init__(self, database: Database, keys: Sequence[str], session: AsyncClientSession) -> None:
        self._database = database
        self._keys = keys
        self._session = session
        self._sums: dict[tuple[Any, ...], Sums] = {}

    async def add(self, collection: str, groups: Mapping[str, Any], query: Query) -> None:
        group = {"_id": {key: groups[key] for key in self._keys}, **{name: {"$sum": f"${name}"} for name in SUMMED}}
        found = await self._database[collection].aggregate(
            [{"$match": dict(query)}, {"$group": group}], session=self._session
        )
        async for row in found:
            add_sums(self._sums, self._key(row["_id"]), {name: row[name] for name in SUMMED})

    async def add_rows(self, query: Query) -> None:
        found = await self._database[COLLECTION].aggregate(totals_pipeline(self._keys, query), session=self._session)
        async for row in found:
            add_sums(self._sums, self._key(row["_id"]), {name: row[name] for name in SUMMED})

    async def add_pending(self, usage_filter: UsageFilter) -> None:
        """Adds the rows that wait for the roll-up, in the way the roll-up will add them."""
        await self.add_rows({**usage_filter.query(), "rollup": DUE})
        correcting = self._database[COLLECTION].find(
            {**usage_filter.query(), "rollup": CORRECTS}, session=self._session
        )
        async for row in correcting:
            for added, sums in additions([row]):
                add_sums(self._sums, self._key_of_row(added), sums)

    async def add_hours(self, usage_filter: UsageFilter, *, kept_since: datetime | None) -> None:
        """Adds whole hours from their totals, and the parts before and after them from rows.

        Those rows are always younger than retention.
        """
        since, until = usage_filter.since, usage_filter.until
        if since is not None and kept_since is not None and since < kept_since:
            since = hour_of(since)  # retention has deleted the rows of this hour: only its total is left
        first = None if since is None else _next_hour(since)
        last = None if until is None else hour_of(until)
        if first is not None and last is not None and first > last:
            await self.add_rows({**replace(usage_filter, since=since).query(), "rollup": NOT_OPEN})
            return
        whole = replace(usage_filter, since=first, until=last)
        await self.add(HOURS, _GROUPS_OF_HOURS, whole.query("hour"))
        await self.add_pending(whole)
        for begin, end in ((since, first), (last, until)):
            if begin is not None and end is not None and begin < end:
                await self.add_rows({**replace(usage_filter, since=begin, until=end).query(), "rollup": NOT_OPEN})

    def totals(self) -> list[UsageTotals]:
        found = sorted(self._sums.items(), key=lambda item: [(value is None, value) for value in item[0]])
        return [
            UsageTotals(key=dict(zip(self._keys, key, strict=True)), **sums)
            for key, sums in found
            if any(sums.values())  # a correction may leave nothing
        ]

    def _key(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(named.get(key) for key in self._keys)

    def _key_of_row(self, row: Row) -> tuple[Any, ...]:
        at = {"day": row["at"].strftime(_DAY), "hour": row["at"].strftime(_HOUR)}
        return self._key({**row, **at})


def _next_hour(at: datetime) -> datetime:
    hour = hour_of(at)
    return hour if hour in (at, _LAST_HOUR) else hour + timedelta(hours=1)


def totals_pipeline(keys: Sequence[str], match: Query) -> list[dict[str, Any]]:
    """Builds the aggregation over rows of the ledger."""
    missing = {"$eq": ["$status", "missing"]}
    counted = {
        "calls": True,
        "missing": missing,
        "estimated": {"$eq": ["$status", "estimated"]},
        # A call without an answer costs nothing. The cost of an answer without a price is unknown.
        "unpriced": {"$and": [{"$eq": ["$cost_nano_usd", None]}, {"$not": [missing]}]},
    }
    group: dict[str, Any] = {
        "_id": {key: GROUPS[key] for key in keys},
        **{name: {"$sum": {"$cond": [condition, 1, 0]}} for name, condition in counted.items()},
        **{name: {"$sum": f"${name}"} for name in SUMMED if name not in counted},
    }
    return [{"$match": dict(match)}, {"$group": group}]


async def run_totals(database: Database, run_id: str, *, is_running: bool = False) -> UsageTotals:
    """Returns the `usage` of a run document, as of when its run ends or parks.

    Calls that are still open then are lost. `is_running`: leaves them out, as they are not over.
    """
    [totals] = await _sum_by_run(database, [run_id], {"rollup": NOT_OPEN} if is_running else {})
    return totals


async def run_totals_by_id(database: Database, run_ids: Sequence[str]) -> list[UsageTotals]:
    """Returns the usage of runs that have ended, in the order of `run_ids`."""
    return await _sum_by_run(database, run_ids, {})


async def _sum_by_run(database: Database, run_ids: Iterable[str], extra_query: Query) -> list[UsageTotals]:
    ids = [*run_ids]
    rows = await database[COLLECTION].aggregate(totals_pipeline(["run_id"], {"run_id": {"$in": ids}, **extra_query}))
    found: dict[str, dict[str, Any]] = {}
    async for row in rows:
        found[row["_id"]["run_id"]] = {name: int(row[name]) for name in SUMMED}
    return [UsageTotals(**found.get(run_id, {})) for run_id in ids]
