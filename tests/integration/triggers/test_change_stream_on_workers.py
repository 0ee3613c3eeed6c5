"""A real workflow that writes to the document that started it, with a worker and a watcher as processes."""

import asyncio
from typing import Any

import pytest

from ops.processes.supervisor import role_command
from tests.integration.role_forks import FORKS
from tests.integration.stage import Stage, relay, wait_until
from workers.settings import as_environment

pytestmark = pytest.mark.integration

COUNT = """
def count(context_variables=None):
    customer = dict(context_variables.get("customer") or {})
    customer["visits"] = customer["visits"] + 1
    context_variables.set("customer", customer)
    return "counted"
"""


def declare(stage: Stage) -> None:
    """Each run counts a visit of its customer, which is one more change."""
    place = {"database_name": stage.store.database.name, "collection": "customers", "search_by": "customer_id"}
    customer = {"type": "data_entity", **place, "fields": ["visits"], "write_strategy": "immediate"}
    trigger = {
        "name": "changed",
        "type": "database_condition",
        "database": stage.store.database.name,
        "collection": "customers",
        "operations": ["update"],
        "loop_guard": {"max": 4, "per": "10m"},
        "apps": ["acme"],
        "input": {"customer_id": "=fullDocument.customer_id"},
    }
    stage.package(
        "Desk",
        {
            **relay("Desk", ["A"], inputs={"customer_id": {"type": "string", "required": True}}),
            "tools": {"tools": [{"agent": "A", "file": "count.py", "function": "count"}]},
            "tools/count.py": COUNT,
            "context_variables": {"definitions": {"customer": {"type": "object", "source": customer}}},
            "triggers": {"triggers": [trigger]},
        },
    )
    stage.answers({"A": [{"tool_calls": [{"name": "count"}]}, {"text": "counted"}]})


async def test_a_workflow_that_starts_itself_by_what_it_writes_is_stopped(stage: Stage) -> None:
    declare(stage)
    customers, triggers = stage.store.database["customers"], stage.store.database["triggers"]
    for name in ("c1", "c2"):
        await customers.insert_one({"app_id": "acme", "customer_id": name, "visits": 0})
    await stage.start_worker()
    log = stage.folder / "watcher.log"
    watcher = await FORKS.start(
        role_command("watcher"), env=as_environment(stage.settings), log=log, folder=stage.folder
    )

    async def reads() -> Any:
        return await stage.store.database["streams"].find_one({"resume_token": {"$ne": None}})

    async def stopped_twice() -> Any:
        found = await triggers.find_one({"_id": "Desk/changed"}) or {}
        return (found.get("counts") or {}).get("skipped", {}).get("loop_guard") == 2

    try:
        await wait_until("the watcher has a position", reads)
        for name in ("c1", "c2"):
            await customers.update_one({"customer_id": name}, {"$set": {"visits": 1}})
        await wait_until("each customer's loop has been stopped", stopped_twice)
    finally:
        watcher.terminate()
        await asyncio.wait_for(watcher.wait(), 20)

    runs = [await stage.wait_for_end(run["_id"]) for run in await stage.store.list()]
    assert [run["state"] for run in runs] == ["succeeded"] * 8
    # The change that began it, and one by each run; the last one started nothing.
    assert [each["visits"] async for each in customers.find({})] == [5, 5]
    assert log.read_text(encoding="utf-8").count("loop_stopped") == 2
