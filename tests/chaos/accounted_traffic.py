"""Traffic: runs of several apps that come, fail and are cancelled at random, while workers get signals."""

import asyncio
import itertools
import random
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ulid import ULID

from tests.chaos.auditing_model import AuditingModel
from tests.chaos.lengths import by_length
from tests.chaos.squad import Squad
from tests.integration.stage import Stage
from workers.control.change_result import RefusedError
from workers.control.run_cancellation import cancel
from workers.store.run import RunRequest, TriggerEvent

APPS, TRIGGERS = ("acme", "globex", "initech"), ("api", "schedule", "webhook")
DECK = ["Relay", "Tools", "Team", "Relay", "Slow", "Relay", "Tools", "Team", "Relay", "Relay"]
FAULTS = {"429": 3, "500": 3, "broken": 4, "filtered": 1}
FAULTS_OF_A_RUN = by_length(short=(0, 0, 1), long=(0, 0, 0, 1, 2))
FAILS_AMONG = by_length(short=3, long=6)  # requests of a run; a late failure prolongs the test
CANCELLED_SHARE = 0.08


@dataclass(frozen=True, slots=True)
class TrafficFaults:
    """How many runs come in how many seconds, and how often a worker gets this signal meanwhile."""

    runs: int
    within_s: float
    hits: int
    sign: signal.Signals
    workers: int = 2


@dataclass
class Traffic:
    """Who waits for the sleeper is cancelled when it asks for him, others now and then at any moment."""

    stage: Stage
    model: AuditingModel
    chance: random.Random
    _cancelling: list[asyncio.Task[None]] = field(default_factory=list)

    async def send(self, weather: TrafficFaults) -> None:
        self.model.on_asleep = lambda run_id: self._cancel_later(run_id, 0.2)
        for workflow in itertools.islice(itertools.cycle(DECK), weather.runs):
            event = TriggerEvent(self.chance.choice(TRIGGERS), "t", str(ULID()), datetime.now(UTC))
            request = RunRequest(self.chance.choice(APPS), workflow, event, message=f"Begin. faults:{self._faults()}")
            run_id = (await self.stage.store.insert(request)).run_id
            self.stage.wakeups.send(run_id)
            if self.chance.random() < CANCELLED_SHARE:
                self._cancel_later(run_id, self.chance.uniform(0.1, 2.0))
            await asyncio.sleep(weather.within_s / weather.runs)

    def _faults(self) -> str:
        """Which of the run's requests fail, and how."""
        faults = self.chance.choices([*FAULTS], [*FAULTS.values()], k=self.chance.choice(FAULTS_OF_A_RUN))
        return "".join(f" {self.chance.randrange(FAILS_AMONG)}={fault}" for fault in faults)

    def _cancel_later(self, run_id: str, after_s: float) -> None:
        self._cancelling.append(asyncio.create_task(self._cancel(run_id, after_s)))

    async def _cancel(self, run_id: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        with suppress(RefusedError):  # it has ended before
            await cancel(self.stage.store, run_id, by="ops")

    async def wait_for_cancellations(self) -> None:
        await asyncio.gather(*self._cancelling)


async def hit_busy_members(stage: Stage, members: Squad, weather: TrafficFaults, chance: random.Random) -> None:
    """Workers that have runs; when these are killed, now and then a scheduler as well."""
    for number in range(weather.hits):
        await asyncio.sleep(weather.within_s / weather.hits * chance.uniform(0.6, 1.0))
        owners = await stage.store.runs.distinct("lease.owner", {"state": "running"})
        busy = {int(owner.split(":")[1]) for owner in owners}
        chance.choice([each for each in members.workers if each.pid in busy] or members.workers).send(weather.sign)
        if weather.sign is signal.SIGKILL and number % 3 == 0:
            chance.choice(members.schedulers).send(signal.SIGKILL)
