"""Kept states and refreshed variables on a real server: written with a run's success, read by the next one."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.stage import Stage, relay
from workers.store.claimed_runs import MongoRunRepository
from workers.store.persistent_state_store import PersistentStateStore
from workers.store.run import LeaseLostError, RunRequest, RunState, TriggerEvent
from workers.store.run_store import RunStore
from workflows.context.reads.persistent_states import PersistentState, StateKey

pytestmark = pytest.mark.integration

COUNT = """
def count(context_variables):
    seen = context_variables.get("seen") or []
    context_variables["seen"] = [*seen, context_variables["user_id"]]
    context_variables["$odd.name"] = 1
    return str(len(seen))
"""


def counting(name: str, **persist: Any) -> dict[str, Any]:
    package = relay(name, ["Clerk"])
    package["context_variables"] = {
        "definitions": {
            "seen": {"type": "array", "source": {"type": "state", "default": [], "persist": True, **persist}}
        }
    }
    package["tools"] = {"tools": [{"agent": "Clerk", "file": "count.py", "function": "count"}]}
    package["tools/count.py"] = COUNT
    return package


CALL = {"tool_calls": [{"name": "count"}]}


@pytest.mark.design("D4-45")
async def test_the_next_run_of_the_same_key_begins_where_the_last_one_ended(stage: Stage) -> None:
    stage.package("Of_app", counting("Of_app"))
    stage.package("Of_user", counting("Of_user", persist_key="user_id"))
    stage.answers({"Clerk": [CALL, {"text": "counted"}]}, default={"text": "ok"})
    await stage.start_worker()
    left: list[Any] = []

    for workflow, app, user in [
        ("Of_app", "acme", "ada"),
        ("Of_app", "acme", "bob"),
        ("Of_app", "globex", "bob"),
        ("Of_user", "acme", "ada"),
        ("Of_user", "acme", "bob"),
        ("Of_user", "acme", "ada"),
        ("Of_user", "acme", None),
    ]:
        run = await stage.wait_for_end((await stage.accept(workflow, app_id=app, user_id=user)).run_id)
        assert run["state"] == "succeeded"
        left.append(run["context"]["seen"])

    assert left == [["ada"], ["ada", "bob"], ["bob"], ["ada"], ["bob"], ["ada", "ada"], [None]]
    kept = await stage.store.database["kept_states"].find().to_list(None)
    assert sorted((each["_id"]["app_id"], each["_id"]["workflow"], each["_id"]["key"]) for each in kept) == [
        ("acme", "Of_app", ""),
        ("acme", "Of_user", "ada"),
        ("acme", "Of_user", "bob"),
        ("globex", "Of_app", ""),
    ]
    assert {each["_id"]["workflow"] for each in kept if "expires_at" in each} == {"Of_user"}


async def test_a_run_that_does_not_succeed_leaves_nothing(stage: Stage) -> None:
    package = counting("Failing")
    [end] = package["handoffs"]["handoff_rules"]
    end["termination_reason"] = "workflow_failed"
    stage.package("Failing", package)
    stage.answers({"Clerk": [CALL, {"text": "counted"}]})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Failing", user_id="ada")).run_id)

    assert (run["state"], run["context"]["seen"]) == ("failed", ["ada"])
    assert await stage.store.database["kept_states"].find({"value": {"$exists": True}}).to_list(None) == []


def state(value: Any, app_id: str = "acme", key_name: str = "none", key: str = "") -> PersistentState:
    return PersistentState(StateKey(app_id, "Relay", "seen", key_name, key), value)


async def claim_run(store: RunStore, ownership: MongoRunRepository, number: int) -> Any:
    accepted = await store.insert(
        RunRequest("acme", "Relay", TriggerEvent("api", "test", str(number), fired_at=datetime.now(UTC)))
    )
    claim = await ownership.claim(accepted.run_id)
    assert claim is not None
    return claim


async def test_a_stale_owner_keeps_nothing(stage: Stage) -> None:
    ownership = MongoRunRepository(stage.store, owner="w", lease_s=30)
    stale = await claim_run(stage.store, ownership, 1)
    await stage.store.runs.update_one({"_id": stale.run_id}, {"$inc": {"lease.token": 1}})

    with pytest.raises(LeaseLostError):
        await ownership.finish(stale, RunState.SUCCEEDED, {}, states=[state("stale")])

    place = state(None).state_key
    assert await PersistentStateStore(stage.store.database).read([place]) == {}
    left = await stage.store.database["kept_states"].find().to_list(None)
    assert [each for each in left if "expires_at" not in each] == []


async def test_a_value_that_is_about_to_be_written_expires_from_now_on(stage: Stage) -> None:
    """Whether an earlier run wrote it long ago, or a run with a lost lease has just inserted it."""
    collection, now = stage.store.database["kept_states"], datetime.now(UTC)
    states, old, new = (
        PersistentStateStore(stage.store.database),
        *(state(1, "acme", "user_id", key) for key in ("old", "new")),
    )
    await states.prepare([old])
    await collection.update_one({"_id.key": "old"}, {"$set": {"expires_at": now, "value": 1}})

    await states.prepare([old, new, state(1)])

    kept = {each["_id"]["key"]: each for each in await collection.find().to_list(None)}
    assert [kept[key]["expires_at"] > now for key in ("old", "new")] == [True, True]
    assert (kept["old"]["value"], kept[""]["expires_at"] > now) == (1, True)


async def test_runs_that_end_at_once_leave_the_value_of_one_of_them(stage: Stage) -> None:
    ownership = MongoRunRepository(stage.store, owner="w", lease_s=30)
    claims = [await claim_run(stage.store, ownership, number) for number in range(8)]
    values = [{"$odd.key": number} for number in range(8)]

    ended = await asyncio.gather(
        *(
            ownership.finish(claim, RunState.SUCCEEDED, {}, states=[state(value), state(value, "globex")])
            for claim, value in zip(claims, values, strict=True)
        )
    )

    assert ended == [RunState.SUCCEEDED] * 8
    states = PersistentStateStore(stage.store.database)
    kept = [(await states.read([state(None, app).state_key]))["seen"] for app in ("acme", "globex")]
    assert kept[0] == kept[1] in values


STOCK = {
    "type": "data_reference",
    "collection": "stock",
    "query_template": {"app_id": "{{runtime.app_id}}"},
    "fields": ["left"],
    "refresh_strategy": "per_turn",
}
TAKE = """
import os
from pymongo import MongoClient

