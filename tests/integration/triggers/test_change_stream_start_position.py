"""Triggers that come to a stream, or move to another one, at the worst moment: nothing is missed, nothing twice."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.stream_bench import StreamBench
from triggers.register.trigger import Trigger
from workers.store.run import RunState

pytestmark = pytest.mark.integration

LOST = {"_data": "82"}
OFF = {"full_document": "off"}
BROKEN = {"pipeline": [{"$set": {"half": {"$divide": [8, "$documentKey._id"]}}}]}


def trigger_for(bench: StreamBench, app_id: str = "initech", **changes: Any) -> Trigger:
    return Trigger("Orders", bench.spec(name="made", apps=(), **changes), app_id=app_id)


async def runs_by(bench: StreamBench, name: str) -> list[Any]:
    return sorted(run["input"]["order"] for run in await bench.store.list() if run["trigger"]["name"] == name)


async def test_what_happens_right_after_a_trigger_was_made_starts_its_runs(bench: StreamBench) -> None:
    """The watcher reads it a moment later, when its stream is further."""
    bench.declare({})
    async with bench.watching():
        await bench.triggers.create(trigger_for(bench))
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_stream(lambda stream: stream["token_time"] is not None, "a position behind the change")

        async def both() -> bool:
            return await runs_by(bench, "made") == await runs_by(bench, "paid") == [1]

        await wait_until(both, "a run by each")


async def test_the_first_trigger_of_a_stream_misses_nothing_either(bench: StreamBench) -> None:
    bench.declare()
    await bench.triggers.create(trigger_for(bench))
    await bench.orders.insert_one({"_id": 1})

    async with bench.watching():
        await bench.wait_for_runs(1)


async def test_a_trigger_edited_while_no_watcher_runs_keeps_its_position(bench: StreamBench) -> None:
    bench.declare({}, {"name": "stays"})
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1, 1)
    await bench.orders.insert_one({"_id": 2})

    bench.declare(OFF, {"name": "stays"})
    async with bench.watching(f"{bench.shop.name}/full_document=off"):
        await bench.orders.insert_one({"_id": 3})
        await bench.wait_for_runs(1, 1, 2, 2, 3, 3)

    assert (await bench.stream())["triggers"] == ["Orders/stays"]


async def test_a_trigger_freed_of_a_broken_pipeline_reads_what_waited(bench: StreamBench) -> None:
    bench.declare({"name": "shared"}, BROKEN)
    alone = f"{bench.shop.name}/Orders/paid"
    async with bench.watching(alone), bench.watching():
        await bench.orders.insert_one({"_id": 0})
        await bench.wait_for_metric("stream_state", 3, stream=alone)
        await bench.orders.insert_one({"_id": 2})

        async def seen_by_others() -> bool:
            return await runs_by(bench, "shared") == [0, 2]

        await wait_until(seen_by_others, "runs by the other trigger")
        bench.declare({"name": "shared"}, {})

        async def caught_up() -> bool:
            return await runs_by(bench, "paid") == await runs_by(bench, "shared") == [0, 2]

        await wait_until(caught_up, "runs of what had waited")


async def test_leaving_a_suspended_stream_spares_the_others_and_logs_the_gap(
    bench: StreamBench,
) -> None:
    bench.declare(OFF, {"name": "shared"})
    alone = f"{bench.shop.name}/full_document=off"
    async with bench.watching(), bench.watching(alone):
        pass
    await bench.streams.update_one({"_id": alone}, {"$set": {"resume_token": LOST, "token_time": None}})
    async with bench.watching(alone):
        await bench.wait_for_stream(lambda stream: stream["state"] == "suspended", "suspended", stream=alone)

    bench.declare({}, {"name": "shared"})
    async with bench.watching():
        await bench.wait_for_stream(lambda stream: len(stream["triggers"]) == 2, "the trigger has moved")
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1, 1)

    stream = await bench.stream()
    assert stream["state"] == "running"
    assert [gap["reason"] for gap in stream["gaps"]] == ["history_lost"]


@pytest.mark.parametrize("made", ["by a package", "at run time"])
async def test_history_lost_under_other_triggers_does_not_suspend_a_new_one(bench: StreamBench, made: str) -> None:
    bench.declare({})
    async with bench.watching():
        pass
    stale = {"resume_token": LOST, "token_time": None, "triggers": ["Orders/long_gone"]}
    await bench.streams.update_one({"_id": bench.shop.name}, {"$set": stale})
    await bench.orders.insert_one({"_id": 1})
    if made == "at run time":
        bench.declare()
        await bench.triggers.create(
            trigger_for(bench), extra_fields={"created_at": datetime.now(UTC) - timedelta(hours=2)}
        )

    async with bench.watching():
        await bench.wait_for_stream(lambda stream: stream["resume_token"] not in (None, LOST), "a position of its own")
        await bench.orders.insert_one({"_id": 2})
        await bench.wait_for_runs(2)

    assert (await bench.stream())["gaps"] == []


async def test_events_before_a_streams_first_trigger_are_not_its_history(bench: StreamBench) -> None:
    """As when a trigger is removed, and one of its name is made long afterwards."""
    bench.declare()
    trigger = trigger_for(bench)
    await bench.triggers.create(trigger)
    async with bench.watching():
        pass
    long_ago = {"resume_token": {"_data": "820000000100000001"}, "token_time": None}
    await bench.streams.update_one({"_id": bench.shop.name}, {"$set": long_ago})

    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)

    assert (await bench.stream())["gaps"] == []


async def test_a_watcher_that_reads_a_refused_stream_again_clears_the_refusal(bench: StreamBench) -> None:
    """Another one than that which was refused."""
    bench.declare({})
    async with bench.watching():
        pass
    await bench.streams.update_one({}, {"$set": {"refused": {"words": "no", "at": datetime.now(UTC)}}})

    async with bench.watching():
        await bench.wait_for_stream(lambda stream: "refused" not in stream, "no longer refused")


async def test_runs_of_a_trigger_that_moved_keep_their_order(bench: StreamBench) -> None:
    fields = {"input": {"order": "=documentKey._id", "n": "=updateDescription.updatedFields.n"}}
    bench.declare(fields)
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)
    for number in range(5):
        await bench.orders.update_one({"_id": 1}, {"$set": {"n": number}})
    bench.declare({**fields, **OFF})
    async with bench.watching(f"{bench.shop.name}/full_document=off"):
        await bench.wait_for_runs(*[1] * 6)

    runs = await bench.store.runs.find({"state": RunState.QUEUED.value}).sort("order.seq", 1).to_list(None)
    assert [run["input"]["n"] for run in runs] == [None, *range(5)]
