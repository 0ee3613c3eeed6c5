"""The budget reconciler on a real MongoDB: it repairs what lost processes left."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from accounting.budgets.budget_reconciler import (
    FOLD_DELAY_S,
    LOST_DELAY_S,
    REPEAT_INTERVAL_S,
    WINDOW_RETENTION,
    BudgetReconciler,
)
from accounting.budgets.budget_status import read_statuses
from accounting.budgets.effective_budgets import BudgetWindow
from accounting.budgets.window_accounts import BudgetOptions
from accounting.budgets.window_store import RESERVATION_TTL_S, ProcessShare, WindowReply, WindowStore
from tests.integration.accounting.budgets.reserving_process import (
    ReservingProcess,
    age_windows,
    budget_status,
    recorded_spending,
    set_budget,
    wait_for_status,
)
from tests.integration.stage import wait_until
from workers.store.run_store import RunStore

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
SILENT = BudgetOptions(flush_delay_s=3600)  # its settled amounts never reach the store
pytestmark = pytest.mark.integration


@pytest.fixture
def options() -> BudgetOptions:
    return BudgetOptions()


@pytest.fixture
async def process(store: RunStore, options: BudgetOptions) -> AsyncIterator[ReservingProcess]:
    process = ReservingProcess(store, options=options)
    await process.keeper.ensure_indexes()
    yield process
    await process.close()


async def reconcile_budgets(store: RunStore) -> None:
    await BudgetReconciler(store.database).run_pass(Counter())


async def window(store: RunStore) -> dict[str, Any]:
    found = await store.database["budget_windows"].find_one({"holders": {"$exists": True}})
    assert found is not None
    return found


async def kill_process(process: ReservingProcess) -> None:
    """Stops a process for good."""
    for account in [*process.keeper.accounts._accounts.values()]:
        account._task.cancel()
    await asyncio.sleep(0)


async def test_a_reservation_of_a_dead_process_holds_to_its_end_and_no_longer(
    store: RunStore, process: ReservingProcess
) -> None:
    await set_budget(store, 600)
    dead = ReservingProcess(store)
    await dead.run().begin(prompt=300)
    await kill_process(dead)

    assert (await budget_status(store)).reserved == 600
    await age_windows(store, RESERVATION_TTL_S - 5)
    assert (await budget_status(store)).reserved == 600
    await age_windows(store, 5)
    assert (await budget_status(store)).reserved == 0
    await process.run().call(tokens=100, prompt=300)


async def test_spending_a_dead_process_never_reported_is_summed_from_its_rows(
    store: RunStore, process: ReservingProcess
) -> None:
    await set_budget(store, 10_000)
    dead = ReservingProcess(store, options=SILENT)
    await dead.run().begin()  # its reply never arrives
    for _ in range(5):
        await dead.run().call(tokens=100)
    await kill_process(dead)
    await process.run().call(tokens=7)
    await process.close()

    await age_windows(store, RESERVATION_TTL_S + LOST_DELAY_S + 1)
    assert (await budget_status(store)).spent < 500
    await reconcile_budgets(store)

    assert (await budget_status(store)).spent == 500 + 7 == await recorded_spending(store)
    assert dead.holder.id in (await window(store))["holders"]

    await age_windows(store, FOLD_DELAY_S)
    await asyncio.gather(*(reconcile_budgets(store) for _ in range(4)))
    assert (await window(store))["folded"] == 507
    assert dead.holder.id not in (await window(store))["holders"]
    assert (await budget_status(store)).spent == 507


@pytest.mark.usefixtures("process")
async def test_only_rows_of_the_budgets_own_scope_and_window_are_summed_up(store: RunStore) -> None:
    await set_budget(store, 10_000, app_id=None, workflow="Digest")
    dead = ReservingProcess(store)
    await dead.run(workflow="Other").call(tokens=1000)
    await dead.run(app_id="globex").call(tokens=30)
    await dead.run(app_id="acme").call(tokens=12)
    await kill_process(dead)

    await age_windows(store, RESERVATION_TTL_S + LOST_DELAY_S + 1)
    await reconcile_budgets(store)

    assert (await budget_status(store)).spent == 42


@pytest.mark.usefixtures("process")
async def test_a_process_that_slept_returns_renamed_and_no_call_counts_twice(store: RunStore) -> None:
    await set_budget(store, 100_000)
    sleeper = ReservingProcess(store)
    await sleeper.run().call(tokens=100)
    run = sleeper.run()
    begun = await run.begin()
    name = sleeper.holder.id
    await wait_for_status(store, "it is told", lambda now: now.spent == 100)

    await age_windows(store, RESERVATION_TTL_S + LOST_DELAY_S + 1)  # while it sleeps, its spending is summed up
    await reconcile_budgets(store)
    await run.end(begun, tokens=50)  # it wakes up; the reply had arrived, and is signed with the old name
    await sleeper.run().call(tokens=25)

    assert sleeper.holder.id != name
    assert (await recorded_spending(store, holder=name), await recorded_spending(store, holder=sleeper.holder.id)) == (
        150,
        25,
    )
    await age_windows(store, 20)
    await reconcile_budgets(store)
    await wait_for_status(store, "all is told, once", lambda now: now.spent == 175)
    await sleeper.close()
    await age_windows(store, FOLD_DELAY_S)
    await reconcile_budgets(store)
    assert (await budget_status(store)).spent == 175 == await recorded_spending(store)
    assert (await window(store))["holders"] == {}


async def test_a_call_is_signed_with_the_name_under_which_it_was_reserved(
    store: RunStore, process: ReservingProcess
) -> None:
    await set_budget(store, 100_000)
    run = process.run()
    begun = await run.begin()
    await age_windows(store, RESERVATION_TTL_S + LOST_DELAY_S + 1)
    await reconcile_budgets(store)
    name = process.holder.id

    await process.run().call(tokens=1)
    await run.end(begun, tokens=20)

    assert process.holder.id != name
    assert (await recorded_spending(store, holder=name), await recorded_spending(store, holder=process.holder.id)) == (
        20,
        1,
    )
    await age_windows(store, REPEAT_INTERVAL_S + 1)
    await reconcile_budgets(store)
    await wait_for_status(store, "both are told", lambda now: now.spent == 21)


async def test_a_process_that_stops_during_calls_leaves_them_to_the_ledger(
    store: RunStore, process: ReservingProcess
) -> None:
    await set_budget(store, 1000)
    run = process.run()
    begun = await run.begin(prompt=300)
    await process.close()
    assert (await budget_status(store)).reserved == 600
    await run.end(begun, tokens=70)

    await age_windows(store, RESERVATION_TTL_S + LOST_DELAY_S + 1)
    await reconcile_budgets(store)

    now = await budget_status(store)
    assert (now.spent, now.reserved) == (70, 0)


@pytest.mark.parametrize("options", [BudgetOptions(idle_timeout_s=0.1)])
async def test_an_idle_process_leaves_and_rejoins_and_counts_each_call_once(
    store: RunStore, process: ReservingProcess
) -> None:
    await set_budget(store, 100_000)
    for n in range(1, 4):
        await process.run().call(tokens=100)

        async def has_left() -> bool:
            return bool((await window(store))["holders"] == {})

        await wait_until("nobody is in the window", has_left)
        assert (await window(store))["folded"] == 100 * n
        assert "is_held" not in await window(store)
    await process.run().call(tokens=100)
    await kill_process(process)
    await age_windows(store, RESERVATION_TTL_S + LOST_DELAY_S + 1)
    await reconcile_budgets(store)
    assert (await budget_status(store)).spent == 400 == await recorded_spending(store)


class DroppedCommands(WindowStore):
    """Drops commands between a process and its store.

    A `lost` one is carried out or not, but gets no reply.
    """

    lost: str = ""

    async def send_share(
        self, place: BudgetWindow, part: ProcessShare, asked: Sequence[int] = (), *, limit: int | None = None
    ) -> WindowReply:
        if "send" in self.lost:
            raise AutoReconnect
        return await super().send_share(place, part, asked, limit=limit)

    async def leave(self, place: BudgetWindow, part: ProcessShare) -> None:
        await super().leave(place, part)
        if "leave" in self.lost:
            raise AutoReconnect


@pytest.mark.parametrize("options", [BudgetOptions(idle_timeout_s=0.05)])
async def test_a_process_unsure_whether_it_left_loses_no_later_spending(
    store: RunStore, process: ReservingProcess
) -> None:
    await set_budget(store, 1000, soft=True)
    process.keeper.accounts._windows = wire = DroppedCommands(store.database)
    wire.lost = "leave"
    await process.run().call(tokens=100)

    async def has_left() -> bool:
        return bool((await window(store))["folded"] == 100)

    await wait_until("it has left", has_left)
    wire.lost = "leave, send"
    run = process.run()
    begun = await run.begin()
    wire.lost = ""
    await run.end(begun, tokens=50)

    await wait_for_status(store, "both are told", lambda now: now.spent == 150)


async def test_a_process_has_left_though_its_last_command_never_arrived(
    store: RunStore, process: ReservingProcess
) -> None:
    """Otherwise it counts its old entry as sent, and overwrites it when it comes back."""
    await set_budget(store, 1000)
    [applying] = await process.keeper.cache.effective_budgets("acme", "Digest")
    place, windows, now = applying.window_at(datetime.now(UTC)), process.keeper.windows, datetime.now(UTC)
    await windows.send_share(place, ProcessShare("h1", 1, spent=100, reserved=0, since=now, is_new=True))

    lost = ProcessShare("h1", 2, spent=100, reserved=0, since=now, is_new=False)
    await windows.leave(place, lost)
    assert not (await windows.send_share(place, lost)).is_ours  # the reply was only late
    back = await windows.send_share(place, ProcessShare("h1", 3, spent=7, reserved=0, since=now, is_new=True))
    await windows.leave(place, lost)  # sent once more

    assert (back.is_ours, back.spent) == (True, 107)
    assert (await budget_status(store)).spent == 107


async def test_spending_after_a_long_outage_is_summed_before_its_entry_goes(
    store: RunStore, process: ReservingProcess
) -> None:
    await set_budget(store, 1000)
    run = process.run()
    begun = await run.begin()
    await kill_process(process)
    await age_windows(store, RESERVATION_TTL_S + LOST_DELAY_S + FOLD_DELAY_S)

    await reconcile_budgets(store)
    await run.end(begun, tokens=50)
    await age_windows(store, REPEAT_INTERVAL_S + 1)
    await reconcile_budgets(store)

    assert (await budget_status(store)).spent == 50


async def test_reported_spending_stays_after_its_rows_are_pruned(store: RunStore, process: ReservingProcess) -> None:
    await set_budget(store, 1000)
    await process.run().call(tokens=100)
    await wait_for_status(store, "it is told", lambda now: now.spent == 100)
    await kill_process(process)
    await store.database["usage"].delete_many({})
    await age_windows(store, RESERVATION_TTL_S + LOST_DELAY_S + 1)

    await reconcile_budgets(store)

    assert (await budget_status(store)).spent == 100


async def test_calls_that_began_before_the_budget_count_when_they_end(
    store: RunStore, process: ReservingProcess
) -> None:
    """They count from the next sum on."""
    run = process.run()
    begun = await run.begin()
    await set_budget(store, 1000)
    other = ReservingProcess(store)
    await other.run().call(tokens=10)
    await run.end(begun, tokens=500)
    await store.database["budget_windows"].update_one({}, {"$set": {"based_at": LONG_AGO}})

    await reconcile_budgets(store)

    await wait_for_status(store, "all count", lambda now: now.spent == 510)
    assert (await window(store))["is_young"] is True
    await store.database["budget_windows"].update_one({}, {"$set": {"based_at": LONG_AGO, "since": LONG_AGO}})
    await reconcile_budgets(store)
    assert "is_young" not in await window(store)
    await other.close()


async def test_windows_ended_long_ago_are_deleted_and_their_rejections_stay(
    store: RunStore, process: ReservingProcess
) -> None:
    await set_budget(store, 0, window="day")
    with pytest.raises(Exception, match="is spent"):
        await process.run().call()
    await process.close()
    assert (await budget_status(store)).rejections == 1
    windows = store.database["budget_windows"]
    ended = datetime.now(UTC) - WINDOW_RETENTION

    await windows.update_one({"end": {"$type": "date"}}, {"$set": {"end": ended + timedelta(minutes=5)}})
    await reconcile_budgets(store)
    assert await windows.count_documents({"end": {"$type": "date"}}) == 1
    await windows.update_one({"end": {"$type": "date"}}, {"$set": {"end": ended - timedelta(minutes=5)}})
    await reconcile_budgets(store)

    assert await windows.count_documents({"end": {"$type": "date"}}) == 0
    assert (await budget_status(store)).rejections_total == 1


async def test_earlier_spending_is_looked_up_once_without_reservations(
    store: RunStore, process: ReservingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers of budgets need not sum it up again and again."""
    await process.run().call(tokens=70)
    for given in ({}, {"window": "month"}, {"app_id": None, "workflow": "Digest"}, {"app_id": "*"}, {"window": "run"}):
        await set_budget(store, 100, **given)

    await reconcile_budgets(store)

    monkeypatch.setattr("accounting.budgets.budget_status.sum_recorded_before", None)
    spent = {status.budget.id: status.spent for status in await read_statuses(store.database)}
    assert spent == {
        "app:*/total/tokens": 0,
        "app:acme/month/tokens": 70,
        "app:acme/run/tokens": 0,
        "app:acme/total/tokens": 70,
        "workflow:Digest/total/tokens": 70,
    }


