"""Which of a stream's events start runs, and in which order: ordering, debounce, loop guard, pauses, and triggers that
were made at run time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.stream_bench import StreamBench
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import Pause
from workers.store.run import RunState

pytestmark = pytest.mark.integration

PAUSE = Pause(datetime(2026, 1, 1, tzinfo=UTC), "ada", "stocktaking")


async def in_order(bench: StreamBench) -> list[dict[str, Any]]:
    """As they are to be worked on."""
    return await bench.store.runs.find({}).sort([("order.key", 1), ("order.seq", 1)]).to_list(None)


async def wait_for_ends(bench: StreamBench, count: int) -> list[tuple[int, Any]]:
    """What a worker would have been given, one ready run after the other."""
    done: list[tuple[int, Any]] = []

    async def next_one() -> bool:
        ready = await bench.store.runs.find({"lane": {"$exists": True}}).sort([("priority", -1), ("_id", 1)]).to_list(1)
        for run in ready:
            done.append((run["input"]["order"], run["input"].get("n")))
            ended = {"state": RunState.SUCCEEDED.value, "finished_at": datetime.now(UTC)}
            leaves = {"lane": "", "order_head": ""}
            await bench.store.runs.update_one({"_id": run["_id"]}, {"$set": ended, "$unset": leaves})
            if run.get("order"):
                await bench.store.order.release_next(run["order"]["key"], sends_wakeup=False)
        return len(done) >= count

    await wait_until(next_one, f"{count} runs are worked off")
    return done


async def test_runs_of_one_document_keep_the_order_of_its_changes(bench: StreamBench) -> None:
    bench.declare(
        {
            "operations": ["insert", "update"],
            "full_document": "off",
            "loop_guard": {"max": 1000, "per": "60s"},
            "input": {"order": "=documentKey._id", "n": "=updateDescription.updatedFields.n"},
        }
    )
    async with bench.watching(f"{bench.shop.name}/full_document=off"):
        await bench.orders.insert_many([{"_id": order} for order in range(5)])
        for number in range(12):
            await bench.orders.update_many({}, {"$set": {"n": number}})

        async def all_there() -> bool:
            return await bench.store.runs.count_documents({}) == 65

        await wait_until(all_there, "a run for each change")

    runs = await in_order(bench)
    heads = [run for run in runs if "lane" in run]
    assert sorted(run["input"]["order"] for run in heads) == list(range(5))
    for order in range(5):
        assert [run["input"]["n"] for run in runs if run["input"]["order"] == order] == [None, *range(12)]
    done = await wait_for_ends(bench, 65)
    for order in range(5):
        assert [n for each, n in done if each == order] == [None, *range(12)]


async def test_strict_order_is_that_of_the_whole_trigger_and_none_is_none(bench: StreamBench) -> None:
    bench.declare(
        {"ordering": "strict"}, {"name": "free", "ordering": "none", "input": {"order": "=documentKey._id", "n": 1}}
    )
    async with bench.watching():
        await bench.orders.insert_many([{"_id": number} for number in range(50)])

        async def all_there() -> bool:
            return await bench.store.runs.count_documents({}) == 100

        await wait_until(all_there, "two runs for each document")

    ready = await bench.store.runs.count_documents({"lane": {"$exists": True}, "trigger.name": "free"})
    assert ready == 50
    strict = [run for run in await in_order(bench) if run["trigger"]["name"] == "paid"]
    assert [run["input"]["order"] for run in strict] == list(range(50))
    assert [run["input"]["order"] for run in strict if "lane" in run] == [0]


async def test_changes_of_a_document_in_quick_succession_are_one_run(bench: StreamBench) -> None:
    bench.declare({"debounce": "1s", "input": {"order": "=documentKey._id", "n": "=fullDocument.n"}})
    async with bench.watching():
        await bench.orders.insert_many([{"_id": 1, "n": 0}, {"_id": 2, "n": 0}])
        await bench.orders.update_one({"_id": 1}, {"$set": {"n": 1}})
        await bench.orders.update_one({"_id": 1}, {"$set": {"n": 2}})

        async def are_merged() -> bool:
            runs = await bench.store.list()
            return sorted((run["input"]["order"], run["input"]["n"]) for run in runs) == [(1, 2), (2, 0)]

        await wait_until(are_merged, "one run for each document")
        start = (await bench.stream())["resume_token"]
        assert all(run["not_before"] is not None for run in await bench.store.list())

    assert start is not None
    assert (await bench.record()).counts == {"accepted": 2, "merged": 2}


async def test_merged_events_that_come_again_start_nothing(bench: StreamBench) -> None:
    bench.declare({"debounce": "1s"})
    async with bench.watching():
        start = (await bench.stream())["resume_token"]
        await bench.orders.insert_one({"_id": 1})
        await bench.orders.update_one({"_id": 1}, {"$set": {"n": 1}})
        await bench.wait_for_runs(1)
        await bench.wait_for_metric("stream_lag_seconds", 0)
    await bench.streams.update_one({}, {"$set": {"resume_token": start}})

    async with bench.watching():
        await bench.orders.insert_one({"_id": 2})
        await bench.wait_for_runs(1, 2)

    assert bench.metric("duplicates_dropped_total", trigger="Orders/paid") == 2


async def test_a_burst_of_changes_that_become_one_run_is_no_loop(bench: StreamBench) -> None:
    bench.declare(
        {
            "debounce": "300ms",
            "loop_guard": {"max": 2, "per": "60s"},
            "input": {"order": "=documentKey._id", "n": "=fullDocument.n"},
        }
    )
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1, "n": 0})
        for number in range(1, 10):
            await bench.orders.update_one({"_id": 1}, {"$set": {"n": number}})

        async def newest() -> bool:
            return [run["input"]["n"] for run in await bench.store.list()] == [9]

        await wait_until(newest, "one run of the newest")
        for number in (10, 11):  # each a run of its own
            due = max(run["not_before"] for run in await bench.store.list())
            await wait_until(partial(is_past, bench, due), "the quiet time is over")
            await bench.orders.update_one({"_id": 1}, {"$set": {"n": number}})
            if number == 10:
                await bench.wait_for_runs(1, 1)
        await bench.wait_for_skips("loop_guard", 1)
        await bench.wait_for_runs(1, 1)


async def is_past(bench: StreamBench, moment: datetime) -> bool:
    now: datetime = (await bench.store.database.command("hello"))["localTime"]
    return now.replace(tzinfo=UTC) > moment


@asynccontextmanager
async def writing_back(bench: StreamBench) -> AsyncIterator[None]:
    """Workers whose workflow writes to the document that started it."""

    stop = asyncio.Event()

    async def work() -> None:
        while not stop.is_set():
            async for run in bench.store.runs.find({"written": None}):
                await bench.orders.update_one({"_id": run["input"]["order"]}, {"$inc": {"n": 1}})
                await bench.store.runs.update_one({"_id": run["_id"]}, {"$set": {"written": True}})
            await asyncio.sleep(0.01)  # as workers look

    task = asyncio.create_task(work())
    yield
    stop.set()
    await task


async def test_a_workflow_that_triggers_itself_is_stopped_and_others_continue(
    bench: StreamBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.declare({"ordering": "none", "loop_guard": {"max": 8, "per": "60s"}})
    async with bench.watching(), writing_back(bench):
        await bench.orders.insert_one({"_id": 1})
        notes = await bench.wait_for_skips("loop_guard", 1)
        await bench.orders.insert_one({"_id": 2})
        notes = await bench.wait_for_skips("loop_guard", 2)

    assert await bench.run_inputs() == [1] * 8 + [2] * 8
    assert "more than 8 runs in 1m;" in notes[0]["detail"]
    assert [record.message for record in caplog.records].count("loop_stopped") == 2


async def test_what_was_caught_up_after_a_night_is_no_loop(bench: StreamBench) -> None:
    bench.declare({"ordering": "none", "loop_guard": {"max": 2, "per": "200ms"}})
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)
    for number in range(5):
        await bench.orders.update_one({"_id": 1}, {"$set": {"n": number}})
        await asyncio.sleep(0.15)  # the pace of the changes is what this is about

    async with bench.watching():
        await bench.wait_for_runs(*[1] * 6)


async def test_a_paused_trigger_skips_with_its_note_and_the_stream_continues(bench: StreamBench) -> None:
    bench.declare({"when": "fullDocument.n != `0`"}, {"name": "second"})
    await bench.triggers.pause(bench.trigger, PAUSE)
    async with bench.watching():
        await bench.orders.insert_many([{"_id": 1, "n": 0}, {"_id": 2}])
        notes = await bench.wait_for_skips("paused", 1)
        await bench.wait_for_runs(1, 2)
        await bench.triggers.resume(bench.trigger)

        async def is_resumed() -> bool:
            await bench.orders.insert_one({})
            return any(run["trigger"]["name"] == "paid" for run in await bench.store.list())

        await wait_until(is_resumed, "a run by the resumed trigger")

    assert notes[0]["detail"] == "stocktaking"
    assert (await bench.record()).counts["skipped.when"] == 1


async def test_a_trigger_paused_for_one_app_starts_runs_of_the_others(bench: StreamBench) -> None:
    bench.declare({"apps": ("acme", "globex")})
    await bench.triggers.pause(bench.trigger, PAUSE, app_id="acme")
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        notes = await bench.wait_for_skips("paused", 1)
        await bench.wait_for_runs(1)

    assert (await bench.store.list())[0]["app_id"] == "globex"
    assert notes[0]["app_id"] == "acme"


async def test_a_trigger_made_at_run_time_starts_runs_of_its_app_from_then_on(bench: StreamBench) -> None:
    made = Trigger("Orders", bench.spec(name="made", apps=()), app_id="initech")
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)
        # Cluster time is in whole seconds.
        await bench.triggers.create(made, extra_fields={"created_at": datetime.fromtimestamp(2**31, UTC)})
        other = Trigger("Orders", bench.spec(name="other", apps=()), app_id="initech")
        await bench.triggers.create(other)

        async def has_fired() -> bool:
            await bench.orders.insert_one({})
            return any(run["trigger"]["name"] == "other" for run in await bench.store.list())

        await wait_until(has_fired, "a run by the trigger made at run time")
        apps = {(run["trigger"]["name"], run["app_id"]) for run in await bench.store.list()}
        assert apps == {("paid", "acme"), ("other", "initech")}
        assert await bench.triggers.remove(other.id)

        async def is_gone() -> bool:
            count = await bench.store.runs.count_documents({"trigger.name": "other"})
            await bench.orders.insert_one({})
            before = await bench.store.runs.count_documents({"trigger.name": "paid"})
            await wait_until(lambda: has_more_runs_than(bench, before - 1), "seen")
            return await bench.store.runs.count_documents({"trigger.name": "other"}) == count

        await wait_until(is_gone, "no more runs by the removed trigger")


async def has_more_runs_than(bench: StreamBench, count: int) -> bool:
    return await bench.store.runs.count_documents({"trigger.name": "paid"}) > count


async def test_a_packages_trigger_goes_before_one_of_the_same_name(bench: StreamBench) -> None:
    shadowed = Trigger("Orders", bench.spec(apps=(), input={"order": "made at run time"}), app_id="acme")
    unknown = Trigger("Nowhere", bench.spec(apps=()), app_id="acme")
    await bench.triggers.create(shadowed)
    await bench.triggers.create(unknown)
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)
        await bench.orders.insert_one({"_id": 2})
        await bench.wait_for_runs(1, 2)


async def test_a_trigger_on_a_whole_database_sees_every_collection_but_ours(bench: StreamBench) -> None:
    own = bench.store.database.name
    bench.declare(
        {"collection": None}, {"name": "ours", "database": own, "collection": None, "input": {"order": "=ns.coll"}}
    )
    async with bench.watching(), bench.watching(own):
        await bench.orders.insert_one({"_id": 1})
        await bench.shop["refunds"].insert_one({"_id": 2})
        await bench.store.database["mine"].insert_one({"_id": 3})

        async def three() -> bool:
            return await bench.store.runs.count_documents({}) == 3

        await wait_until(three, "three runs")

    assert {run["input"]["order"] for run in await bench.store.list()} == {1, 2, "mine"}


async def test_what_became_of_events_is_written_down(bench: StreamBench) -> None:
    bench.declare({"when": "fullDocument.n > `1`"})
    async with bench.watching():
        start = (await bench.stream())["resume_token"]
        await bench.orders.insert_many([{"_id": number, "n": number} for number in range(5)])
        await bench.wait_for_runs(2, 3, 4)
    await bench.streams.update_one({}, {"$set": {"resume_token": start}})
    async with bench.watching():
        await bench.orders.insert_one({"_id": 5, "n": 5})
        await bench.wait_for_runs(2, 3, 4, 5)

    record = await bench.record()
    assert record.counts["accepted"] == 4
    assert record.counts["duplicate"] == 3
    assert record.counts["skipped.when"] == 4
    assert {note["reason"] for note in record.notes} == {"duplicate"}
    assert record.last_fired_at is not None
