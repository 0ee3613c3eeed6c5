"""The ledger on a real MongoDB: a row is written once, and totals are sums over rows."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from accounting.ledger.ledger import COLLECTION, Ledger
from accounting.prices import Price, PriceTable
from accounting.totals.reading import Wanted, run_totals, usage_totals
from accounting.usage import ModelCall, RunOwner, Tokens, UsageTotals
from workers.store.run_store import RunStore

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
NEXT_DAY = datetime(2026, 3, 2, tzinfo=UTC)
COST = 10 * 1_000 + 5 * 2_000  # nano-dollars of one such call


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


async def test_the_same_call_under_another_lease_is_owed_as_well(store: RunStore, ledger: Ledger) -> None:
    await ledger.record(ACME, lease_token=1, call=CALL)
    await ledger.record(ACME, lease_token=2, call=CALL)

    totals = await run_totals(store.database, "run_1")

    assert (totals.calls, totals.input_tokens, totals.cost_nano_usd) == (2, 20, 2 * COST)


async def few_rows(ledger: Ledger) -> None:
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
    await few_rows(ledger)

    totals = await totals_by(store, key)

    assert {name: (row.calls, row.cost_nano_usd) for name, row in totals.items()} == calls_and_cost


async def test_every_kind_of_token_is_summed(store: RunStore, ledger: Ledger) -> None:
    await few_rows(ledger)

    acme = (await totals_by(store, "app_id"))["acme"]

    assert (acme.input_tokens, acme.cached_input_tokens, acme.output_tokens, acme.reasoning_tokens) == (30, 12, 15, 6)


async def test_a_call_without_usage_is_missing_and_one_without_a_price_unpriced(
    store: RunStore, ledger: Ledger
) -> None:
    await few_rows(ledger)

    by_app, by_model = await totals_by(store, "app_id"), await totals_by(store, "model")

    assert {name: (row.missing, row.unpriced) for name, row in by_app.items()} == {"acme": (0, 1), "globex": (1, 0)}
    assert {name: (row.missing, row.unpriced) for name, row in by_model.items()} == {"m": (1, 0), "new": (0, 1)}
    assert by_model["new"].cost_usd is None
    assert by_app["globex"].cost_usd == 0


async def test_totals_are_of_the_app_run_and_time_that_were_asked_for(store: RunStore, ledger: Ledger) -> None:
    await few_rows(ledger)

    [of_app] = await usage_totals(store.database, [], Wanted(app_id="acme", since=NEXT_DAY))

    assert of_app.calls == 2
    assert (await run_totals(store.database, "run_2")).calls == 1
    assert await run_totals(store.database, "run_none") == UsageTotals()