async def test_where_there_is_much_to_mend_all_get_their_turn(store: RunStore) -> None:
    apps = ("a", "b", "c")
    before = ReservingProcess(store, options=SILENT)
    begun = [(before.run(app_id=app), await before.run(app_id=app).begin()) for app in apps]
    for app in apps:
        await set_budget(store, 1000, app_id=app)
    dead = ReservingProcess(store, options=SILENT)
    for app in apps:
        await dead.run(app_id=app).call(tokens=9)
    await kill_process(dead)
    for run, call in begun:
        await run.end(call, tokens=4)

    await age_windows(store, RESERVATION_TTL_S + LOST_DELAY_S + 1)
    # With this interval the first window is due again at the next pass.
    reconciler = BudgetReconciler(store.database, max_windows=1, repeat_interval_s=-1)
    for _ in apps:
        await reconciler.run_pass(Counter())

    assert [status.spent for status in await read_statuses(store.database)] == [13, 13, 13]


@pytest.mark.usefixtures("process")
async def test_a_look_reads_only_what_is_to_be_mended(store: RunStore) -> None:
    windows = store.database["budget_windows"]
    now = datetime.now(UTC)
    idle = {"base": 0, "folded": 0, "holders": {}, "end": now + timedelta(days=1), "since": now}
    await windows.insert_many([{"_id": f"w{n}", **idle} for n in range(2000)])

    profile = store.database
    await profile.command({"profile": 2})
    await reconcile_budgets(store)
    await profile.command({"profile": 0})

    looks = await profile["system.profile"].find({"ns": f"{profile.name}.budget_windows"}).to_list(None)
    assert len(looks) >= 3
    assert max(look.get("docsExamined", 0) for look in looks) <= 1
    assert max(look.get("keysExamined", 0) for look in looks) <= 2
