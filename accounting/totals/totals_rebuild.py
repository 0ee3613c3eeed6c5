"""The rebuild: recomputes the totals from the ledger, or compares both.

1. Hour by hour, it compares the totals with the sums of those rows of the hour that were added, and corrects them in
   the same transaction. It leaves out hours from which retention has deleted rows: only their totals are left.
2. Then, a batch of apps at a time, it sets the totals of all time to the sums of the hours.

Correct totals are not written. Rows that wait for the roll-up are left to it, and may arrive meanwhile. A rebuild may
stop after any step and begin again.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pymongo import ASCENDING, DESCENDING, ReplaceOne, ReturnDocument
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from accounting.infra.snapshot_read import snapshot_read
from accounting.ledger.ledger_rows import BY_TIME, COLLECTION, CORRECTS, INDEXES
from accounting.totals.row_sums import (
    HOUR_INDEXES,
    HOURS,
    LABELS,
    STATE,
    STATE_ID,
    SUMMED,
    TOTAL_INDEXES,
    TOTALS,
    LabelValues,
    Sums,
    add_sums,
    hour_of,
    key_of,
    label_fields,
    labels_of,
    reversal_of,
)
from accounting.totals.usage_query import totals_pipeline

Database = AsyncDatabase[dict[str, Any]]
OnProgress = Callable[[int, int], None]
ByLabels = dict[LabelValues, Sums]
MAX_HOURS_PER_BATCH = 50_000  # totals of hours that one transaction sums up; in a large ledger one app has as many
RightAndStored = tuple[ByLabels, ByLabels]


@dataclass(frozen=True, slots=True)
class Difference:
    """A total that is not what its rows or hours sum up to.

    `hour` is None for the totals of all time.
    """

    hour: datetime | None
    labels: Mapping[str, Any]
    field: str
    right: int
    kept: int


async def ensure_indexes(database: Database) -> None:
    """Creates the indexes of rows and totals: a restored or new store may lack them."""
    for collection, indexes in ((COLLECTION, INDEXES), (HOURS, HOUR_INDEXES), (TOTALS, TOTAL_INDEXES)):
        await database[collection].create_indexes([*indexes])


async def find_differences(
    database: Database,
    on_hour: OnProgress = lambda _done, _all: None,
    *,
    max_hours_per_batch: int = MAX_HOURS_PER_BATCH,
) -> Sequence[Difference]:
    """Lists what a rebuild would change.

    `right` is the sum of the ledger or of the hours, `kept` is the stored total.
    """
    await ensure_indexes(database)
    found: list[Difference] = []
    hours = await _list_hours(database)
    for number, hour in enumerate(hours, 1):
        right, stored = await snapshot_read(database, partial(_read_hour, database, hour))
        found += compare_totals(hour, right, stored)
        on_hour(number, len(hours))
    async for app_ids in _list_app_batches(database, max_hours=max_hours_per_batch):
        right, stored = await snapshot_read(database, partial(_read_apps, database, app_ids))
        found += compare_totals(None, right, stored)
    return found


async def rebuild(
    database: Database,
    on_hour: OnProgress = lambda _done, _all: None,
    *,
    max_hours_per_batch: int = MAX_HOURS_PER_BATCH,
) -> int:
    """Rebuilds all totals and returns how many have changed."""
    return sum(
        [changed async for changed in rebuild_in_steps(database, on_hour, max_hours_per_batch=max_hours_per_batch)]
    )


async def rebuild_in_steps(
    database: Database,
    on_hour: OnProgress = lambda _done, _all: None,
    *,
    max_hours_per_batch: int = MAX_HOURS_PER_BATCH,
) -> AsyncGenerator[int]:
    """Yields after each step how many totals it has changed.

    Readers use totals from when all are there (`ready`), before that the rows.
    """
    await ensure_indexes(database)
    state = database[STATE]
    first = {"seq": 0, **await _initial_state(database)}
    await state.update_one({"_id": STATE_ID}, {"$setOnInsert": first}, upsert=True)
    hours = await _list_hours(database)
    for number, hour in enumerate(hours, 1):
        yield await _in_transaction(database, partial(_repair_hour, database, hour))
        on_hour(number, len(hours))
    async for app_ids in _list_app_batches(database, max_hours=max_hours_per_batch):
        yield await _in_transaction(database, partial(_repair_apps, database, app_ids))
    await state.update_one({"_id": STATE_ID}, {"$set": {"ready": True}})


async def _initial_state(database: Database) -> Mapping[str, datetime]:
    """Builds the first state. A lost state has recorded which rows are deleted.

    For hours before the oldest row there are only totals: made anew from no rows they would be 0.
    """
    last = await database[HOURS].find_one({}, {"hour": 1}, sort=[("hour", DESCENDING)])
    if last is None:
        return {}
    row = await database[COLLECTION].find_one({}, {"at": 1}, sort=[("at", ASCENDING)], hint=BY_TIME)
    return {"kept_since": last["hour"] + timedelta(hours=1) if row is None else hour_of(row["at"])}


async def _list_hours(database: Database) -> Sequence[datetime]:
    """Lists the hours that have rows, or totals that lost their rows without retention."""
    state = await database[STATE].find_one({"_id": STATE_ID})
    kept_since = (state or {}).get("kept_since")
    hours: set[datetime] = set()
    at = kept_since
    while True:  # one index seek per hour, not a scan
        query = {} if at is None else {"at": {"$gte": at}}
        row = await database[COLLECTION].find_one(query, {"at": 1}, sort=[("at", 1)], hint=BY_TIME)
        if row is None:
            break
        hours.add(hour_of(row["at"]))
        at = hour_of(row["at"]) + timedelta(hours=1)
    query = {} if kept_since is None else {"hour": {"$gte": kept_since}}
    hours.update(await database[HOURS].distinct("hour", query))
    return sorted(hours)


async def _list_app_batches(
    database: Database, *, max_hours: int = MAX_HOURS_PER_BATCH
) -> AsyncGenerator[Sequence[str]]:
    """Yields all apps in batches that have few hours together, of at least one app."""
    batch: list[str] = []
    count = 0
    for app_id in sorted({*await database[TOTALS].distinct("app_id"), *await database[HOURS].distinct("app_id")}):
        hours_of_app = await database[HOURS].count_documents({"app_id": app_id})
        if batch and count + hours_of_app > max_hours:
            yield batch
            batch, count = [], 0
        batch.append(app_id)
        count += hours_of_app
    if batch:
        yield batch


async def _read_hour(database: Database, hour: datetime, session: AsyncClientSession) -> RightAndStored:
    state = await database[STATE].find_one({"_id": STATE_ID}, session=session)
    kept_since = (state or {}).get("kept_since")
    stored = await _sum_documents(database, HOURS, {"hour": hour}, session)
    if kept_since is not None and hour < kept_since:
        return stored, stored
    right: ByLabels = {}
    within = {"at": {"$gte": hour, "$lt": hour + timedelta(hours=1)}}
    added = totals_pipeline(LABELS, {**within, "rollup": {"$exists": False}})
    async for row in await database[COLLECTION].aggregate(added, session=session, hint=BY_TIME):
        add_sums(right, labels_of(row["_id"]), {name: int(row[name]) for name in SUMMED})
    # Corrections are still to be added: so far their rows count as calls without usage.
    async for row in database[COLLECTION].find({**within, "rollup": CORRECTS}, session=session):
        before, sums = reversal_of(row)
        add_sums(right, labels_of(before), {name: -value for name, value in sums.items()})
    return right, stored


async def _read_apps(database: Database, app_ids: Sequence[str], session: AsyncClientSession) -> RightAndStored:
    right = await _sum_documents(database, HOURS, {"app_id": {"$in": app_ids}}, session)
    return right, await _sum_documents(database, TOTALS, {"app_id": {"$in": app_ids}}, session)


async def _sum_documents(
    database: Database, collection: str, query: Mapping[str, Any], session: AsyncClientSession
) -> ByLabels:
    group = {"_id": {name: f"${name}" for name in LABELS}, **{name: {"$sum": f"${name}"} for name in SUMMED}}
    found = await database[collection].aggregate([{"$match": dict(query)}, {"$group": group}], session=session)
    return {labels_of(row["_id"]): {name: int(row[name]) for name in SUMMED} async for row in found}


def compare_totals(hour: datetime | None, right: ByLabels, stored: ByLabels) -> list[Difference]:
    nothing = dict.fromkeys(SUMMED, 0)
    return [
        Difference(hour, label_fields(labels), field, sums[field], stored.get(labels, nothing)[field])
        for labels, sums in _find_wrong(right, stored)
        for field in SUMMED
        if sums[field] != stored.get(labels, nothing)[field]
    ]


async def _repair_hour(database: Database, hour: datetime, session: AsyncClientSession, _seq: int) -> int:
    wrong = _find_wrong(*await _read_hour(database, hour, session))
    await _write(
        database[HOURS], [(key_of(labels, hour), label_fields(labels, hour), sums) for labels, sums in wrong], session
    )
    return len(wrong)


async def _repair_apps(database: Database, app_ids: Sequence[str], session: AsyncClientSession, seq: int) -> int:
    wrong = _find_wrong(*await _read_apps(database, app_ids, session))
    totals = [(key_of(labels), {**label_fields(labels), "seq": seq}, sums) for labels, sums in wrong]
    await _write(database[TOTALS], totals, session)
    return len(wrong)


def _find_wrong(right: ByLabels, stored: ByLabels) -> list[tuple[LabelValues, Sums]]:
    """Returns the right sums of wrong totals.

    A total without rows becomes 0 and stays, so that readers which follow the totals see the change.
    """
    nothing = dict.fromkeys(SUMMED, 0)
    labels = sorted({*right, *stored}, key=key_of)
    return [
        (values, right.get(values, nothing))
        for values in labels
        if right.get(values, nothing) != stored.get(values, nothing)
    ]


async def _write(
    totals: AsyncCollection[dict[str, Any]],
    documents: Iterable[tuple[str, Mapping[str, Any], Sums]],
    session: AsyncClientSession,
) -> None:
    writes = [ReplaceOne({"_id": key}, {"_id": key, **names, **sums}, upsert=True) for key, names, sums in documents]
    if writes:
        await totals.bulk_write(writes, ordered=False, session=session)


async def _in_transaction(database: Database, write: Callable[[AsyncClientSession, int], Awaitable[int]]) -> int:
    """Runs `write` in a transaction, as the only one.

    Like the roll-up it begins by incrementing `seq`, and retries on a conflict.
    """

    async def step(session: AsyncClientSession) -> int:
        state = await database[STATE].find_one_and_update(
            {"_id": STATE_ID}, {"$inc": {"seq": 1}}, return_document=ReturnDocument.AFTER, session=session
        )
        return await write(session, 0 if state is None else state["seq"])

    async with database.client.start_session() as session:
        return await session.with_transaction(
            step, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority", wtimeout=10_000)
        )
