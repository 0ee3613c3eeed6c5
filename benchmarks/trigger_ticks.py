"""A tick of many due schedules, every run durable, against RedBeat with as many due entries; and an idle tick."""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from prometheus_client import CollectorRegistry
from trigger_context import WORKFLOW, ground_for, write_package

from triggers.register.trigger import Trigger
from triggers.role_context import RoleContext
from triggers.schedule.schedule_kind import KIND
from triggers.schedule.schedule_metrics import ScheduleMetrics
from triggers.schedule.scheduler import Scheduler
from workers.embedded_services import Services
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

HERE = Path(__file__).resolve().parent
DUE = (1_000, 10_000)
IDLE_TICKS = 50
AT_ONCE = 500


async def compare(services: Services, folder: Path, *, schedules: int) -> None:
    for due in DUE:
        redbeat_ms = await redbeat(services, due)
        tick_ms = await busy_tick_ms(services, folder / f"due-{due}", due)
        print(f"{'tick':<24}{due:>12} due{tick_ms:9.0f} ms, every run durable; RedBeat {redbeat_ms:.0f} ms")
        print(f"{'ratio':<24}{due:>12} due{redbeat_ms / tick_ms:9.2f}  times as fast as RedBeat")
    idle_ms = await idle_tick_ms(services, folder / "idle", schedules)
    print(f"{'idle tick':<24}{schedules:>12}    {idle_ms:9.2f} ms (aim 5)")


async def redbeat(services: Services, due: int) -> float:
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / "redbeat_tick.py"), services.redis_url or "", str(due), stdout=PIPE
    )
    output, _ = await child.communicate()
    if child.returncode:
        raise SystemExit("the tick of RedBeat failed")
    return float(output)


async def busy_tick_ms(services: Services, folder: Path, due: int) -> float:
    async with ground_for(services, write_package(folder)) as ground:
        await make(ground, due, every="60s", seen_at=datetime.now(UTC) - timedelta(seconds=65))
        scheduler = scheduler_on(ground)
        began = time.perf_counter()
        while await ground.store.runs.count_documents({}, limit=due) < due:
            await scheduler.tick()
        return (time.perf_counter() - began) * 1000


async def idle_tick_ms(services: Services, folder: Path, schedules: int) -> float:
    async with ground_for(services, write_package(folder)) as ground:
        await make(ground, schedules, every="3650d", seen_at=datetime.now(UTC))
        scheduler = scheduler_on(ground)
        await scheduler.tick()  # the first one looks at packages too
        took = []
        for _ in range(IDLE_TICKS):
            began = time.perf_counter()
            await scheduler.tick()
            took.append((time.perf_counter() - began) * 1000)
        return median(took)


def scheduler_on(ground: RoleContext) -> Scheduler:
    return Scheduler(ground, metrics=ScheduleMetrics(CollectorRegistry()))


async def make(ground: RoleContext, count: int, *, every: str, seen_at: datetime) -> None:
    """As `triggers create` does it."""

    async def one(number: int) -> None:
        spec = ScheduleSpec.model_validate({"name": f"s{number}", "type": "schedule", "every": every})
        trigger = Trigger(WORKFLOW, spec, "acme", 1)
        await ground.triggers.create(trigger, extra_fields=KIND.initial_fields(trigger, seen_at))

    for start in range(0, count, AT_ONCE):
        await asyncio.gather(*(one(number) for number in range(start, min(start + AT_ONCE, count))))
