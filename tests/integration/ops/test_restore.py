"""The runbook's restore of a backup into an empty replica set, with an empty Redis.

Runs resume after their last turn, usage is unchanged, and a stream is suspended if the new oplog lacks its position.
`mongodump --oplog` copies the database at one point in time; the test uses a snapshot session for the same.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pymongo.asynchronous.database import AsyncDatabase

from accounting.totals.usage_query import UsageFilter, usage_totals
from tests.chaos.own_servers import stage_of_its_own
from tests.integration.ops.all_roles import all_roles
from tests.integration.stage import Document, Stage, relay, wait_until
from triggers.change_stream.stream_control import NOW, StreamControl

pytestmark = pytest.mark.integration

Backup = dict[str, Sequence[Document]]


PLACE = {"lease_s": 3, "republish_after_s": 2, "grace_s": 1}


def orders(stage: Stage, *, b_takes_s: float) -> None:
    change: Document = {"name": "paid", "type": "db", "database": "shop", "collection": "orders", "apps": ["acme"]}
    change["input"] = {"order": "=documentKey._id"}
    stage.package("Orders", {**relay("Orders", ["A", "B"]), "triggers": {"triggers": [change]}})
    answer = {"text": "ok", "usage": {"input": 10, "output": 2}}
    stage.answers({"B": [{**answer, "delay_s": b_takes_s}]}, default=answer)


async def backup_of(database: AsyncDatabase[Document]) -> Backup:
    async with database.client.start_session(snapshot=True) as session:
        names = await database.list_collection_names()
        return {name: await database[name].find({}, session=session).to_list(None) for name in names}


async def restore(backup: Backup, database: AsyncDatabase[Document]) -> None:
    for name, documents in backup.items():
        if documents:
            await database[name].insert_many(documents)


async def wait_for_stream(stage: Stage, what: str, condition: Document) -> Document:
    streams = stage.store.database["streams"]
    found: Document = await wait_until(what, lambda: streams.find_one({"_id": "shop", **condition}))
    return found


async def run_of(stage: Stage, order: int) -> Document:
    run = await wait_until(f"a run of order {order}", lambda: stage.store.runs.find_one({"input.order": order}))
    return await stage.wait_for_end(run["_id"])


async def test_a_backup_in_an_empty_replica_set_goes_on_where_it_was(tmp_path: Path) -> None:
    async with stage_of_its_own(tmp_path / "before", **PLACE) as stage:
        orders(stage, b_takes_s=60)
        async with all_roles(stage):
            await wait_for_stream(stage, "the stream has a position", {"resume_token": {"$ne": None}})
            await stage.store.database.client["shop"]["orders"].insert_one({"_id": 1})
            run = await wait_until("the order's run", lambda: stage.store.runs.find_one({"input.order": 1}))
            await wait_until("B is asked", lambda: stage.store.database["usage"].find_one({"agent": "B"}))
            backup = await backup_of(stage.store.database)

    async with stage_of_its_own(tmp_path / "after", **PLACE) as stage:
        orders(stage, b_takes_s=0)
        shop = stage.store.database.client["shop"]
        await shop["orders"].insert_one({"_id": 1})  # a change stream sees a restored document as an insert
        await restore(backup, stage.store.database)
        await StreamControl(stage.store.database).resume("shop", NOW, by="test")
        async with all_roles(stage):
            await shop["orders"].insert_one({"_id": 2})
            runs = [await run_of(stage, 1), await run_of(stage, 2)]
            used = await usage_totals(stage.store.database, ["run_id"], UsageFilter())
            all_runs = await stage.store.runs.count_documents({})
            stream = await wait_for_stream(stage, "the stream has a position", {"resume_token": {"$ne": None}})

    assert runs[0]["_id"] == run["_id"]
    assert [each["ended"] for each in runs[0]["history"]] == ["worker_lost", "succeeded"]
    assert [each["turn"] for each in runs] == [2, 2]
    assert [(each.input_tokens, each.output_tokens) for each in used] == [(20, 4), (20, 4)]
    assert all_runs == 2
    assert [each["reason"] for each in stream["gaps"]] == ["resumed_from_now"]
