"""The ledger on a real MongoDB: a row is written once, and totals are sums over rows."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pymongo.errors import ServerSelectionTimeoutError

from accounting.ledger.ledger import Ledger
from accounting.ledger.ledger_rows import COLLECTION
from accounting.prices import Price, PriceTable
from accounting.totals.usage_query import UsageFilter, run_totals, usage_totals
from accounting.usage import BegunCall, ModelCall, RunOwner, Tokens, UsageTotals
from workers.store.run_store import RunStore, connect

pytestmark = pytest.mark.integration

ACME = RunOwner("run_1", "acme", None, "chat_1", "Digest", "schedule")
GLOBEX = replace(ACME, run_id="run_2", app_id="globex")
CALL = ModelCall(
    number=1,
    agent="Writer",
    provider="openai",
    model="m",
    tokens=Tokens(input=10, cached_input=4, output=5, reasoning=2),
    status="reported",
    ok=True,
    started_at=datetime(2026, 3, 1, 23, 59, tzinfo=UTC),
    duration_s=0.5,
)
BEGUN = BegunCall(1, "Writer", "openai", "m", CALL.started_at, within_s=30)
NEXT_DAY = datetime(2026, 3, 2, tzinfo=UTC)
COST = 10 * 1_000 + 5 * 2_000  # nano-dollars per call


@pytest.fixture
async def ledger(store: RunStore) -> Ledger:
    ledger = Ledger(store.database, PriceTable((Price("openai", "m", Decimal(1), Decimal(2)),)))
    await ledger.ensure_indexes()
    return ledger


async def test_a_row_written_twice_is_one_row_and_no_error(store: RunStore, ledger: Ledger) -> None:
    await ledger.record(ACME, lease_token=1, call=CALL)
    await ledger.record(ACME, lease_token=1, call=CALL)

    assert await store.database[COLLECTION].count_documents({}) == 1
    assert (await run_totals(store.database, "run_1")).calls == 1


async def rows(store: RunStore) -> list[dict[str, Any]]:
    return await store.database[COLLECTION].find().to_list(None)


async def test_a_call_is_known_before_it_is_made_and_completed_by_its_answer(store: RunStore, ledger: Ledger) -> None:
    await ledger.begin(ACME, lease_token=1, call=BEGUN)
    [begun] = await rows(store)
    await ledger.record(ACME, lease_token=1, call=CALL)
    [completed] = await rows(store)

    assert (begun["_id"], begun["status"], begun["rollup"]) == ("run_1:1:1", "missing", 0)
    assert (completed["_id"], completed["status"], completed["rollup"]) == ("run_1:1:1", "reported", 1)
    assert "open_until" not in completed


async def test_a_call_that_was_cancelled_before_it_was_made_leaves_no_row(store: RunStore, ledger: Ledger) -> None:
    for _ in range(20):
        beginning = asyncio.ensure_future(ledger.begin(ACME, lease_token=1, call=BEGUN))
        await asyncio.sleep(0)
        beginning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beginning
        assert await rows(store) == []


@pytest.mark.parametrize("begins_closed", [True, False])
async def test_while_the_store_is_away_a_call_is_made_only_when_that_is_wanted(
    store: RunStore, begins_closed: bool
) -> None:
    nobody = connect("mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=50&serverMonitoringMode=poll", database="x")
    away = Ledger(nobody, PriceTable(), fails_closed=begins_closed, begin_timeout_s=0.3)
    if begins_closed:
        with pytest.raises(ServerSelectionTimeoutError):
            await away.begin(ACME, lease_token=1, call=BEGUN)
    else:
        await away.begin(ACME, lease_token=1, call=BEGUN)
    await nobody.client.close()

    await Ledger(store.database, PriceTable()).record(ACME, lease_token=1, call=CALL)
    assert [row["status"] for row in await rows(store)] == ["reported"]


async def test_stopping_waits_until_all_is_written_and_no_longer(store: RunStore, ledger: Ledger) -> None:
    writing = [
        asyncio.ensure_future(ledger.record(ACME, lease_token=1, call=replace(CALL, number=number)))
        for number in range(300)
    ]
    await asyncio.sleep(0)

    assert await ledger.drain(timeout_s=10)
    assert len(await rows(store)) == 300
    assert all(task.done() for task in writing)

    nobody = connect("mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=50&serverMonitoringMode=poll", database="x")
    away = Ledger(nobody, PriceTable())
    hanging = asyncio.ensure_future(away.record(ACME, lease_token=1, call=CALL))
    await asyncio.sleep(0)
    assert not await away.drain(timeout_s=0.05)
    hanging.cancel()
    await nobody.client.close()


async def test_only_so_many_rows_wait_and_the_next_call_waits_before_it_is_made(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0
    write_all = Ledger._write_all

    async def slow(self: Ledger, writes: Sequence[Any]) -> Sequence[Exception | None]:
        nonlocal most
        most = max(most, len(self._writer._waiting) + len(writes))
        return await write_all(self, writes)

    monkeypatch.setattr(Ledger, "_write_all", slow)
    narrow = Ledger(store.database, PriceTable(), max_waiting_writes=8)

    await asyncio.gather(
        *(narrow.begin(ACME, lease_token=1, call=replace(BEGUN, number=number)) for number in range(100))
    )

    assert (most, len(await rows(store))) == (8, 100)


async def test_calls_of_lost_workers_are_no_failures_of_the_model(ledger: Ledger) -> None:
    await ledger.record(ACME, lease_token=1, call=CALL)
    await ledger.record(ACME, lease_token=1, call=replace(CALL, number=2, ok=False, error="ModelError"))
    await ledger.record(ACME, lease_token=1, call=replace(CALL, number=3, ok=False, error="Cancelled"))
    await ledger.begin(ACME, lease_token=1, call=replace(BEGUN, number=4))

    earlier = await ledger.read_earlier_calls("run_1")

    assert (earlier.count, earlier.tokens, dict(earlier.failed_by_agent)) == (4, 45, {"Writer": 1})


async def test_an_open_call_is_in_no_live_run_and_is_lost_once_its_run_ends(store: RunStore, ledger: Ledger) -> None:
    await ledger.record(ACME, lease_token=1, call=CALL)
    await ledger.begin(ACME, lease_token=1, call=replace(BEGUN, number=2))

    going_on, ended = (
        await run_totals(store.database, "run_1", is_running=True),
        await run_totals(store.database, "run_1"),
    )

    assert (going_on.calls, going_on.missing) == (1, 0)
    assert (ended.calls, ended.missing, ended.input_tokens) == (2, 1, 10)


async def test_the_same_call_under_another_lease_is_recorded_as_well(store: RunStore, ledger: Ledger) -> None:
    await ledger.record(ACME, lease_token=1, call=CALL)
    await ledger.record(ACME, lease_token=2, call=CALL)

    totals = await run_totals(store.database, "run_1")

    assert (totals.calls, totals.input_tokens, totals.cost_nano_usd) == (2, 20, 2 * COST)


async def insert_few_rows(ledger: Ledger) -> None:
    await ledger.record(ACME, lease_token=1, call=CALL)
    await ledger.record(ACME, lease_token=1, call=replace(CALL, number=2, started_at=NEXT_DAY))
    await ledger.record(ACME, lease_token=1, call=replace(CALL, number=3, model="new", started_at=NEXT_DAY))
    lost = replace(CALL, number=1, tokens=Tokens(), status="missing", ok=False, error="Cancelled")
    await ledger.record(GLOBEX, lease_token=1, call=lost)


async def totals_by(store: RunStore, key: str) -> dict[str, UsageTotals]:
    return {row.key[key]: row for row in await usage_totals(store.database, [key])}


@pytest.mark.parametrize(
    ("key", "calls_and_cost"),
    [
        ("app_id", {"acme": (3, 2 * COST), "globex": (1, 0)}),
        ("model", {"m": (3, 2 * COST), "new": (1, 0)}),
        ("day", {"2026-03-01": (2, COST), "2026-03-02": (2, COST)}),
        ("ok", {True: (3, 2 * COST), False: (1, 0)}),
    ],
)
async def test_totals_by_a_key_are_the_sums_of_its_rows(
    store: RunStore, ledger: Ledger, key: str, calls_and_cost: dict[object, tuple[int, int]]
) -> None:
    await insert_few_rows(ledger)

    totals = await totals_by(store, key)

    assert {name: (row.calls, row.cost_nano_usd) for name, row in totals.items()} == calls_and_cost


async def test_every_kind_of_token_is_summed(store: RunStore, ledger: Ledger) -> None:
    await insert_few_rows(ledger)

    acme = (await totals_by(store, "app_id"))["acme"]

    assert (acme.input_tokens, acme.cached_input_tokens, acme.output_tokens, acme.reasoning_tokens) == (30, 12, 15, 6)


async def test_a_call_without_usage_is_missing_and_one_without_a_price_unpriced(
    store: RunStore, ledger: Ledger
) -> None:
    await insert_few_rows(ledger)

    by_app, by_model = await totals_by(store, "app_id"), await totals_by(store, "model")

    assert {name: (row.missing, row.unpriced) for name, row in by_app.items()} == {"acme": (0, 1), "globex": (1, 0)}
    assert {name: (row.missing, row.unpriced) for name, row in by_model.items()} == {"m": (1, 0), "new": (0, 1)}
    assert by_model["new"].cost_usd is None
    assert by_app["globex"].cost_usd == 0


async def test_totals_are_of_the_app_run_and_time_that_were_asked_for(store: RunStore, ledger: Ledger) -> None:
    await insert_few_rows(ledger)

    [of_app] = await usage_totals(store.database, [], UsageFilter(app_id="acme", since=NEXT_DAY))

    assert of_app.calls == 2
    assert (await run_totals(store.database, "run_2")).calls == 1
    assert await run_totals(store.database, "run_none") == UsageTotals()
