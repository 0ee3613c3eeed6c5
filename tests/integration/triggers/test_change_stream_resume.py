"""Resuming a stream: from now, from its position, from a time; and its status."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.stream_bench import StreamBench
from triggers.change_stream.change_kind import KIND
from triggers.change_stream.stream_control import (
    NOW,
    TOKEN,
    ResumeRefusedError,
    StreamControl,
    StreamNotFoundError,
)
from triggers.register.trigger_record import Pause

pytestmark = pytest.mark.integration

LOST = {"_data": "82"}


async def server_time(bench: StreamBench) -> datetime:
    said = await bench.store.database.command("hello")
    time: datetime = said["localTime"]
    return time.replace(tzinfo=UTC)


async def next_second(bench: StreamBench) -> datetime:
    """Positions by time are in whole seconds."""
    begin = (await server_time(bench)).replace(microsecond=0) + timedelta(seconds=1)

    async def has_come() -> bool:
        return await server_time(bench) >= begin

    await wait_until(has_come, "the next second")
    return begin


async def suspend_stream(bench: StreamBench) -> None:
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)
    await bench.streams.update_one({"_id": bench.shop.name}, {"$set": {"resume_token": LOST, "token_time": None}})
    async with bench.watching():
        await bench.wait_for_stream(lambda stream: stream["state"] == "suspended", "suspended")


async def test_a_suspended_stream_goes_on_from_now_and_its_gap_ends(bench: StreamBench) -> None:
    await suspend_stream(bench)
    await bench.orders.insert_one({"_id": 2})
    await StreamControl(bench.store.database).resume(bench.shop.name, NOW, by="ada")
    await bench.orders.insert_one({"_id": 3})  # "now" is the time of the command, not that of the next read

    async with bench.watching():
        await bench.wait_for_runs(1, 3)

    stream = await bench.stream()
    assert stream["state"] == "running"
    assert [(gap["reason"], gap["to"] is not None) for gap in stream["gaps"]] == [("history_lost", True)]
    assert stream["gaps"][0]["from"] < stream["gaps"][0]["to"]
    assert stream["resumed"]["by"] == "ada"


async def test_a_suspended_stream_rewinds_before_its_gap_and_misses_nothing(bench: StreamBench) -> None:
    begin = await next_second(bench)
    await suspend_stream(bench)
    await bench.orders.insert_one({"_id": 2})
    await StreamControl(bench.store.database).resume(bench.shop.name, begin)

    async with bench.watching():
        await bench.orders.insert_one({"_id": 3})
        await bench.wait_for_runs(1, 2, 3)

    assert (await bench.stream())["gaps"] == []
    assert bench.metric("duplicates_dropped_total", trigger="Orders/paid") == 1


async def test_a_time_after_the_start_of_the_gap_ends_the_gap_there(bench: StreamBench) -> None:
    await suspend_stream(bench)
    begin = await next_second(bench)
    await bench.orders.insert_one({"_id": 2})
    await StreamControl(bench.store.database).resume(bench.shop.name, begin)

    async with bench.watching():
        await bench.wait_for_runs(1, 2)

    assert [gap["to"] for gap in (await bench.stream())["gaps"]] == [begin]


async def test_a_position_that_is_tried_again_and_is_still_lost_is_one_gap(bench: StreamBench) -> None:
    await suspend_stream(bench)
    first = (await bench.stream())["gaps"]
    await StreamControl(bench.store.database).resume(bench.shop.name, TOKEN)
    assert (await bench.stream())["state"] == "running"

    async with bench.watching():
        await bench.wait_for_stream(lambda stream: stream["state"] == "suspended", "suspended again")

    again = (await bench.stream())["gaps"]
    assert [gap["from"] for gap in again] == [gap["from"] for gap in first]


async def test_a_running_stream_rereads_a_period_and_recovers_what_was_skipped(bench: StreamBench) -> None:
    """The watcher does not skip the events again, though its last regular check saw the trigger paused."""
    begin = await next_second(bench)
    await bench.triggers.pause(bench.trigger, Pause(datetime.now(UTC), "ada"))
    async with bench.watching(watcher=bench.watcher(check_interval_s=600)):
        await bench.orders.insert_many([{"_id": 1}, {"_id": 2}])
        await bench.wait_for_skips("paused", 2)
        await bench.triggers.resume(bench.trigger)
        await StreamControl(bench.store.database).resume(bench.shop.name, begin)
        await bench.wait_for_runs(1, 2)
        await bench.orders.insert_one({"_id": 3})
        await bench.wait_for_runs(1, 2, 3)

    assert (await bench.stream())["gaps"] == []


async def test_a_running_stream_moved_to_now_records_what_it_may_have_missed(bench: StreamBench) -> None:
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)
        await StreamControl(bench.store.database).resume(bench.shop.name, NOW)
        await bench.wait_for_stream(lambda stream: stream["resume_token"] is not None, "a new position")
        await bench.orders.insert_one({"_id": 2})
        await bench.wait_for_runs(1, 2)

    assert [gap["reason"] for gap in (await bench.stream())["gaps"]] == ["resumed_from_now"]


async def test_what_cannot_be_is_refused_with_a_sentence_and_changes_nothing(bench: StreamBench) -> None:
    control = StreamControl(bench.store.database)
    with pytest.raises(StreamNotFoundError, match="watcher"):
        await control.resume("nowhere", NOW)
    await suspend_stream(bench)
    before = await bench.stream()
    for moment, said in (
        (datetime.now(UTC) + timedelta(hours=1), "future"),
        (datetime(2026, 1, 1), "offset"),  # noqa: DTZ001 -- that is what is wrong with it
    ):
        with pytest.raises(ResumeRefusedError, match=said):
            await control.resume(bench.shop.name, moment)

    assert {**await bench.stream(), "lease": None} == {**before, "lease": None}


async def test_the_description_names_the_streams_reader_and_position(bench: StreamBench) -> None:
    async def outlook() -> dict[str, object]:
        return dict(await KIND.describe(bench.trigger, None, bench.store.database, bench.settings))

    assert str((await outlook())["state"]).startswith("not read yet")
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)
        await bench.wait_for_stream(lambda stream: stream["token_time"] is not None, "a position behind an event")
        told = await outlook()

    assert told["stream"] == bench.shop.name
    assert told["state"] == "running"
    assert told["owner"] is not None
    assert isinstance(told["oplog_window_s"], float)
    assert told["gaps"] == []
    assert isinstance(told["newest_event_at"], datetime)
    assert (await outlook())["owner"] is None

    bench.declare({"pre_image": "required", "operations": ["update"]})
    async with bench.watching(f"{bench.shop.name}/pre_image=when_available"):
        assert "collMod" in str((await outlook())["warning"])
