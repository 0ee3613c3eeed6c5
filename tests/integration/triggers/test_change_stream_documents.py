"""What events carry: large documents, images before and after, pipelines, and what JSON has no word for."""

import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS

from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.stream_bench import StreamBench
from triggers.change_stream.change_kind import KIND

pytestmark = pytest.mark.integration

MIB = 1024 * 1024


async def keep_images(bench: StreamBench) -> None:
    await bench.shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})


async def test_a_document_of_15_mb_starts_runs_on_insert_and_replace(
    bench: StreamBench,
) -> None:
    bench.declare({"input": {"order": "=documentKey._id", "n": "=length(fullDocument.text)"}})
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1, "text": "x" * 15 * MIB})
        await bench.orders.replace_one({"_id": 1}, {"text": "y" * 14 * MIB})
        await bench.orders.insert_one({"_id": 2, "text": "z"})
        await bench.wait_for_runs(1, 1, 2)

    assert (await bench.stream())["gaps"] == []
    assert {run["input"]["n"] for run in await bench.store.list()} == {15 * MIB, 14 * MIB, 1}


async def test_an_event_beyond_16_mb_is_read_without_its_document_and_recorded(bench: StreamBench) -> None:
    bench.declare(
        {"operations": ["insert", "update"], "input": {"order": "=documentKey._id", "whole": "=fullDocument.kind"}},
        {"name": "needs", "operations": ["update"], "when": "fullDocument.kind == 'big'"},
    )
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)
    await bench.orders.insert_one({"_id": 2, "kind": "big"})
    await bench.orders.insert_one({"_id": 3})
    # What changed and the whole document are in one event: 18 MB.
    await bench.orders.update_one({"_id": 2}, {"$set": {"text": "x" * 9 * MIB}})
    await bench.orders.insert_one({"_id": 4})

    async with bench.watching():
        await bench.wait_for_runs(1, 2, 2, 3, 4)

    assert [gap["reason"] for gap in (await bench.stream())["gaps"]] == ["event_too_large"]
    runs = [run for run in await bench.store.list() if run["input"]["order"] == 2]
    assert sorted((run["input"]["whole"] or "") for run in runs) == ["", "big"]
    assert bench.metric("stream_gaps_total", stream=bench.shop.name) == 1


