"""Watchers against a real replica set: nothing missed, nothing twice, whatever happens to stream or watcher."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from bson.datetime_ms import DatetimeMS
from pymongo.errors import AutoReconnect

from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.stream_bench import StreamBench
from triggers.change_stream.resume_token_store import Gap, StreamPosition, StreamStore
from triggers.change_stream.stream_source import StreamSource
from workers.store.run import Accepted, RunRequest
from workers.store.run_store import RunStore
from workers.store.storable import NotStorableError

pytestmark = pytest.mark.integration


@pytest.mark.design("U-8", "D4-87")
async def test_an_inserted_document_becomes_a_run_with_what_the_trigger_maps(
    bench: StreamBench, store: RunStore
) -> None:
    bench.declare(
        {
            "apps": (),
            "app_id": "=fullDocument.tenant",
            "input": {"order": "=documentKey._id", "source": "shop"},
            "message": "=fullDocument.text",
        }
    )
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1, "tenant": "globex", "text": "hello"})
        await bench.wait_for_runs(1)

    run = (await store.list())[0]
    assert run["app_id"] == "globex"
    assert run["input"] == {"order": 1, "source": "shop"}
    assert run["message"] == "hello"
    assert run["trigger"]["type"] == "database_condition"
    assert run["trigger"]["id"].startswith("82")


async def test_only_events_that_hold_start_a_run(bench: StreamBench) -> None:
    bench.declare({"when": "fullDocument.status == 'paid'", "operations": ["insert", "update"]})
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1, "status": "new"})
        await bench.orders.insert_one({"_id": 2, "status": "paid"})
        await bench.orders.insert_one({"_id": 4, "status": "new"})
        await bench.shop["others"].insert_one({"_id": 5, "status": "paid"})
        await bench.wait_for_runs(2)
        await bench.orders.update_one({"_id": 1}, {"$set": {"status": "paid"}})
        await bench.orders.delete_one({"_id": 4})
        await bench.wait_for_runs(1, 2)


async def test_one_event_starts_one_run_for_each_app_and_trigger(bench: StreamBench, store: RunStore) -> None:
    bench.declare({"apps": ("acme", "globex")}, {"name": "second"})
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1, 1, 1)

    names = sorted((run["trigger"]["name"], run["app_id"]) for run in await store.list())
    assert names == [("paid", "acme"), ("paid", "globex"), ("second", "acme")]


async def test_what_happens_while_no_watcher_runs_is_delivered_by_the_next_one(bench: StreamBench) -> None:
    bench.declare({})
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)

    await bench.orders.insert_many([{"_id": number} for number in range(2, 200)])

    async with bench.watching():
        await bench.wait_for_runs(*range(1, 200))


async def test_a_crash_before_the_first_event_loses_nothing(bench: StreamBench) -> None:
    bench.declare({})
    async with bench.watching() as task:
        task.cancel()
        await asyncio.wait([task])
        await bench.orders.insert_one({"_id": 1})

    async with bench.watching():
        await bench.wait_for_runs(1)


async def test_no_position_is_saved_while_a_run_before_it_is_not_durable(
    bench: StreamBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, killed = asyncio.Event(), asyncio.Event()

    async def never(requests: Sequence[RunRequest]) -> Sequence[Accepted | NotStorableError]:
        reached.set()
        await killed.wait()
        raise AutoReconnect(f"{len(requests)} runs were not inserted")

    bench.declare({})
    async with bench.watching() as task:
        monkeypatch.setattr(bench.store, "insert_all", never)
        start = (await bench.stream())["resume_token"]
        await bench.orders.insert_one({"_id": 1})
        async with await bench.shop.watch(start_after=start) as stream:
            event = await stream.next()
        await asyncio.wait_for(reached.wait(), 20)
        later = (await bench.stream())["lease"]["until"] + timedelta(seconds=1.5)
        await bench.wait_for_stream(lambda stream: stream["lease"]["until"] > later, "the lease is kept for long")
        assert (await bench.stream())["resume_token"]["_data"] < event["_id"]["_data"]
        task.cancel()
        killed.set()
        await asyncio.wait([task])
    monkeypatch.undo()

    async with bench.watching():
        await bench.wait_for_runs(1)


async def test_events_that_come_again_start_nothing(bench: StreamBench) -> None:
    bench.declare({})
    async with bench.watching():
        start = (await bench.stream())["resume_token"]
        await bench.orders.insert_many([{"_id": number} for number in range(20)])
        await bench.wait_for_runs(*range(20))

    await bench.streams.update_one({}, {"$set": {"resume_token": start}})
    async with bench.watching():
        await bench.orders.insert_one({"_id": 20})
        await bench.wait_for_runs(*range(21))

    assert bench.metric("duplicates_dropped_total", trigger="Orders/paid") == 20


async def test_two_watchers_have_one_owner_and_the_other_takes_over_when_it_dies(bench: StreamBench) -> None:
    bench.declare({})
    async with bench.watching() as first:
        owner = (await bench.stream())["lease"]["owner"]
        async with bench.watching():
            await bench.orders.insert_many([{"_id": number} for number in range(10)])
            await bench.wait_for_runs(*range(10))
            assert (await bench.stream())["lease"]["owner"] == owner
            assert bench.metric("duplicates_dropped_total", trigger="Orders/paid") is None

            first.cancel()  # as a kill: nothing is saved, no lease is given back
            await asyncio.wait([first])
            await bench.orders.insert_one({"_id": 10})
            await bench.wait_for_runs(*range(11))
            assert (await bench.stream())["lease"]["owner"] != owner


async def test_a_watcher_that_stops_gives_the_stream_back_at_once(bench: StreamBench) -> None:
    bench.declare({})
    async with bench.watching():
        pass

    assert (await bench.stream())["lease"]["owner"] is None


async def test_an_owner_that_lost_its_lease_cannot_move_the_position(bench: StreamBench) -> None:
    bench.declare({})
    async with bench.watching():
        lease = {"owner": "other", "until": datetime(2999, 1, 1, tzinfo=UTC)}
        await bench.streams.update_one({}, {"$set": {"lease": lease, "resume_token": {"_data": "theirs"}}})
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)

        async def has_noticed() -> bool:
            return bench.metric("stream_state", stream=bench.shop.name) == 0

        await wait_until(has_noticed, "the owner noticed that it is none")

    assert (await bench.stream())["resume_token"] == {"_data": "theirs"}


async def test_a_quiet_streams_position_moves_on(bench: StreamBench) -> None:
    bench.declare({})
    async with bench.watching():
        before = (await bench.stream())["resume_token"]
        await bench.shop["others"].insert_one({"_id": 1})

        await bench.wait_for_stream(
            lambda stream: stream["resume_token"]["_data"] > before["_data"], "a newer position"
        )

    assert await bench.run_inputs() == []


async def test_unmappable_events_stop_neither_the_stream_nor_other_triggers(bench: StreamBench) -> None:
    bench.declare(
        {"apps": (), "app_id": "=fullDocument.tenant"},
        {"name": "numbers", "input": {"order": "=abs(documentKey._id)"}},
    )
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})  # no tenant
        await bench.orders.insert_one({"_id": "text", "tenant": "acme"})  # no number
        await bench.orders.insert_one({"_id": 3, "tenant": {"not": "text"}, "odd": DatetimeMS(10**15)})
        await bench.orders.insert_one({"_id": 4, "tenant": "acme"})

        async def four_and_text() -> bool:
            return len(await bench.store.list()) == 5

        await wait_until(four_and_text, "all other runs")

    assert bench.metric("stream_events_skipped_total", trigger="Orders/paid", reason="unmappable") == 2
    assert bench.metric("stream_events_skipped_total", trigger="Orders/numbers", reason="unmappable") == 1


async def test_drop_rename_and_drop_of_the_database_do_not_stop_the_stream(bench: StreamBench) -> None:
    bench.declare({})
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.orders.drop()
        await bench.orders.insert_one({"_id": 2})
        await bench.orders.rename("old_orders")
        await bench.orders.insert_one({"_id": 3})
        await bench.wait_for_runs(1, 2, 3)
        await bench.store.database.client.drop_database(bench.shop.name)
        await bench.orders.insert_one({"_id": 4})
        await bench.wait_for_runs(1, 2, 3, 4)


async def test_a_new_trigger_joins_the_stream_without_a_gap(bench: StreamBench) -> None:
    bench.declare({})
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)
        bench.declare({}, {"name": "refunds", "collection": "refunds"})

        async def has_joined() -> bool:
            await bench.shop["refunds"].insert_one({})
            return any(run["trigger"]["name"] == "refunds" for run in await bench.store.list())

        await wait_until(has_joined, "a run by the new trigger")

    assert bench.metric("stream_gaps_total", stream=bench.shop.name) is None


async def test_changed_triggers_resume_although_the_last_event_no_longer_matches(bench: StreamBench) -> None:
    bench.declare({})
    async with bench.watching():
        start = (await bench.stream())["resume_token"]
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)
    async with await bench.shop.watch(start_after=start) as stream:
        event = await stream.next()
    await bench.streams.update_one(
        {}, {"$set": {"resume_token": event["_id"], "token_time": event["clusterTime"], "lease": {}}}
    )
    await bench.shop["refunds"].insert_one({"_id": 2})

    bench.declare({"collection": "refunds"})
    async with bench.watching():
        await bench.wait_for_runs(1, 2)

    assert (await bench.stream())["gaps"] == []


@pytest.mark.parametrize("data", ["82", "no hex", "820000000000000000000000000000000000000000"])
async def test_a_lost_position_suspends_the_stream_with_its_gap_and_no_hot_loop(
    bench: StreamBench, data: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench.declare({})
    async with bench.watching():
        pass
    await bench.streams.update_one({}, {"$set": {"resume_token": {"_data": data}, "token_time": None}})
    await bench.orders.insert_one({"_id": 1})

    async with bench.watching():
        await bench.wait_for_stream(lambda stream: stream["state"] == "suspended", "suspended")
        until_now = (await bench.stream())["lease"]["until"]
        await bench.wait_for_stream(lambda stream: stream["lease"]["until"] > until_now, "still looked after")

        stream = await bench.stream()
        assert len(stream["gaps"]) == 1
        assert stream["gaps"][0]["reason"] == "history_lost"
        assert stream["gaps"][0]["from"] == stream["token_saved_at"]
        assert stream["gaps"][0]["to"] is None
        await bench.wait_for_metric("stream_state", 2)  # set after the document is written
        assert bench.metric("stream_gaps_total", stream=bench.shop.name) == 1
        assert [record.message for record in caplog.records].count("stream_suspended") == 1
    assert await bench.run_inputs() == []


async def test_a_lost_position_continues_from_now_if_all_triggers_allow_it(
    bench: StreamBench,
) -> None:
    bench.declare({"on_history_lost": "resume_now"})
    async with bench.watching():
        pass
    await bench.streams.update_one({}, {"$set": {"resume_token": {"_data": "82"}, "token_time": None}})
    await bench.orders.insert_one({"_id": 1})

    async with bench.watching():
        await bench.wait_for_stream(
            lambda stream: stream["state"] == "running" and stream["resume_token"] not in (None, {"_data": "82"}),
            "a new position",
        )
        await bench.orders.insert_one({"_id": 2})
        await bench.wait_for_runs(2)

    gaps = (await bench.stream())["gaps"]
    assert len(gaps) == 1
    assert gaps[0]["from"] < gaps[0]["to"]


async def test_the_moment_a_lost_position_goes_on_from_is_kept(bench: StreamBench) -> None:
    """A watcher that dies at that moment must not extend the gap."""
    streams = StreamStore(bench.store.database, owner="me", lease_s=60)
    await streams.acquire_lease("shop")
    await streams.suspend("shop", Gap(None, None, "history_lost"))
    now = await StreamSource(bench.store.database.client, "shop").current_time()
    await streams.resume_from_now("shop", now)

    record = await streams.find_leased("shop")
    assert record is not None
    assert record.position == StreamPosition(None, now)


async def test_triggers_on_own_collections_or_without_an_app_are_refused_once(
    bench: StreamBench, store: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    bench.declare(
        {"name": "loop", "database": store.database.name, "collection": "runs"}, {"name": "nobody", "apps": ()}, {}
    )
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)

    inactive = [record for record in caplog.records if record.message == "change_trigger_inactive"]
    assert len(inactive) == 2
    assert await store.database["streams"].count_documents({}) == 1
