"""Totals on a real MongoDB: at each step they equal the sums of the rows."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import AutoReconnect
from typing_extensions import override

from accounting.billing.outbox import Outbox
from accounting.ledger.ledger import Ledger
from accounting.ledger.ledger_rows import COLLECTION, NOT_OPEN, WORKER_LOST
from accounting.totals.roll_up import RollUp
from accounting.totals.row_sums import HOURS, STATE, SUMMED, TOTALS
from accounting.totals.totals_rebuild import find_differences, rebuild
from accounting.totals.usage_query import EVERYTHING, UsageFilter, totals_pipeline, usage_totals
from accounting.usage import BegunCall, ModelCall, RunOwner, Tokens, UsageTotals
from tests.integration.accounting.ledger_rows import BEGAN, PRICES, give_up_open_rows, insert_rows, random_rows
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

KEYS = ("app_id", "workflow", "agent", "model", "provider", "trigger_type", "ok")
OWNER = RunOwner("run_1", "acme", None, "chat_1", "V", "schedule")
BEGUN = BegunCall(1, "A", "openai", "m", BEGAN, within_s=1)
ANSWERED = ModelCall(1, "A", "openai", "m", Tokens(10, 0, 0, 5), "reported", True, BEGAN, 0.5)

Shown = dict[tuple[Any, ...], dict[str, int]]


def sums_of_totals(totals: Sequence[UsageTotals], keys: Sequence[str]) -> Shown:
    return {tuple(total.key[key] for key in keys): {name: getattr(total, name) for name in SUMMED} for total in totals}


async def by_rows(store: RunStore, keys: Sequence[str], filter_: UsageFilter = EVERYTHING) -> Shown:
    """The reference: a plain sum over all rows."""
    found = await store.database[COLLECTION].aggregate(totals_pipeline(keys, {**filter_.query(), "rollup": NOT_OPEN}))
    return {tuple(row["_id"][key] for key in keys): {name: row[name] for name in SUMMED} async for row in found}


async def by_totals(store: RunStore, keys: Sequence[str], filter_: UsageFilter = EVERYTHING) -> Shown:
    return sums_of_totals(await usage_totals(store.database, keys, filter_), keys)


@pytest.fixture
async def roll_up(store: RunStore) -> RollUp:
    roll_up = RollUp(store.database, batch=100)
    await roll_up.run_pass(Counter())  # a new store is empty
    return roll_up


async def count_pending(store: RunStore) -> int:
    return await store.database[COLLECTION].count_documents({"rollup": {"$exists": True}})


QUERIES = [
    ([], UsageFilter()),
    (["app_id"], UsageFilter()),
    (["ok", "trigger_type"], UsageFilter(app_id="a/b & c", model="m")),
    (["day"], UsageFilter(workflow="V")),
    (["hour", "agent"], UsageFilter()),
    (["app_id"], UsageFilter(since=BEGAN + timedelta(minutes=55))),
    (["app_id"], UsageFilter(since=BEGAN + timedelta(minutes=50), until=BEGAN + timedelta(hours=2))),
    (["model"], UsageFilter(since=BEGAN + timedelta(minutes=5), until=BEGAN + timedelta(minutes=25), agent="A")),
    (["day"], UsageFilter(until=datetime(2026, 3, 2, tzinfo=UTC))),
    (["app_id"], UsageFilter(since=datetime(2027, 1, 1, tzinfo=UTC))),
]


@pytest.mark.design("D4-82")
async def test_totals_are_the_ledgers_before_between_and_after_roll_ups(store: RunStore, roll_up: RollUp) -> None:
    await insert_rows(store, random_rows(250, seed=1))
    for _ in range(4):  # 0, 100, 200 and all rows are added
        for keys, wanted in QUERIES:
            assert await by_totals(store, keys, wanted) == await by_rows(store, keys, wanted), (keys, wanted)
        await roll_up.add_batch()

    assert await count_pending(store) == 0
    assert await find_differences(store.database) == []


@pytest.mark.usefixtures("roll_up")
async def test_rows_that_come_while_several_add_are_counted_once(store: RunStore) -> None:
    rows = random_rows(1_500, seed=2)
    others = [RollUp(store.database, batch=70) for _ in range(4)]
    counts: Counter[str] = Counter()

    async def come() -> None:
        for start in range(0, len(rows), 50):
            await insert_rows(store, rows[start : start + 50])

    async def add(one: RollUp) -> None:
        while counts["added"] < len(rows):
            await one.run_pass(counts)

    async def look() -> None:
        """Each reader counts each row once: sums only grow, and by whole rows."""
        before = 0
        while counts["added"] < len(rows):
            [total] = await usage_totals(store.database, []) or [UsageTotals()]
            assert before <= total.calls <= len(rows)
            before = total.calls

    async with asyncio.timeout(60):
        await asyncio.gather(come(), look(), *map(add, others))

    assert counts["added"] == len(rows)
    assert await by_totals(store, KEYS) == await by_rows(store, KEYS)
    assert await find_differences(store.database) == []


async def test_a_rebuild_of_what_is_right_changes_nothing(store: RunStore, roll_up: RollUp) -> None:
    await insert_rows(store, random_rows(150, seed=6))
    await roll_up.run_pass(Counter())
    await insert_rows(store, random_rows(20, seed=7))
    kept = [await store.database[name].find().sort("_id").to_list(None) for name in (HOURS, TOTALS)]

    assert await rebuild(store.database) == 0

    assert [await store.database[name].find().sort("_id").to_list(None) for name in (HOURS, TOTALS)] == kept
    assert await count_pending(store) == 20


@pytest.mark.parametrize("lost", [(HOURS,), (TOTALS,), (HOURS, TOTALS, STATE)])
async def test_totals_that_are_lost_are_rebuilt_from_zero(
    store: RunStore, roll_up: RollUp, lost: tuple[str, ...]
) -> None:
    await insert_rows(store, random_rows(150, seed=8))
    await roll_up.run_pass(Counter())
    for name in lost:
        await store.database[name].delete_many({})
    progress: list[tuple[int, int]] = []
    assert await rebuild(store.database, lambda done, of: progress.append((done, of))) > 0

    assert progress[-1][0] == progress[-1][1] == len(progress) > 1
    assert await find_differences(store.database) == []
    assert await by_totals(store, ["app_id", "day"]) == await by_rows(store, ["app_id", "day"])
    assert await by_totals(store, KEYS) == await by_rows(store, KEYS)


async def test_what_is_wrong_in_a_total_is_found_and_named(store: RunStore, roll_up: RollUp) -> None:
    await insert_rows(store, random_rows(150, seed=9))
    await roll_up.run_pass(Counter())
    hour = await store.database[HOURS].find_one({})
    assert hour is not None
    await store.database[HOURS].update_one({"_id": hour["_id"]}, {"$inc": {"calls": 3}})

    found = await find_differences(store.database)

    assert {
        (difference.hour is None, difference.field, difference.kept - difference.right) for difference in found
    } == {
        (False, "calls", 3),
        (True, "calls", -3),
    }
    assert await rebuild(store.database) == 1
    assert await find_differences(store.database) == []


async def test_a_ledger_of_an_older_version_is_added_up_at_the_first_pass(store: RunStore) -> None:
    await insert_rows(
        store, ({name: value for name, value in row.items() if name != "rollup"} for row in random_rows(60, seed=10))
    )
    await insert_rows(store, random_rows(30, seed=11))
    before = await by_totals(store, KEYS)

    await RollUp(store.database).run_pass(Counter())

    assert before == await by_totals(store, KEYS) == await by_rows(store, KEYS)
    assert await find_differences(store.database) == []
    assert await count_pending(store) == 0


async def test_a_large_ledger_is_summed_in_several_passes_and_read_exactly(
    store: RunStore,
) -> None:
    await insert_rows(
        store, ({name: row[name] for name in row if name != "rollup"} for row in random_rows(60, seed=14))
    )
    roll_up, passes = RollUp(store.database, rebuild_timeout_s=0), 0  # one step per pass
    before = await by_rows(store, KEYS)

    while await store.database[STATE].find_one({"ready": True}) is None:
        await roll_up.run_pass(Counter())
        passes += 1
        await insert_rows(store, random_rows(1, seed=100 + passes))
        assert await by_totals(store, KEYS) == await by_rows(store, KEYS)

    assert passes > 5
    assert before != await by_rows(store, KEYS)
    await roll_up.run_pass(Counter())
    assert await find_differences(store.database) == []
    assert await count_pending(store) == 0


async def test_a_build_that_the_store_interrupts_is_begun_anew(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await insert_rows(
        store, ({name: row[name] for name in row if name != "rollup"} for row in random_rows(60, seed=15))
    )
    roll_up = RollUp(store.database)
    with monkeypatch.context() as away:
        away.setattr("accounting.totals.totals_rebuild._repair_apps", _fails)
        with pytest.raises(AutoReconnect):
            await roll_up.run_pass(Counter())

    await roll_up.run_pass(Counter())

    assert await find_differences(store.database) == []
    assert await by_totals(store, KEYS) == await by_rows(store, KEYS) != {}


async def _fails(*_: object) -> int:
    raise AutoReconnect("an election")


async def test_totals_dropped_under_a_running_roll_up_are_rebuilt(store: RunStore, roll_up: RollUp) -> None:
    await insert_rows(store, random_rows(40, seed=16))
    await roll_up.run_pass(Counter())
    for name in (HOURS, TOTALS, STATE):
        await store.database[name].drop()
    await insert_rows(store, random_rows(10, seed=17))

    for _ in range(2):
        await roll_up.run_pass(Counter())

    assert await count_pending(store) == 0
    assert await find_differences(store.database) == []
    assert await by_totals(store, KEYS) == await by_rows(store, KEYS)


@pytest.mark.parametrize("max_hours", [1, 1_000])
async def test_apps_are_added_up_some_at_a_time(store: RunStore, roll_up: RollUp, max_hours: int) -> None:
    await insert_rows(store, random_rows(60, seed=18))
    await roll_up.run_pass(Counter())
    await store.database[TOTALS].delete_many({})

    assert await find_differences(store.database, max_hours_per_batch=max_hours) != []
    assert await rebuild(store.database, max_hours_per_batch=max_hours) > 0
    assert await find_differences(store.database, max_hours_per_batch=max_hours) == []


class _FailingOutbox(Outbox):
    """An outbox that stores its rows in the transaction, and may fail then."""

    def __init__(self, store: RunStore, *, fails: bool = False) -> None:
        super().__init__(store.database)
        self._boxed = store.database["boxed"]
        self.fails = fails

    @override
    async def add(self, rows: Sequence[Mapping[str, Any]], session: AsyncClientSession | None) -> None:
        await self._boxed.insert_many([{"row": row["_id"]} for row in rows], session=session)
        if self.fails:
            raise RuntimeError("died in the middle")


@pytest.mark.usefixtures("roll_up")
async def test_a_transaction_that_dies_leaves_neither_totals_nor_a_batch(store: RunStore) -> None:
    await insert_rows(store, random_rows(30, seed=12))
    await store.database["boxed"].create_index("row")
    boxes = _FailingOutbox(store, fails=True)
    billed = RollUp(store.database, outbox=boxes)

    with pytest.raises(RuntimeError):
        await billed.run_pass(Counter())
    assert (await count_pending(store), await store.database["boxed"].count_documents({})) == (30, 0)
    assert await store.database[TOTALS].count_documents({}) == 0

    boxes.fails = False
    await billed.run_pass(Counter())
    await billed.run_pass(Counter())
    assert (await count_pending(store), await store.database["boxed"].count_documents({})) == (0, 30)


async def ledger_with_lost_call(store: RunStore) -> Ledger:
    ledger = Ledger(store.database, PRICES)
    await ledger.begin(OWNER, lease_token=1, call=BEGUN)
    await give_up_open_rows(store)
    return ledger


@pytest.mark.parametrize("off_h", [0, -500, 500])
async def test_an_open_call_is_in_no_total_whatever_its_workers_clock_shows(
    store: RunStore, roll_up: RollUp, off_h: int
) -> None:
    late = BegunCall(1, "A", "openai", "m", datetime.now(UTC) + timedelta(hours=off_h), within_s=30)
    await Ledger(store.database, PRICES).begin(OWNER, lease_token=1, call=late)

    await roll_up.run_pass(Counter())

    assert await by_totals(store, []) == {}
    assert await count_pending(store) == 1


async def test_a_call_whose_worker_was_lost_becomes_a_missing_one(store: RunStore, roll_up: RollUp) -> None:
    await ledger_with_lost_call(store)
    counts: Counter[str] = Counter()

    await roll_up.run_pass(counts)

    assert counts == {"closed": 1, "added": 1}
    row = await store.database[COLLECTION].find_one({})
    assert row is not None
    assert (row["status"], row["ok"], row["error"]) == ("missing", False, WORKER_LOST)
    assert not {"open_until", "begun"} & row.keys()
    [total] = await usage_totals(store.database, ["app_id"])
    assert (total.calls, total.missing, total.cost_usd) == (1, 1, 0)


@pytest.mark.parametrize("when", ["closed", "added", "long added"])
async def test_an_answer_that_comes_after_all_corrects_its_row_and_the_totals(
    store: RunStore, roll_up: RollUp, when: str
) -> None:
    ledger = await ledger_with_lost_call(store)
    if when == "closed":
        await store.database[COLLECTION].update_many({}, {"$set": {"rollup": 1, "error": WORKER_LOST}})
    else:
        await roll_up.run_pass(Counter())

    await ledger.record(OWNER, lease_token=1, call=ANSWERED)
    await ledger.record(OWNER, lease_token=1, call=ANSWERED)  # its reply was lost

    for _ in range(3):
        [total] = await usage_totals(store.database, ["app_id"])
        assert (total.calls, total.missing, total.input_tokens, total.output_tokens) == (1, 0, 10, 5)
        assert await by_totals(store, KEYS) == await by_rows(store, KEYS)
        assert await by_totals(store, ["hour", "ok"]) == await by_rows(store, ["hour", "ok"])
        assert await find_differences(store.database) == []
        await roll_up.run_pass(Counter())
    await ledger.record(OWNER, lease_token=1, call=ANSWERED)
    await roll_up.run_pass(Counter())
    assert await by_totals(store, KEYS) == await by_rows(store, KEYS)
    assert await rebuild(store.database) == 0


async def test_names_that_look_alike_share_no_total(store: RunStore, roll_up: RollUp) -> None:
    rows = random_rows(4, seed=13)
    for row, (app_id, workflow) in zip(rows, [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("A", "b/c")], strict=True):
        row.update(app_id=app_id, workflow=workflow, agent="A", model="m", trigger_type="schedule", ok=True)
    await insert_rows(store, rows)

    await roll_up.run_pass(Counter())

    assert await store.database[TOTALS].count_documents({}) == 4
    assert len(await usage_totals(store.database, ["app_id"])) == 4