async def test_what_stands_before_a_large_event_in_its_batch_is_read_at_once(
    bench: StreamBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.declare({"operations": ["insert", "update"], "ordering": "none"})
    async with bench.watching():
        pass
    await bench.orders.insert_many([{"_id": number} for number in range(300)])
    await bench.orders.insert_one({"_id": "large", "text": "x" * 5 * MIB})
    await bench.orders.update_one({"_id": "large"}, {"$set": {"more": "x" * 8 * MIB}})
    await bench.orders.insert_one({"_id": "last"})
    caplog.clear()

    async with bench.watching():

        async def last() -> bool:
            return await bench.store.runs.find_one({"input.order": "last"}) is not None

        await wait_until(last, "a run of the last one")

    assert await bench.store.runs.count_documents({}) == 303
    assert [gap["reason"] for gap in (await bench.stream())["gaps"]] == ["event_too_large"]
    # As it comes, one by one, and behind it: not once more for each event.
    assert [record.message for record in caplog.records].count("stream_opened") <= 5


async def test_a_trigger_needing_no_document_reads_the_same_event_without_a_gap(bench: StreamBench) -> None:
    bench.declare({"operations": ["update"], "full_document": "off"})
    stream = f"{bench.shop.name}/full_document=off"
    async with bench.watching(stream):
        await bench.orders.insert_one({"_id": 2})
        await bench.orders.update_one({"_id": 2}, {"$set": {"text": "x" * 9 * MIB}})
        await bench.orders.update_one({"_id": 2}, {"$set": {"n": 1}})
        await bench.wait_for_runs(2, 2)

    assert (await bench.stream(stream))["gaps"] == []


async def test_a_pipeline_projects_what_would_be_too_large(bench: StreamBench) -> None:
    bench.declare(
        {
            "operations": ["update"],
            "pipeline": [{"$match": {"fullDocument.kind": "big"}}, {"$project": {"fullDocument.kind": 1}}],
            "input": {"order": "=documentKey._id", "kind": "=fullDocument.kind"},
        }
    )
    stream = f"{bench.shop.name}/Orders/paid"
    async with bench.watching(stream):
        await bench.orders.insert_many([{"_id": 1, "kind": "small"}, {"_id": 2, "kind": "big"}])
        await bench.orders.update_many({}, {"$set": {"text": "x" * 9 * MIB}})
        await bench.wait_for_runs(2)
        # The pipeline lets the end of the stream through, or there would be no position behind it.
        await bench.store.database.client.drop_database(bench.shop.name)
        await bench.orders.insert_one({"_id": 3, "kind": "big"})
        await bench.orders.update_one({"_id": 3}, {"$set": {"n": 1}})
        await bench.wait_for_runs(2, 3)

    assert (await bench.stream(stream))["gaps"] == []


@pytest.mark.parametrize(
    "stages",
    [
        [{"$replaceWith": {"kind": "$fullDocument.kind"}}],
        [{"$replaceRoot": {"newRoot": "$fullDocument"}}],
        [{"$project": {"kind": "$fullDocument.kind", "ns.db": 1}}],
        [{"$unset": ["fullDocument"]}, {"$set": {"kind": "k"}}],
        [{"$project": {"fullDocument": 0}}, {"$addFields": {"kind": "k"}}],
    ],
    ids=["replaceWith", "replaceRoot", "project", "unset", "project out"],
)
async def test_the_stream_position_is_kept_whatever_a_pipeline_makes_of_events(
    bench: StreamBench, stages: list[dict[str, object]]
) -> None:
    bench.declare({"pipeline": stages, "input": {"order": "=documentKey._id", "kind": "=kind"}})
    async with bench.watching(f"{bench.shop.name}/Orders/paid"):
        await bench.orders.insert_one({"_id": 1, "kind": "k"})
        await bench.wait_for_runs(1)

    assert (await bench.store.list())[0]["input"]["kind"] == "k"


async def test_a_pipeline_that_the_server_refuses_stops_its_own_trigger_alone(bench: StreamBench) -> None:
    bench.declare({"name": "wrong", "pipeline": [{"$match": {"$and": "no list"}}]}, {})
    wrong = f"{bench.shop.name}/Orders/wrong"
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1})
        await bench.wait_for_runs(1)
        await bench.wait_for_metric("stream_state", 3, stream=wrong)
        assert "$and" in (await bench.stream(wrong))["refused"]["words"]
        told = await KIND.describe(bench.trigger, None, bench.store.database, bench.settings)
        assert (told["stream"], told["state"]) == (wrong, "refused")

        bench.declare({"name": "wrong", "pipeline": [{"$match": {"fullDocument.n": 2}}]}, {})
        await bench.wait_for_metric("stream_state", 1, stream=wrong)
        await bench.wait_for_stream(lambda stream: "refused" not in stream, "no longer refused", stream=wrong)
        await bench.orders.insert_one({"_id": 2, "n": 2})
        await bench.wait_for_runs(1, 2, 2)


async def test_a_stream_that_was_never_readable_shows_the_age_of_its_position(bench: StreamBench) -> None:
    """A watcher restarts while MongoDB refuses the stream: the oplog goes on, and alerts must show it."""
    stream = f"{bench.shop.name}/Orders/wrong"
    bench.declare({"name": "wrong", "pipeline": [{"$match": {"fullDocument.n": 2}}]})
    async with bench.watching(stream):
        await bench.wait_for_stream(lambda found: found.get("token_saved_at") is not None, "a position", stream=stream)
    assert bench.metric("stream_token_age_seconds", stream=stream) is None

    bench.declare({"name": "wrong", "pipeline": [{"$match": {"$and": "no list"}}]})
    async with bench.watching(stream):
        await bench.wait_for_metric("stream_state", 3, stream=stream)
        assert bench.metric("stream_token_age_seconds", stream=stream) is not None
        assert bench.metric("stream_lag_seconds", stream=stream) == 0


async def test_a_pipeline_that_fails_at_an_event_waits_there_until_it_is_mended(bench: StreamBench) -> None:
    def pipeline(stage: dict[str, object]) -> dict[str, object]:
        return {"pipeline": [{"$set": {"half": stage}}], "input": {"order": "=documentKey._id", "half": "=half"}}

    bench.declare(pipeline({"$divide": [8, "$fullDocument.n"]}))
    stream = f"{bench.shop.name}/Orders/paid"
    async with bench.watching(stream):
        await bench.orders.insert_one({"_id": 1, "n": 2})
        await bench.wait_for_runs(1)
        await bench.orders.insert_one({"_id": 2, "n": 0})
        await bench.wait_for_metric("stream_state", 3, stream=stream)
        await bench.orders.insert_one({"_id": 3, "n": 4})

        bench.declare(pipeline({"$add": [1, "$fullDocument.n"]}))
        await bench.wait_for_runs(1, 2, 3)