def take(context_variables):
    with MongoClient(os.environ["UNATTENDED_MONGODB_URL"]) as client:
        client["{database}"]["stock"].update_one({{"app_id": "acme"}}, {{"$inc": {{"left": -1}}}})
    return "taken"
"""


@pytest.mark.design("D4-40")
async def test_an_agent_sees_what_the_turn_before_it_changed(stage: Stage) -> None:
    database = stage.store.database
    package = relay("Shop", ["Seller", "Clerk"])
    package["context_variables"] = {
        "definitions": {"left": {"type": "integer", "source": {**STOCK, "database_name": database.name}}},
        "agents": {"Clerk": ["left"]},
    }
    package["tools"] = {"tools": [{"agent": "Seller", "file": "take.py", "function": "take"}]}
    package["tools/take.py"] = TAKE.format(database=database.name)
    stage.package("Shop", package)
    stage.answers({"Seller": [{"tool_calls": [{"name": "take"}]}]}, default={"text": "ok"})
    await database["stock"].insert_many([{"app_id": "acme", "left": 5}, {"app_id": "globex", "left": 50}])
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Shop")).run_id)
    turns = await stage.store.committed_turns(run["_id"], up_to=2)

    assert (run["state"], run["context"]["left"]) == ("succeeded", 4)
    assert [turn["context_changes"].get("left") for turn in turns] == [None, 4]
