"""Mending on a real MongoDB: what dead and sleeping processes leave behind, put right by the ledger."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from accounting.budgets import account, mending
from accounting.budgets.mending import AGAIN_AFTER_S, DELETED_AFTER, KEPT_AFTER_S, LOST_AFTER_S, BudgetMending
from accounting.budgets.places import Place
from accounting.budgets.standing import standings
from accounting.budgets.window_commands import HELD_FOR_S, Answer, Part
from accounting.budgets.window_store import WindowStore
from tests.integration.accounting.budgets.process import (
    Process,
    later,
    recorded,
    set_budget,
    standing,
    standing_is,
)
from tests.integration.stage import until
from workers.store.run_store import RunStore

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
pytestmark = pytest.mark.integration


@pytest.fixture
async def process(store: RunStore) -> AsyncIterator[Process]:
    process = Process(store)
    await process.keeper.ensure_indexes()
    yield process
    await process.close()


async def mend(store: RunStore) -> None:
    await BudgetMending(store.database).run_pass(Counter())


async def window(store: RunStore) -> dict[str, Any]:
    found = await store.database["budget_windows"].find_one({"holders": {"$exists": True}})
    assert found is not None
    return found


async def kill(process: Process) -> None:
    """Nothing of it is ever done again."""
    for each in [*process.keeper.accounts._open.values()]:
        each._task.cancel()
    await asyncio.sleep(0)


async def test_a_reservation_of_a_dead_process_holds_to_its_end_and_no_longer(
    store: RunStore, process: Process
) -> None:
    await set_budget(store, 600)
    dead = Process(store)
    await dead.run().begin(prompt=300)
    await kill(dead)

    assert (await standing(store)).reserved == 600
    await later(store, HELD_FOR_S - 5)
    assert (await standing(store)).reserved == 600
    await later(store, 5)
    assert (await standing(store)).reserved == 0
    await process.run().call(tokens=100, prompt=300)


async def test_what_a_dead_process_could_not_tell_is_summed_up_from_the_rows_it_signed(
    store: RunStore, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "FLUSH_AFTER_S", 3600)
    await set_budget(store, 10_000)
    dead = Process(store)
    await dead.run().begin()  # its answer never arrives
    for _ in range(5):
        await dead.run().call(tokens=100)
    await kill(dead)
    await process.run().call(tokens=7)
    await process.close()

    await later(store, HELD_FOR_S + LOST_AFTER_S + 1)
    assert (await standing(store)).spent < 500
    await mend(store)

    assert (await standing(store)).spent == 500 + 7 == await recorded(store)
    assert dead.holder.id in (await window(store))["holders"]

    await later(store, KEPT_AFTER_S)
    await asyncio.gather(*(mend(store) for _ in range(4)))
    assert (await window(store))["folded"] == 507
    assert dead.holder.id not in (await window(store))["holders"]
    assert (await standing(store)).spent == 507


@pytest.mark.usefixtures("process")
async def test_only_rows_of_the_budgets_own_scope_and_window_are_summed_up(store: RunStore) -> None:
    await set_budget(store, 10_000, app_id=None, workflow="Digest")
    dead = Process(store)
    await dead.run(workflow="Other").call(tokens=1000)
    await dead.run(app_id="globex").call(tokens=30)
    await dead.run(app_id="acme").call(tokens=12)
    await kill(dead)

    await later(store, HELD_FOR_S + LOST_AFTER_S + 1)
    await mend(store)

    assert (await standing(store)).spent == 42


@pytest.mark.usefixtures("process")
async def test_a_process_that_slept_comes_back_under_another_name_and_no_call_counts_twice(store: RunStore) -> None:
    await set_budget(store, 100_000)
    sleeper = Process(store)
    await sleeper.run().call(tokens=100)
    run = sleeper.run()
    begun = await run.begin()
    name = sleeper.holder.id
    await standing_is(store, "it is told", lambda now: now.spent == 100)

    await later(store, HELD_FOR_S + LOST_AFTER_S + 1)  # it sleeps, and others sum up what it has spent
    await mend(store)
    await run.end(begun, tokens=50)  # it wakes: the answer had arrived, and is signed with its old name
    await sleeper.run().call(tokens=25)

    assert sleeper.holder.id != name
    assert (await recorded(store, holder=name), await recorded(store, holder=sleeper.holder.id)) == (150, 25)
    await later(store, 20)
    await mend(store)
    await standing_is(store, "all is told, once", lambda now: now.spent == 175)
    await sleeper.close()
    await later(store, KEPT_AFTER_S)
    await mend(store)
    assert (await standing(store)).spent == 175 == await recorded(store)
    assert (await window(store))["holders"] == {}


async def test_a_call_is_signed_with_the_name_under_which_it_was_reserved(store: RunStore, process: Process) -> None:
    await set_budget(store, 100_000)
    run = process.run()
    begun = await run.begin()
    await later(store, HELD_FOR_S + LOST_AFTER_S + 1)
    await mend(store)
    name = process.holder.id

    await process.run().call(tokens=1)
    await run.end(begun, tokens=20)

    assert process.holder.id != name
    assert (await recorded(store, holder=name), await recorded(store, holder=process.holder.id)) == (20, 1)
    await later(store, AGAIN_AFTER_S + 1)
    await mend(store)
    await standing_is(store, "both are told", lambda now: now.spent == 21)


async def test_a_process_that_stops_with_calls_under_way_leaves_them_to_the_ledger(
    store: RunStore, process: Process
) -> None:
    await set_budget(store, 1000)
    run = process.run()
    begun = await run.begin(prompt=300)
    await process.close()
    assert (await standing(store)).reserved == 600
    await run.end(begun, tokens=70)

    await later(store, HELD_FOR_S + LOST_AFTER_S + 1)
    await mend(store)

    now = await standing(store)
    assert (now.spent, now.reserved) == (70, 0)


async def test_a_process_that_is_idle_leaves_and_comes_back_and_counts_each_call_once(
    store: RunStore, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "LEAVE_AFTER_S", 0.1)
    await set_budget(store, 100_000)
    for n in range(1, 4):
        await process.run().call(tokens=100)

        async def has_left() -> bool:
            return bool((await window(store))["holders"] == {})

        await until("nobody is in the window", has_left)
        assert (await window(store))["folded"] == 100 * n
        assert "is_held" not in await window(store)
    monkeypatch.undo()
    await process.run().call(tokens=100)
    await kill(process)
    await later(store, HELD_FOR_S + LOST_AFTER_S + 1)
    await mend(store)
    assert (await standing(store)).spent == 400 == await recorded(store)


class Wire(WindowStore):
    """Between a process and its store: what is `lost` is carried out or not, and the answer never comes."""

    lost: str = ""

    async def send(self, place: Place, part: Part, asked: Sequence[int] = (), *, limit: int | None = None) -> Answer:
        if "send" in self.lost:
            raise AutoReconnect
        return await super().send(place, part, asked, limit=limit)

    async def leave(self, place: Place, part: Part) -> None:
        await super().leave(place, part)
        if "leave" in self.lost:
            raise AutoReconnect


async def test_who_cannot_know_whether_it_has_left_forgets_nothing_of_what_comes_then(
    store: RunStore, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "LEAVE_AFTER_S", 0.05)
    await set_budget(store, 1000, soft=True)
    process.keeper.accounts._windows = wire = Wire(store.database)
    wire.lost = "leave"
    await process.run().call(tokens=100)

    async def has_left() -> bool:
        return bool((await window(store))["folded"] == 100)

    await until("it has left", has_left)
    wire.lost = "leave, send"
    run = process.run()
    begun = await run.begin()
    wire.lost = ""
    await run.end(begun, tokens=50)

    await standing_is(store, "both are told", lambda now: now.spent == 150)


async def test_who_leaves_has_left_though_its_last_command_never_arrived(store: RunStore, process: Process) -> None:
    """Else it takes for told what is still in its entry, and writes over it when it comes back."""
    await set_budget(store, 1000)
    [applying] = await process.keeper.definitions.applying("acme", "Digest")
    place, windows, now = applying.place(datetime.now(UTC)), process.keeper.windows, datetime.now(UTC)
    await windows.send(place, Part("h1", 1, spent=100, reserved=0, since=now, is_new=True))

    lost = Part("h1", 2, spent=100, reserved=0, since=now, is_new=False)
    await windows.leave(place, lost)
    assert not (await windows.send(place, lost)).is_ours  # it was only late
    back = await windows.send(place, Part("h1", 3, spent=7, reserved=0, since=now, is_new=True))
    await windows.leave(place, lost)  # sent once more

    assert (back.is_ours, back.spent) == (True, 107)
    assert (await standing(store)).spent == 107


async def test_what_arrives_after_a_long_outage_is_summed_up_before_its_entry_goes(
    store: RunStore, process: Process
) -> None:
    await set_budget(store, 1000)
    run = process.run()
    begun = await run.begin()
    await kill(process)
    await later(store, HELD_FOR_S + LOST_AFTER_S + KEPT_AFTER_S)

    await mend(store)
    await run.end(begun, tokens=50)
    await later(store, AGAIN_AFTER_S + 1)
    await mend(store)

    assert (await standing(store)).spent == 50


async def test_what_was_told_of_rows_that_are_pruned_by_now_stays(store: RunStore, process: Process) -> None:
    await set_budget(store, 1000)
    await process.run().call(tokens=100)
    await standing_is(store, "it is told", lambda now: now.spent == 100)
    await kill(process)
    await store.database["usage"].delete_many({})
    await later(store, HELD_FOR_S + LOST_AFTER_S + 1)

    await mend(store)

    assert (await standing(store)).spent == 100


async def test_calls_that_began_before_the_budget_count_when_they_end(store: RunStore, process: Process) -> None:
    """Until they are looked up again."""
    run = process.run()
    begun = await run.begin()
    await set_budget(store, 1000)
    other = Process(store)
    await other.run().call(tokens=10)
    await run.end(begun, tokens=500)
    await store.database["budget_windows"].update_one({}, {"$set": {"based_at": LONG_AGO}})

    await mend(store)

    await standing_is(store, "all count", lambda now: now.spent == 510)
    assert (await window(store))["is_young"] is True
    await store.database["budget_windows"].update_one({}, {"$set": {"based_at": LONG_AGO, "since": LONG_AGO}})
    await mend(store)
    assert "is_young" not in await window(store)
    await other.close()


async def test_windows_that_ended_long_ago_are_deleted_and_what_they_rejected_stays(
    store: RunStore, process: Process
) -> None:
    await set_budget(store, 0, window="day")
    with pytest.raises(Exception, match="is spent"):
        await process.run().call()
    await process.close()
    assert (await standing(store)).rejections == 1
    windows = store.database["budget_windows"]
    ended = datetime.now(UTC) - DELETED_AFTER

    await windows.update_one({"end": {"$type": "date"}}, {"$set": {"end": ended + timedelta(minutes=5)}})
    await mend(store)
    assert await windows.count_documents({"end": {"$type": "date"}}) == 1
    await windows.update_one({"end": {"$type": "date"}}, {"$set": {"end": ended - timedelta(minutes=5)}})
    await mend(store)

    assert await windows.count_documents({"end": {"$type": "date"}}) == 0
    assert (await standing(store)).rejections_total == 1


async def test_where_nobody_reserves_what_was_spent_before_is_looked_up_once(
    store: RunStore, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not by all who look at budgets, again and again."""
    await process.run().call(tokens=70)
    for given in ({}, {"window": "month"}, {"app_id": None, "workflow": "Digest"}, {"app_id": "*"}, {"window": "run"}):
        await set_budget(store, 100, **given)

    await mend(store)

    monkeypatch.setattr("accounting.budgets.standing.recorded_before", None)
    spent = {each.budget.id: each.spent for each in await standings(store.database)}
    assert spent == {
        "app:*/total/tokens": 0,
        "app:acme/month/tokens": 70,
        "app:acme/run/tokens": 0,
        "app:acme/total/tokens": 70,
        "workflow:Digest/total/tokens": 70,
    }


