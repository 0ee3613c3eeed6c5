"""Budget releases on a real MongoDB: their order, their number and their time."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounting.budgets.budget import Budget
from accounting.budgets.budget_store import BudgetStore
from accounting.budgets.effective_budgets import BudgetWindow
from accounting.budgets.window_calendar import window_span
from accounting.budgets.window_store import WindowStore, WindowUsage
from tests.integration.accounting.budgets.reserving_process import ReservingProcess, set_budget
from tests.integration.workers.test_claim_lanes import hold_runs
from workers.admission.cap_settings import Caps
from workers.admission.limit_releases import MAX_RELEASED, BudgetReleases, LimitReleases
from workers.admission.limits.budget_limit import MAX_RELEASED_AT_ONCE
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration


class RecordedWakeups:
    def __init__(self) -> None:
        self.run_ids: list[str] = []

    def send(self, run_id: str) -> None:
        self.run_ids.append(run_id)


async def spend_budget(store: RunStore, limit: int = 100, **fields: Any) -> Budget:
    """Spends a budget completely."""
    budget = await set_budget(store, limit, **fields)
    process = ReservingProcess(store)
    await process.run(app_id="acme").call(tokens=limit)
    await process.close()
    return budget


async def insert_held_runs(store: RunStore, budget: Budget, apps: list[str], **changes: Any) -> list[str]:
    return await hold_runs(store, f"budget:{budget.id}", apps, kind="budget", **changes)


async def run_release_pass(store: RunStore, *, clock: Any = None) -> list[str]:
    sent = RecordedWakeups()
    counts: Counter[str] = Counter()
    releases = BudgetReleases(store, sent, **({} if clock is None else {"clock": clock}))
    await releases.run_pass(counts)
    assert counts["budget"] == len(sent.run_ids)
    return sent.run_ids


async def count_held(store: RunStore) -> int:
    return await store.runs.count_documents({"hold": "budget"})


async def test_runs_wait_until_their_window_turns_at_midnight_of_its_zone(store: RunStore) -> None:
    budget = await spend_budget(store, window="day", timezone="America/Santiago")
    run_ids = await insert_held_runs(store, budget, ["acme"] * 3)
    end = window_span("day", "America/Santiago", datetime.now(UTC)).end
    assert end is not None

    assert await run_release_pass(store, clock=lambda: end - timedelta(microseconds=1)) == []
    assert await run_release_pass(store, clock=lambda: end) == run_ids
    assert await count_held(store) == 0


async def test_the_most_urgent_go_first_then_the_oldest_of_whatever_workflow(store: RunStore) -> None:
    budget = await spend_budget(store)
    old = await insert_held_runs(store, budget, ["acme"] * 2, workflow="Z")
    young = await insert_held_runs(store, budget, ["acme"] * 2, workflow="A")
    urgent = await insert_held_runs(store, budget, ["acme"], workflow="M", priority=9)
    await BudgetStore(store.database).remove(budget.id)

    assert await run_release_pass(store) == [*urgent, *old, *young]


async def test_only_so_many_are_on_their_way_at_a_time(store: RunStore) -> None:
    budget = await spend_budget(store)
    await insert_held_runs(store, budget, ["acme"] * (MAX_RELEASED_AT_ONCE + 30))
    await set_budget(store, 1000)

    first = await run_release_pass(store)
    assert len(first) == MAX_RELEASED_AT_ONCE
    assert await run_release_pass(store) == []
    await store.runs.update_many({"_id": {"$in": first[:20]}}, {"$unset": {"held_by": 1, "lane": 1}})
    assert len(await run_release_pass(store)) == 20


async def test_of_per_app_budgets_those_with_room_release_and_all_get_a_turn(store: RunStore) -> None:
    budget = await spend_budget(store, app_id="*")
    apps = [f"app{n:02}" for n in range(12)]
    for app_id in (*apps, "acme"):
        await insert_held_runs(store, budget, [app_id] * 90)
    sent = RecordedWakeups()
    releases = BudgetReleases(store, sent)

    await releases.run_pass(Counter())
    assert len(sent.run_ids) == MAX_RELEASED
    for _ in range(4):
        await releases.run_pass(Counter())

    assert Counter([run["app_id"] async for run in store.runs.find({"hold": "budget"})]) == {"acme": 90}
    assert len(sent.run_ids) == len(set(sent.run_ids)) == 90 * len(apps)


async def test_for_however_many_budgets_room_is_asked_for_at_once(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = [await set_budget(store, 0, workflow=name) for name in (None, "A", "B")]
    free = await set_budget(store, 100, app_id="globex")
    for budget in full:
        await insert_held_runs(store, budget, ["acme"])
    run_ids = await insert_held_runs(store, free, ["globex"])
    asked: list[int] = []
    used = WindowStore.read_usage

    async def counted(windows: WindowStore, places: Sequence[BudgetWindow]) -> Mapping[str, WindowUsage]:
        asked.append(len(places))
        return await used(windows, places)

    monkeypatch.setattr(WindowStore, "read_usage", counted)

    assert await run_release_pass(store) == run_ids
    assert asked == [4]


async def test_any_number_may_look_and_each_run_goes_once(store: RunStore) -> None:
    budget = await spend_budget(store)
    await insert_held_runs(store, budget, ["acme"] * 60)
    await BudgetStore(store.database).remove(budget.id)

    looks = await asyncio.gather(*(run_two_release_passes(store) for _ in range(5)))

    assert await count_held(store) == 0
    assert len({run_id for sent in looks for run_id in sent}) == 60


async def run_two_release_passes(store: RunStore) -> list[str]:
    sent = RecordedWakeups()
    for _ in range(2):
        await BudgetReleases(store, sent).run_pass(Counter())
    return sent.run_ids


async def test_what_is_left_is_not_given_away_while_calls_hold_it(store: RunStore) -> None:
    budget = await set_budget(store, 600)
    [run_id] = await insert_held_runs(store, budget, ["acme"])
    process = ReservingProcess(store)
    run = process.run()
    begun = await run.begin(prompt=300)

    assert await run_release_pass(store) == []
    await run.end(begun, tokens=100)
    await process.close()
    assert await run_release_pass(store) == [run_id]


async def test_what_others_hold_is_left_to_them(store: RunStore) -> None:
    budget = await spend_budget(store)
    [by_budget] = await insert_held_runs(store, budget, ["acme"])
    [by_cap] = await hold_runs(store, "app:acme", ["acme"])
    sent = RecordedWakeups()

    assert await run_release_pass(store) == []
    await LimitReleases(store, Caps(), sent).run_pass()

    assert sent.run_ids == [by_cap]
    assert (await store.find(by_budget) or {})["hold"] == "budget"
