"""Budgets as the exporter sees them, on a real MongoDB: what they kept back stays counted when they are gone."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from accounting.budgets.budget import checked_budget
from accounting.budgets.places import Place
from accounting.budgets.store import Budgets, KeptBudget
from accounting.budgets.window_store import WindowStore
from accounting.budgets.windows import span_at
from ops.exporter.budgets import Scope, look_at_budgets
from ops.exporter.snapshot import Snapshots
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

NOW = datetime.now(UTC)


async def made(store: RunStore, **budget: str | int) -> KeptBudget:
    given = {"window": "day", "unit": "tokens", "limit": 100, **budget}
    return (await Budgets(store.database).set(checked_budget(**given), by="ada")).kept  # type: ignore[arg-type]  # -- as a form gives them


async def rejected(store: RunStore, kept: KeptBudget, app_id: str | None, times: Sequence[int]) -> None:
    """So often today, so often yesterday, and so on."""
    for days, count in enumerate(times):
        span = span_at(kept.budget.window, "UTC", NOW - timedelta(days=days))
        await WindowStore(store.database).add_rejections([(Place(kept, app_id, span), count)])


async def test_what_budgets_kept_back_is_counted_for_all_windows_and_for_budgets_that_are_gone(store: RunStore) -> None:
    one = await made(store, app_id="acme")
    each = await made(store, app_id="*", workflow="W/x y")
    of_all = await made(store, workflow="W")
    await made(store, app_id="calm")
    for kept, app_id in ((one, "acme"), (each, "acme"), (each, "glo bex"), (of_all, None)):
        await rejected(store, kept, app_id, [2, 3])
    await Budgets(store.database).remove(each.budget.id)

    found = await look_at_budgets(store.database)

    assert found.rejections == {
        Scope("acme", None, "day", "tokens"): 5,
        Scope("acme", "W/x y", "day", "tokens"): 5,
        Scope("glo bex", "W/x y", "day", "tokens"): 5,
        Scope(None, "W", "day", "tokens"): 5,
        Scope("calm", None, "day", "tokens"): 0,
    }
    assert {standing.budget.id for standing in found.standings} == {
        "app:acme/day/tokens",
        "app:calm/day/tokens",
        "workflow:W/day/tokens",
    }


async def test_a_budget_for_each_app_that_nobody_has_spent_of_shows_nothing(store: RunStore) -> None:
    """Its labels would be those of a budget that all apps share."""
    await made(store, app_id="*", workflow="W")
    await made(store, app_id="*", window="run")
    shared = await made(store, workflow="W")

    found = await look_at_budgets(store.database)

    assert [each.budget for each in found.standings] == [shared.budget]
    assert found.rejections == {Scope(None, "W", "day", "tokens"): 0}


async def test_an_app_with_a_budget_has_a_label_before_it_has_spent_anything(store: RunStore) -> None:
    await made(store, app_id="acme")

    assert (await Snapshots(store.database).take()).apps.label("acme") == "acme"
