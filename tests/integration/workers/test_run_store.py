"""The run store's lists on a real MongoDB: they read what they show, not what exists."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.stage import Document
from workers.store.matching import Matching
from workers.store.run import RunRequest, TriggerEvent
from workers.store.run_store import RunStore
from workers.together import together

pytestmark = pytest.mark.integration

LIMIT = 5


async def accepted(store: RunStore, number: int) -> str:
    event = TriggerEvent("api", "test", str(number), fired_at=datetime.now(UTC))
    app = "acme" if number % 2 else "globex"
    return (await store.insert(RunRequest(app, "Digest", event))).run_id


async def plan_of_list(store: RunStore, **wanted: Any) -> Document:
    """What the server does for the very command that `list` sends, as its profiler wrote it down."""
    database = store.database
    await database.command("profile", 2)
    await store.list(Matching(**wanted), limit=LIMIT)
    await database.command("profile", 0)
    profiled = database["system.profile"].find({"op": "query", "ns": f"{database.name}.runs"})
    [plan] = await profiled.to_list(None)
    return plan


@pytest.mark.parametrize("wanted", [{}, {"app_id": "acme"}], ids=["of all apps", "of one app"])
async def test_a_list_examines_no_more_than_it_shows(store: RunStore, wanted: dict[str, str]) -> None:
    await together(accepted(store, number) for number in range(40))

    plan = await plan_of_list(store, **wanted)

    assert plan["nreturned"] == LIMIT
    assert plan["docsExamined"] <= LIMIT
    assert plan["keysExamined"] <= LIMIT
    assert "hasSortStage" not in plan


async def test_a_list_is_newest_first_and_of_the_app_that_was_asked_for(store: RunStore) -> None:
    run_ids = [await accepted(store, number) for number in range(6)]
    await store.runs.update_many({}, {"$set": {"created_at": datetime.now(UTC)}})  # then the id says which is newer

    assert [run["_id"] for run in await store.list(limit=3)] == run_ids[:2:-1]
    assert [run["_id"] for run in await store.list(Matching(app_id="acme"), limit=2)] == [run_ids[5], run_ids[3]]


def test_what_is_accepted_is_on_a_majority_and_what_is_read_too(store: RunStore) -> None:
    concern = store.runs.write_concern.document
    assert (concern["w"], concern["j"], "wtimeout" in concern) == ("majority", True, True)
    assert (store.turns.write_concern, store.turns.read_concern) == (store.runs.write_concern, store.runs.read_concern)
    assert store.runs.read_concern.level == "majority"
