"""MongoDB is killed and restarted: scheduler and watcher resume where they were."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from prometheus_client import CollectorRegistry

from ops.embedded.embedded_servers import embedded_servers
from tests.integration.triggers.condition_wait import wait_until
from tests.trigger_packages import package_with_triggers
from triggers.change_stream.stream_metrics import StreamMetrics
from triggers.change_stream.watcher_role import build_watcher
from triggers.role_context import RoleContext, build_role_context
from triggers.schedule.schedule_metrics import ScheduleMetrics
from triggers.schedule.scheduler import Scheduler
from triggers.service_loop import repeat
from workers.broker.wakeups import Wakeups
from workers.settings import Settings
from workers.store.run_store import connect
from workflows.package.catalog import Catalog
from workflows.package.trigger_specs.change_spec import ChangeSpec
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

pytestmark = pytest.mark.integration

PACKAGES = package_with_triggers(
    ScheduleSpec.model_validate({"name": "fast", "every": "1s", "overlap": "allow", "apps": ("acme",)}),
    ChangeSpec(name="order", database="shop", collection="orders", apps=("acme",), input={"id": "=documentKey._id"}),
)


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[RoleContext]:
    async with embedded_servers(tmp_path, redis=False) as services:
        database = connect(services.mongodb_url or "", database="unattended")
        settings = Settings(mongodb_url=services.mongodb_url, lease_s=3)
        ground = build_role_context(database, settings, catalog=Catalog(()), wakeups=Wakeups(lambda _: None))
        await ground.store.ensure_indexes()
        await ground.triggers.ensure_indexes()
        yield ground
        await database.client.close()


def kill_mongod(data_dir: Path) -> None:
    """The one that this test started."""
    mine = [
        child
        for child in psutil.Process().children(recursive=True)
        if child.name().startswith("mongod") and any(str(data_dir) in part for part in child.cmdline())
    ]
    assert mine, "mongod is among our children"
    for process in mine:
        process.kill()


async def test_no_tick_and_no_change_is_lost_when_mongodb_is_killed(ground: RoleContext, tmp_path: Path) -> None:
    stop = asyncio.Event()
    scheduler = Scheduler(ground, metrics=ScheduleMetrics(CollectorRegistry()), packages=lambda: PACKAGES)
    watcher = build_watcher(ground, StreamMetrics(CollectorRegistry()), packages=lambda: PACKAGES)
    orders = ground.database.client["shop"]["orders"]

    async def position() -> bool:
        return await ground.database["streams"].count_documents({"resume_token": {"$ne": None}}) == 1

    async def all_there() -> bool:
        changes = await ground.database["runs"].distinct("input.id", {"trigger.name": "order"})
        ticks = await ground.database["runs"].count_documents({"trigger.name": "fast"})
        return changes == list(range(40)) and ticks >= 3

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(repeat(scheduler.tick, step_name="tick", stop=stop))
        tasks.create_task(watcher.run(stop))
        await wait_until(position, "a first position")
        for number in range(40):
            if number == 20:
                kill_mongod(tmp_path)
            await orders.insert_one({"_id": number})
        await wait_until(all_there, "all changes and some ticks", within_s=60)
        stop.set()

    nominal = sorted([run["trigger"]["nominal_at"] async for run in ground.store.runs.find({"trigger.name": "fast"})])
    seconds = [round((each - nominal[0]).total_seconds()) for each in nominal]
    assert seconds == list(range(len(nominal)))
    assert await ground.database["runs"].count_documents({"trigger.name": "order"}) == 40