async def test_where_there_is_much_to_mend_all_get_their_turn(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    apps = ("a", "b", "c")
    monkeypatch.setattr(account, "FLUSH_AFTER_S", 3600)
    monkeypatch.setattr(mending, "MOST", 1)
    monkeypatch.setattr(mending, "AGAIN_AFTER_S", -1)  # the first is due again when the next pass comes
    before = Process(store)
    begun = [(before.run(app_id=app), await before.run(app_id=app).begin()) for app in apps]
    for app in apps:
        await set_budget(store, 1000, app_id=app)
    dead = Process(store)
    for app in apps:
        await dead.run(app_id=app).call(tokens=9)
    await kill(dead)
    for run, call in begun:
        await run.end(call, tokens=4)

    await later(store, HELD_FOR_S + LOST_AFTER_S + 1)
    mender = BudgetMending(store.database)
    for _ in apps:
        await mender.run_pass(Counter())

    assert [each.spent for each in await standings(store.database)] == [13, 13, 13]


@pytest.mark.usefixtures("process")
async def test_a_look_reads_only_what_is_to_be_mended(store: RunStore) -> None:
    windows = store.database["budget_windows"]
    now = datetime.now(UTC)
    idle = {"base": 0, "folded": 0, "holders": {}, "end": now + timedelta(days=1), "since": now}
    await windows.insert_many([{"_id": f"w{n}", **idle} for n in range(2000)])

    profile = store.database
    await profile.command({"profile": 2})
    await mend(store)
    await profile.command({"profile": 0})

    looks = await profile["system.profile"].find({"ns": f"{profile.name}.budget_windows"}).to_list(None)
    assert len(looks) >= 3
    assert max(look.get("docsExamined", 0) for look in looks) <= 1
    assert max(look.get("keysExamined", 0) for look in looks) <= 2
