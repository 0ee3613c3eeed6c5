"""Budgets in the store, and their status."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from accounting.budgets.budget_reconciler import BudgetReconciler
from accounting.budgets.budget_status import read_statuses
from accounting.budgets.budget_store import BudgetStore
from tests.integration.accounting.budgets.reserving_process import ReservingProcess, budget, set_budget
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration


async def test_setting_a_budget_reports_whether_it_was_created_or_changed(store: RunStore) -> None:
    budgets = BudgetStore(store.database)

    made = await budgets.set(budget(100, app_id="a$b.c", note="$limit"), by="ada")
    same = await budgets.set(made.stored.budget, by="bob")
    raised = await budgets.set(replace(made.stored.budget, limit=200), by="bob")

    assert [made.kind, same.kind, raised.kind] == ["created", "unchanged", "changed"]
    assert same.stored == made.stored
    assert (raised.stored.updated_by, raised.stored.since) == ("bob", made.stored.since)
    assert await budgets.list() == [raised.stored]
    assert await budgets.find(made.stored.budget.id) == raised.stored


async def test_of_two_concurrent_creations_one_succeeds(store: RunStore) -> None:
    budgets = BudgetStore(store.database)

    results = await asyncio.gather(*(budgets.set(budget(100), by=f"user {n}") for n in range(8)))

    assert sorted(result.kind for result in results) == ["created", *["unchanged"] * 7]


async def test_another_time_zone_begins_anew(store: RunStore) -> None:
    budgets = BudgetStore(store.database)
    made = await budgets.set(budget(100, window="day"), by="ada")

    moved = await budgets.set(budget(100, window="day", timezone="Asia/Tokyo"), by="ada")

    assert moved.stored.since > made.stored.since
    assert moved.stored.created_at == made.stored.created_at


async def test_a_budget_of_a_newer_version_is_left_alone_and_logged_once(
    store: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    budgets = BudgetStore(store.database)
    await set_budget(store, 10)
    await store.database["budgets"].update_one({}, {"$set": {"window": "fortnight"}})

    assert [await budgets.list(), await budgets.list()] == [[], []]
    assert [record.message for record in caplog.records] == ["budget_not_understood"]


async def test_what_is_removed_is_gone_once(store: RunStore) -> None:
    made = await set_budget(store, 10)

    assert await BudgetStore(store.database).remove(made.id)
    assert not await BudgetStore(store.database).remove(made.id)
    assert await read_statuses(store.database) == []


async def test_each_app_that_has_spent_has_its_own_budget_status(store: RunStore) -> None:
    await set_budget(store, 1000, app_id="*", window="day", timezone="Europe/Berlin")
    [nobodys] = await read_statuses(store.database)
    process = ReservingProcess(store)
    await process.run(app_id="globex").call(tokens=20)
    await process.run(app_id="acme").call(tokens=900)
    await process.close()

    acme, globex = await read_statuses(store.database)

    assert (nobodys.app_id, nobodys.spent, nobodys.is_exhausted) == (None, 0, False)
    assert [(each.app_id, each.spent, each.remaining, each.share) for each in (acme, globex)] == [
        ("acme", 900, 100, 0.9),
        ("globex", 20, 980, 0.02),
    ]
    assert acme.start is not None
    assert acme.end is not None
    assert acme.as_json()["for_app_id"] == "acme"


async def test_an_app_sees_the_budgets_that_its_calls_must_fit_in(store: RunStore) -> None:
    everyones = {"app_id": "*", "window": "day"}
    for given in ({}, {"app_id": "globex"}, {"app_id": "*"}, everyones, {"app_id": None, "workflow": "Digest"}):
        await set_budget(store, 10, **given)

    found = await read_statuses(store.database, "acme")

    assert [(status.budget.id, status.app_id) for status in found] == [
        ("app:*/day/tokens", "acme"),
        ("app:acme/total/tokens", "acme"),
        ("workflow:Digest/total/tokens", None),
    ]


async def test_before_any_reservation_spending_comes_from_the_ledger(store: RunStore) -> None:
    process = ReservingProcess(store)
    await process.run().call(tokens=70)
    await set_budget(store, 100)
    await set_budget(store, 100, app_id="*", window="month")

    found = await read_statuses(store.database, "acme")

    assert [status.spent for status in found] == [70, 70]


async def test_a_budget_of_each_run_has_no_window(store: RunStore) -> None:
    await set_budget(store, 10, window="run")

    [found] = await read_statuses(store.database)

    assert (found.start, found.end, found.spent, found.is_exhausted) == (None, None, 0, False)


async def test_an_exhausted_budget_shows_since_when_and_a_change_is_newer(store: RunStore) -> None:
    made = await set_budget(store, 10)
    process = ReservingProcess(store)
    await process.run().call(tokens=10)
    await process.close()
    [spent] = await read_statuses(store.database)
    await BudgetStore(store.database).set(replace(made, note="still"), by="ada")
    [changed] = await read_statuses(store.database)

    assert spent.exhausted_since is not None
    assert changed.exhausted_since is not None
    assert changed.exhausted_since > spent.exhausted_since


async def test_a_per_app_budget_has_no_status_for_an_app_with_its_own(store: RunStore) -> None:
    """It stops no call of the app, so it must not be shown as spent."""
    await set_budget(store, 10, app_id="*")
    await set_budget(store, 1000)
    process = ReservingProcess(store)
    for app_id in ("acme", "globex"):
        await process.run(app_id=app_id).call(tokens=20)
    await process.close()

    found = await read_statuses(store.database)

    assert [(status.budget.id, status.app_id, status.is_exhausted) for status in found] == [
        ("app:*/total/tokens", "globex", True),
        ("app:acme/total/tokens", "acme", False),
    ]


async def test_spending_of_all_apps_together_belongs_to_no_per_app_budget(store: RunStore) -> None:
    process = ReservingProcess(store)
    for app_id in ("acme", "globex"):
        await process.run(app_id=app_id).call(tokens=60)
    await set_budget(store, 100, app_id="*", workflow="Digest")

    [nobodys] = await read_statuses(store.database)
    [acmes] = await read_statuses(store.database, "acme")

    assert (nobodys.app_id, nobodys.spent, nobodys.is_exhausted) == (None, 0, False)
    assert (acmes.app_id, acmes.spent) == ("acme", 60)


async def test_one_that_is_spent_by_its_lower_limit_is_so_since_then(store: RunStore) -> None:
    made = await set_budget(store, 1000)
    process = ReservingProcess(store)
    await process.run().call(tokens=100)
    await process.close()
    changed = await BudgetStore(store.database).set(replace(made, limit=50), by="ada")

    [found] = await read_statuses(store.database)

    assert (found.is_exhausted, found.exhausted_since) == (True, changed.stored.updated_at)


async def test_of_many_budgets_each_costs_the_same(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("total", "day"):
        await asyncio.gather(*(set_budget(store, 10, app_id=f"app{n}", window=name) for n in range(40)))
    await BudgetReconciler(store.database).run_pass(Counter())  # each app has a window
    named: Counter[str] = Counter()

    def quoted(app_id: str) -> str:
        named[app_id] += 1
        return app_id

    monkeypatch.setattr("accounting.budgets.budget._quote_app_id", quoted)

    assert len(await read_statuses(store.database)) == 80

    assert named.total() <= 10 * 80
