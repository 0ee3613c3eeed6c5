"""Budgets of the exporter on a real MongoDB: rejections stay counted after a budget is removed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from accounting.budgets.budget import parse_budget
from accounting.budgets.budget_store import BudgetStore, StoredBudget
from accounting.budgets.effective_budgets import BudgetWindow
from accounting.budgets.window_calendar import window_span
from accounting.budgets.window_store import WindowStore
from ops.exporter.budget_counts import BudgetScope, read_budget_counts
from ops.exporter.store_snapshot import SnapshotReader
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

NOW = datetime.now(UTC)


async def create_budget(store: RunStore, **budget: str | int) -> StoredBudget:
    fields = {"window": "day", "unit": "tokens", "limit": 100, **budget}
    return (await BudgetStore(store.database).set(parse_budget(**fields), by="ada")).stored  # type: ignore[arg-type]  # -- as a form gives them


async def record_rejections(store: RunStore, budget: StoredBudget, app_id: str | None, times: Sequence[int]) -> None:
    """Write rejections of today, yesterday, and so on."""
    for days, count in enumerate(times):
        span = window_span(budget.budget.window, "UTC", NOW - timedelta(days=days))
        await WindowStore(store.database).add_rejections([(BudgetWindow(budget, app_id, span), count)])


async def test_rejections_are_counted_for_all_windows_and_removed_budgets(store: RunStore) -> None:
    one = await create_budget(store, app_id="acme")
    each = await create_budget(store, app_id="*", workflow="W/x y")
    of_all = await create_budget(store, workflow="W")
    await create_budget(store, app_id="calm")
    for kept, app_id in ((one, "acme"), (each, "acme"), (each, "glo bex"), (of_all, None)):
        await record_rejections(store, kept, app_id, [2, 3])
    await BudgetStore(store.database).remove(each.budget.id)

    found = await read_budget_counts(store.database)

    assert found.rejections == {
        BudgetScope("acme", None, "day", "tokens"): 5,
        BudgetScope("acme", "W/x y", "day", "tokens"): 5,
        BudgetScope("glo bex", "W/x y", "day", "tokens"): 5,
        BudgetScope(None, "W", "day", "tokens"): 5,
        BudgetScope("calm", None, "day", "tokens"): 0,
    }
    assert {standing.budget.id for standing in found.statuses} == {
        "app:acme/day/tokens",
        "app:calm/day/tokens",
        "workflow:W/day/tokens",
    }


async def test_an_unused_per_app_budget_shows_nothing(store: RunStore) -> None:
    """Its labels would equal those of a budget that all apps share."""
    await create_budget(store, app_id="*", workflow="W")
    await create_budget(store, app_id="*", window="run")
    shared = await create_budget(store, workflow="W")

    found = await read_budget_counts(store.database)

    assert [each.budget for each in found.statuses] == [shared.budget]
    assert found.rejections == {BudgetScope(None, "W", "day", "tokens"): 0}


async def test_an_app_with_a_budget_has_a_label_before_it_has_spent_anything(store: RunStore) -> None:
    await create_budget(store, app_id="acme")

    assert (await SnapshotReader(store.database).read()).apps.label("acme") == "acme"
