"""Five schedulers whose clocks disagree by up to three seconds, and that are killed at random: each nominal time of
each schedule becomes one run."""

import asyncio
import contextlib
import random
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.chaos.lengths import add_summary_line, by_length
from tests.integration.stage import wait_until, write_package
from tests.integration.triggers.schedule_bench import scheduler_context
from tests.trigger_packages import package_with_triggers
from triggers.acceptance import Acceptance
from triggers.schedule.schedule_metrics import ScheduleMetrics
from triggers.schedule.scheduler import Scheduler
from workers.setting_values import Address
from workers.settings import Settings, as_environment
from workers.store.run_store import RunStore
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(by_length(short=120, long=900))]

START = datetime(2026, 3, 29, 0, 50, tzinfo=UTC)  # London's clocks change ten minutes later
SECOND = timedelta(seconds=1)
SKEWS = [timedelta(seconds=skew) for skew in (-3, -1.5, 0, 1.5, 3)]
FAR_OFF = [timedelta(hours=-1), timedelta(hours=1)]  # clocks of processes; ticks follow the database's
KILLED = 0.15  # of the ticks
# Ten schedules, so that 10 000 nominal times are over after a thousand steps of a second.
PACKAGES = package_with_triggers(
    *(
        ScheduleSpec.model_validate(
            {"name": f"s{number}", "apps": ["acme"], "overlap": "allow", "timezone": "Europe/London", **clock}
        )
        for number, clock in enumerate([{"every": "1s"}] * 5 + [{"cron": "* * * * * *"}] * 5)
    )
)
STEPS = by_length(short=80, long=1000)


class SilentWakeups:
    def send(self, run_id: str) -> None:
        """Whether somebody is woken is not asked here."""


class Crew:
    """Schedulers on clocks of their own; whoever is killed has a successor that knows nothing."""

    def __init__(self, store: RunStore, chance: random.Random) -> None:
        self._context = scheduler_context(store, Acceptance(store, SilentWakeups()))
        self._chance = chance
        self.now = START
        self.killed = 0
        self.crew = [self.scheduler(skew) for skew in SKEWS]

    def scheduler(self, skew: timedelta) -> Scheduler:
        metrics = ScheduleMetrics(CollectorRegistry())
        return Scheduler(self._context, metrics=metrics, clock=lambda: self.now + skew, packages=lambda: PACKAGES)

    async def step(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for place, scheduler in enumerate(self.crew):
                tasks.create_task(self._tick(place, scheduler))

    async def _tick(self, place: int, scheduler: Scheduler) -> None:
        tick = asyncio.create_task(scheduler.tick())
        if self._chance.random() < KILLED:
            for _ in range(self._chance.randrange(60)):
                await asyncio.sleep(0)
            tick.cancel()
            self.killed += 1
            self.crew[place] = self.scheduler(self._chance.choice(SKEWS))
        with contextlib.suppress(asyncio.CancelledError):
            await tick


async def nominal_times(store: RunStore, name: str) -> Sequence[datetime]:
    found = store.runs.find({"trigger.name": name}, {"trigger.nominal_at": 1}).sort("trigger.nominal_at", 1)
    return [run["trigger"]["nominal_at"] async for run in found]


async def test_each_nominal_time_runs_once_whichever_process_is_killed(store: RunStore) -> None:
    crew = Crew(store, random.Random(6))
    await crew.crew[0].ensure_indexes()
    await crew.step()
    armed = {each["_id"]: each["schedule"]["next_at"] async for each in store.database["triggers"].find()}

    for _ in range(STEPS):
        crew.now += SECOND
        await crew.step()
    last = crew.now + max(SKEWS)
    while await store.database["triggers"].find_one({"schedule.next_at": {"$lte": last}}) is not None:
        await crew.crew[SKEWS.index(max(SKEWS))].tick()
        crew.crew = [crew.scheduler(skew) for skew in SKEWS]

    ticks = 0
    for number in range(10):
        times = await nominal_times(store, f"s{number}")
        assert times == [times[0] + seconds * SECOND for seconds in range(len(times))]
        assert times[0] <= armed[f"Digest/s{number}"]
        assert times[-1] >= crew.now
        ticks += len(times)
    assert await store.database["triggers"].count_documents({"counts.skipped": {"$exists": True}}) == 0
    add_summary_line("five schedulers", ticks=ticks, killed=crew.killed)


SCHEDULER = """
import asyncio, sys
from datetime import UTC, datetime, timedelta
from triggers.schedule.store_clock import StoreClock
from triggers.schedule.scheduler_role import serve
from workers.settings import load_settings
skew = timedelta(seconds=float(sys.argv[1]))
StoreClock.__init__.__kwdefaults__["local"] = lambda: datetime.now(UTC) + skew
asyncio.run(serve(load_settings()))
"""
TRIGGERS: dict[str, Any] = {
    "triggers": [
        {"name": f"s{number}", "type": "schedule", "every": "1s", "overlap": "allow", "apps": ["acme"]}
        for number in range(8)
    ]
}


@contextlib.asynccontextmanager
async def schedulers(settings: Settings, folder: Path, count: int) -> AsyncIterator[list[Process]]:
    agents = {"agents": [{"name": "Writer", "system_message": "Write."}]}
    orchestrator = {"workflow_name": "Tick", "initial_agent": "Writer"}
    write_package(folder / "packages", "Tick", {"orchestrator": orchestrator, "agents": agents, "triggers": TRIGGERS})
    running = [await start_scheduler(settings, folder, skew=(FAR_OFF + SKEWS)[number]) for number in range(count)]
    try:
        yield running
    finally:
        for process in running:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
            await process.wait()


async def start_scheduler(settings: Settings, folder: Path, *, skew: timedelta) -> Process:
    own = replace(settings, packages=(folder / "packages",), metrics_listen=Address("127.0.0.1", 0))
    with (folder / "schedulers.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", SCHEDULER, str(skew.total_seconds())),
            env=as_environment(own),
            stdin=DEVNULL,
            stdout=log,
            stderr=log,
        )


async def test_processes_that_are_killed_at_random_lose_and_double_no_tick(
    settings: Settings, store: RunStore, tmp_path: Path
) -> None:
    chance = random.Random(6)
    began = datetime.now(UTC) - 2 * max(SKEWS)
    seconds, kills = by_length(short=(8, 3), long=(120, 40))
    async with schedulers(settings, tmp_path, by_length(short=3, long=5)) as running:

        async def has_run(count: int) -> bool:
            return await store.runs.count_documents({}) >= count

        for number in range(kills):
            await wait_until("more ticks", lambda count=8 * seconds * number // kills + 8: has_run(count), within_s=60)  # type: ignore[misc]  # -- mypy cannot infer a lambda with a default
            place = chance.randrange(len(running))
            running[place].send_signal(signal.SIGKILL)
            await running[place].wait()
            running[place] = await start_scheduler(settings, tmp_path, skew=chance.choice(FAR_OFF + SKEWS))
        await wait_until("the last ticks", lambda: has_run(8 * seconds), within_s=60)

    skipped = store.database["triggers"].count_documents({"counts.skipped": {"$exists": True}})
    times = [await nominal_times(store, f"s{number}") for number in range(8)]
    assert await skipped == 0
    assert min(map(min, times)) > began
    assert max(map(max, times)) < datetime.now(UTC) + 2 * max(SKEWS)
    for each in times:
        gaps = Counter(round((later - earlier).total_seconds()) for earlier, later in pairwise(each))
        assert set(gaps) == {1}, gaps
    add_summary_line("killed scheduler processes", ticks=sum(map(len, times)), killed=kills)
