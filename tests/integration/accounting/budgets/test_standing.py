"""Budgets in the store, and how they stand."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from accounting.budgets.mending import BudgetMending
from accounting.budgets.standing import standings
from accounting.budgets.store import Budgets
from tests.integration.accounting.budgets.process import Process, budget, set_budget
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration


async def test_a_budget_is_made_then_changed_and_says_which(store: RunStore) -> None:
    budgets = Budgets(store.database)

    made = await budgets.set(budget(100, app_id="a$b.c", note="$limit"), by="ada")
    same = await budgets.set(made.kept.budget, by="bob")
    raised = await budgets.set(replace(made.kept.budget, limit=200), by="bob")

    assert [made.how, same.how, raised.how] == ["created", "unchanged", "changed"]
    assert same.kept == made.kept
    assert (raised.kept.updated_by, raised.kept.since) == ("bob", made.kept.since)
    assert await budgets.list() == [raised.kept]
    assert await budgets.find(made.kept.budget.id) == raised.kept


async def test_of_two_who_make_it_at_once_one_made_it(store: RunStore) -> None:
    budgets = Budgets(store.database)

    results = await asyncio.gather(*(budgets.set(budget(100), by=f"user {n}") for n in range(8)))

    assert sorted(each.how for each in results) == ["created", *["unchanged"] * 7]


async def test_another_time_zone_begins_anew(store: RunStore) -> None:
    budgets = Budgets(store.database)
    made = await budgets.set(budget(100, window="day"), by="ada")

    moved = await budgets.set(budget(100, window="day", timezone="Asia/Tokyo"), by="ada")

    assert moved.kept.since > made.kept.since
    assert moved.kept.created_at == made.kept.created_at


async def test_one_that_a_newer_version_wrote_is_left_alone_and_said_once(
    store: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    budgets = Budgets(store.database)
    await set_budget(store, 10)
    await store.database["budgets"].update_one({}, {"$set": {"window": "fortnight"}})

    assert [await budgets.list(), await budgets.list()] == [[], []]
    assert [record.message for record in caplog.records] == ["budget_not_understood"]


async def test_what_is_removed_is_gone_once(store: RunStore) -> None:
    made = await set_budget(store, 10)

    assert await Budgets(store.database).remove(made.id)
    assert not await Budgets(store.database).remove(made.id)
    assert await standings(store.database) == []


async def test_each_app_that_has_spent_has_a_standing_of_its_own(store: RunStore) -> None:
    await set_budget(store, 1000, app_id="*", window="day", timezone="Europe/Berlin")
    [nobodys] = await standings(store.database)
    process = Process(store)
    await process.run(app_id="globex").call(tokens=20)
    await process.run(app_id="acme").call(tokens=900)
    await process.close()

    acme, globex = await standings(store.database)

    assert (nobodys.app_id, nobodys.spent, nobodys.exhausted) == (None, 0, False)
    assert [(each.app_id, each.spent, each.left, each.share) for each in (acme, globex)] == [
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

    found = await standings(store.database, "acme")

    assert [(each.budget.id, each.app_id) for each in found] == [
        ("app:*/day/tokens", "acme"),
        ("app:acme/total/tokens", "acme"),
        ("workflow:Digest/total/tokens", None),
    ]


async def test_before_anybody_has_reserved_the_ledger_tells_what_was_spent(store: RunStore) -> None:
    process = Process(store)
    await process.run().call(tokens=70)
    await set_budget(store, 100)
    await set_budget(store, 100, app_id="*", window="month")

    found = await standings(store.database, "acme")

    assert [each.spent for each in found] == [70, 70]


async def test_a_budget_of_each_run_has_no_window(store: RunStore) -> None:
    await set_budget(store, 10, window="run")

    [found] = await standings(store.database)

    assert (found.start, found.end, found.spent, found.exhausted) == (None, None, 0, False)


async def test_an_exhausted_one_says_since_when_and_a_change_of_it_is_newer(store: RunStore) -> None:
    made = await set_budget(store, 10)
    process = Process(store)
    await process.run().call(tokens=10)
    await process.close()
    [spent] = await standings(store.database)
    await Budgets(store.database).set(replace(made, note="still"), by="ada")
    [changed] = await standings(store.database)

    assert spent.exhausted_since is not None
    assert changed.exhausted_since is not None
    assert changed.exhausted_since > spent.exhausted_since


async def test_a_budget_of_each_app_has_no_standing_for_one_whose_own_goes_before_it(store: RunStore) -> None:
    """It stops nothing of it, so nothing must say that it is spent."""
    await set_budget(store, 10, app_id="*")
    await set_budget(store, 1000)
    process = Process(store)
    for app_id in ("acme", "globex"):
        await process.run(app_id=app_id).call(tokens=20)
    await process.close()

    found = await standings(store.database)

    assert [(each.budget.id, each.app_id, each.exhausted) for each in found] == [
        ("app:*/total/tokens", "globex", True),
        ("app:acme/total/tokens", "acme", False),
    ]


async def test_what_all_apps_have_spent_together_is_nobodys_of_a_budget_of_each_app(store: RunStore) -> None:
    process = Process(store)
    for app_id in ("acme", "globex"):
        await process.run(app_id=app_id).call(tokens=60)
    await set_budget(store, 100, app_id="*", workflow="Digest")

    [nobodys] = await standings(store.database)
    [acmes] = await standings(store.database, "acme")

    assert (nobodys.app_id, nobodys.spent, nobodys.exhausted) == (None, 0, False)
    assert (acmes.app_id, acmes.spent) == ("acme", 60)


async def test_one_that_is_spent_by_its_lower_limit_is_so_since_then(store: RunStore) -> None:
    made = await set_budget(store, 1000)
    process = Process(store)
    await process.run().call(tokens=100)
    await process.close()
    changed = await Budgets(store.database).set(replace(made, limit=50), by="ada")

    [found] = await standings(store.database)

    assert (found.exhausted, found.exhausted_since) == (True, changed.kept.updated_at)


async def test_of_many_budgets_each_costs_the_same(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("total", "day"):
        await asyncio.gather(*(set_budget(store, 10, app_id=f"app{n}", window=name) for n in range(40)))
    await BudgetMending(store.database).run_pass(Counter())  # each has a window
    named: Counter[str] = Counter()

    def quoted(app_id: str) -> str:
        named[app_id] += 1
        return app_id

    monkeypatch.setattr("accounting.budgets.budget._quoted", quoted)

    assert len(await standings(store.database)) == 80

    assert named.total() <= 10 * 80