async def test_pre_images_come_where_the_collection_keeps_them(bench: StreamBench) -> None:
    await keep_images(bench)
    bench.declare(
        {
            "operations": ["update", "delete"],
            "pre_image": "required",
            "when": "fullDocumentBeforeChange.status == 'new'",
        }
    )
    async with bench.watching(f"{bench.shop.name}/pre_image=when_available"):
        await bench.orders.insert_many([{"_id": 1, "status": "new"}, {"_id": 2, "status": "old"}])
        await bench.orders.update_many({}, {"$set": {"status": "paid"}})
        await bench.orders.delete_many({})
        await bench.wait_for_runs(1)


@pytest.mark.parametrize(
    ("needs", "reason"),
    [({"pre_image": "required"}, "no_pre_image"), ({"full_document": "required"}, "no_full_document")],
)
async def test_a_missing_required_image_is_a_skip_with_its_remedy(
    bench: StreamBench, needs: dict[str, str], reason: str
) -> None:
    bench.declare({"operations": ["insert", "update"], **needs})
    need, _ = next(iter(needs.items()))
    async with bench.watching(f"{bench.shop.name}/{need}=when_available"):
        await bench.orders.insert_one({"_id": 1})
        await bench.orders.update_one({"_id": 1}, {"$set": {"n": 1}})
        notes = await bench.wait_for_skips(reason, 1)
        await bench.orders.insert_one({"_id": 2})
        await bench.wait_for_runs(1, 2)

    assert "changeStreamPreAndPostImages" in notes[0]["detail"]


async def test_post_images_are_the_document_as_it_was_after_that_change(bench: StreamBench) -> None:
    await keep_images(bench)
    bench.declare({"operations": ["update"], "full_document": "required", "input": {"order": "=fullDocument.n"}})
    async with bench.watching(f"{bench.shop.name}/full_document=when_available"):
        await bench.orders.insert_one({"_id": 1})
        for number in range(5):
            await bench.orders.update_one({"_id": 1}, {"$set": {"n": number}})
        await bench.wait_for_runs(*range(5))


async def test_values_that_json_has_no_word_for_do_not_stop_a_stream(bench: StreamBench) -> None:
    odd = {
        "nan": float("nan"),
        "far": DatetimeMS(10**15),
        "long": Int64(2**62),
        "price": Decimal128("1E+6000"),
        "bytes": Binary(b"\x00\xff"),
        "code": Code("f()", {"a": 1}),
        "pattern": Regex("^a", "i"),
        "time": Timestamp(5, 6),
        "least": MinKey(),
        "most": MaxKey(),
        "one": ObjectId("65a000000000000000000000"),
        "list": [float("inf"), {"deep": DatetimeMS(-(10**15))}],
    }
    bench.declare({"input": {"order": "=documentKey._id", "odd": "=fullDocument.odd"}})
    async with bench.watching():
        await bench.orders.insert_one({"_id": 1, "odd": odd})
        await bench.orders.insert_one({"_id": 2, "odd": {"a.b": 1}})
        await bench.orders.insert_one({"_id": 3, "odd": {"$where": 1}})
        await bench.orders.insert_one({"_id": 4, "odd": 1})
        await bench.wait_for_runs(1, 4)
        assert len(await bench.wait_for_skips("not_storable", 2)) == 2

    kept = next(run["input"]["odd"] for run in await bench.store.list() if run["input"]["order"] == 1)
    assert kept["nan"] == "NaN"
    assert kept["far"] == f"{10**15}ms"
    assert kept["long"] == 2**62
    assert kept["bytes"] == "AP8="
    assert kept["one"] == "65a000000000000000000000"
    assert kept["list"][0] == "Infinity"


async def test_names_and_texts_that_are_broken_do_not_stop_a_stream(bench: StreamBench) -> None:
    async with bench.watching():
        await bench.orders.insert_one({"_id": Binary(b"\xff" * 900)})
        await bench.orders.insert_one({"_id": {"a": "x" * 900, "b": 1.5}})
        await bench.orders.insert_one({"_id": "\u0000nul"})
        await bench.orders.insert_one({"_id": 1})

        async def all_four() -> bool:
            return len(await bench.store.list()) == 4

        await wait_until(all_four, "runs for all four")
