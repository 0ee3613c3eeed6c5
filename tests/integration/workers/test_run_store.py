"""The run store's lists on a real MongoDB: they read only the runs that they show."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from accounting.infra.aio import gather_all
from tests.integration.stage import Document
from workers.store.run import RunRequest, TriggerEvent
from workers.store.run_filter import RunFilter
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

LIMIT = 5


async def insert_run(store: RunStore, number: int) -> str:
    event = TriggerEvent("api", "test", str(number), fired_at=datetime.now(UTC))
    app = "acme" if number % 2 else "globex"
    return (await store.insert(RunRequest(app, "Digest", event))).run_id


async def plan_of_list(store: RunStore, **filter_: Any) -> Document:
    return await plan_of(store, lambda: store.list(RunFilter(**filter_), limit=LIMIT))


async def plan_of(store: RunStore, query: Callable[[], Awaitable[Any]]) -> Document:
    """Returns the plan of the command that was sent, from the profiler of the server."""
    database = store.database
    await database.command("profile", 2)
    await query()
    await database.command("profile", 0)
    profiled = database["system.profile"].find({"op": "query", "ns": f"{database.name}.runs"})
    [plan] = await profiled.to_list(None)
    return plan


@pytest.mark.parametrize("wanted", [{}, {"app_id": "acme"}], ids=["of all apps", "of one app"])
async def test_a_list_examines_no_more_than_it_shows(store: RunStore, wanted: dict[str, str]) -> None:
    await gather_all(insert_run(store, number) for number in range(40))

    plan = await plan_of_list(store, **wanted)

    assert plan["nreturned"] == LIMIT
    assert plan["docsExamined"] <= LIMIT
    assert plan["keysExamined"] <= LIMIT
    assert "hasSortStage" not in plan


async def test_a_list_is_newest_first_and_of_the_app_that_was_asked_for(store: RunStore) -> None:
    run_ids = [await insert_run(store, number) for number in range(6)]
    await store.runs.update_many({}, {"$set": {"created_at": datetime.now(UTC)}})  # then the id decides

    assert [run["_id"] for run in await store.list(limit=3)] == run_ids[:2:-1]
    assert [run["_id"] for run in await store.list(RunFilter(app_id="acme"), limit=2)] == [run_ids[5], run_ids[3]]


async def of_trigger(store: RunStore, *states: str, app: str = "acme", trigger: str = "test") -> list[str]:
    """Returns the runs of a trigger, oldest first."""
    run_ids = []
    for number, state in enumerate(states):
        event = TriggerEvent("schedule", trigger, f"{app} {number}", fired_at=datetime.now(UTC))
        run_ids.append((await store.insert(RunRequest(app, "Digest", event))).run_id)
        await store.runs.update_one({"_id": run_ids[-1]}, {"$set": {"state": state}})
    return run_ids


@pytest.mark.parametrize(
    ("states", "failures"),
    [
        ([], 0),
        (["failed", "succeeded"], 0),
        (["succeeded", "failed", "parked"], 2),
        (["failed", "succeeded", "failed", "cancelled", "needs_human", "failed", "running", "queued"], 2),
        (["failed"] * 7, 5),
    ],
    ids=["none", "ended well", "since the last success", "others say nothing", "no more than asked for"],
)
async def test_failures_in_a_row_are_those_since_the_last_success(
    store: RunStore, states: list[str], failures: int
) -> None:
    await of_trigger(store, *states)
    await of_trigger(store, "failed", "succeeded", app="globex")

    assert await store.count_recent_failures("Digest", "test", "acme", up_to=5) == failures


async def test_queries_about_a_trigger_read_no_more_than_they_return(store: RunStore) -> None:
    await of_trigger(store, *["failed", "queued", "parked", "succeeded"] * 20)

    plan = await plan_of(store, lambda: store.count_recent_failures("Digest", "test", "acme", up_to=LIMIT))

    assert plan["docsExamined"] <= LIMIT
    assert plan["keysExamined"] <= LIMIT + 4
    assert "hasSortStage" not in plan


async def test_an_index_of_an_older_version_is_dropped_also_by_many_at_once(store: RunStore) -> None:
    await store.runs.create_index([("workflow", 1), ("trigger.name", 1)], name="by_trigger")

    await gather_all(RunStore(store.database).ensure_indexes() for _ in range(5))

    assert "by_trigger" not in await store.runs.index_information()


def test_what_is_accepted_is_on_a_majority_and_what_is_read_too(store: RunStore) -> None:
    concern = store.runs.write_concern.document
    assert (concern["w"], concern["j"], "wtimeout" in concern) == ("majority", True, True)
    assert (store.turns.write_concern, store.turns.read_concern) == (store.runs.write_concern, store.runs.read_concern)
    assert store.runs.read_concern.level == "majority"
