"""The storm: workers killed and paused, schedulers killed, Redis wiped and killed, MongoDB killed, all at random.

Meanwhile runs are accepted. Afterwards each of them has ended, once, and nothing was done twice that was finished.
"""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from tests.chaos.counting_model import counting_model, known_relay
from tests.chaos.invariants import judge_runs, wait_for_calm
from tests.chaos.lengths import LONG, add_summary_line, by_length
from tests.chaos.own_servers import kill_listener, redis_of, stage_of_its_own, wait_for_mongodb
from tests.chaos.senders import HonestSenders
from tests.chaos.squad import Squad, squad
from tests.integration.stage import Stage

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(by_length(short=180, long=540))]

SEED = 20_260
RUNS = by_length(short=150, long=2_000)
AGENTS = ["A", "B", "C"]
ANSWER_S = 0.25
LEASE_S = 4
WORKERS, CONCURRENCY = 3, 16
DECK = {
    "kill a worker": by_length(short=2, long=10),
    "pause a worker": by_length(short=1, long=5),
    "kill a scheduler": by_length(short=1, long=4),
    "wipe Redis": by_length(short=1, long=4),
    "kill Redis": by_length(short=1, long=3),
    "kill MongoDB": by_length(short=1, long=3),
}
PAUSE_S = (1.0, by_length(short=2.0, long=6.0))


class Storm:
    def __init__(self, stage: Stage, members: Squad, chance: random.Random) -> None:
        self._stage = stage
        self._members = members
        self._chance = chance
        self._pauses: set[asyncio.Task[None]] = set()
        self.actions: dict[str, Callable[[], Awaitable[None]]] = {
            "kill a worker": self._kill_worker,
            "pause a worker": self._pause_worker,
            "kill a scheduler": self._kill_scheduler,
            "wipe Redis": self._wipe_redis,
            "kill Redis": self._kill_redis,
            "kill MongoDB": self._kill_mongodb,
        }

    async def rage(self) -> None:
        deck = [action for action, times in DECK.items() for _ in range(times)]
        self._chance.shuffle(deck)
        for action in deck:
            await asyncio.sleep(self._chance.uniform(*PAUSE_S))
            await self.actions[action]()
        await asyncio.gather(*self._pauses)

    async def _kill_worker(self) -> None:
        self._chance.choice(self._members.workers).send(signal.SIGKILL)

    async def _pause_worker(self) -> None:
        """One that has runs: others will have them when it wakes."""
        owners = await self._stage.store.runs.distinct("lease.owner", {"state": "running"})
        busy = {int(owner.split(":")[1]) for owner in owners}
        workers = [each for each in self._members.workers if each.pid in busy] or self._members.workers
        self._pauses.add(asyncio.create_task(self._chance.choice(workers).pause(LEASE_S + 1.5)))

    async def _kill_scheduler(self) -> None:
        self._chance.choice(self._members.schedulers).send(signal.SIGKILL)

    async def _wipe_redis(self) -> None:
        async with redis_of(self._stage) as redis:
            try:
                await redis.flushall()
            except (RedisError, OSError):
                return  # it is just starting again

    async def _kill_redis(self) -> None:
        kill_listener(self._stage.settings.redis_url)

    async def _kill_mongodb(self) -> None:
        kill_listener(self._stage.settings.mongodb_url)
        await wait_for_mongodb(self._stage)


@pytest.fixture
async def stormy_stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage_of_its_own(tmp_path, lease_s=LEASE_S, republish_after_s=2) as stage:
        yield stage


@pytest.mark.design("D4-89")
async def test_every_accepted_run_ends_once_whatever_dies(stormy_stage: Stage) -> None:
    stage, chance = stormy_stage, random.Random(SEED)
    stage.package("Relay", known_relay("Relay", AGENTS))
    with counting_model(stage, takes_s=ANSWER_S) as asked:
        async with squad(stage, workers=WORKERS, schedulers=2, concurrency=CONCURRENCY) as members:
            senders, storm = HonestSenders(stage, chance), Storm(stage, members, chance)
            raging = asyncio.create_task(storm.rage())
            lasts_s = sum(DECK.values()) * sum(PAUSE_S) / 2
            await asyncio.gather(raging, senders.send(RUNS, within_s=lasts_s))
            await wait_for_calm(stage, asked, within_s=by_length(short=90, long=300))
            verdict = await judge_runs(stage, senders.accepted.values(), dict.fromkeys(AGENTS, 1), asked)
            fenced, restarts = (
                members.count_events("run_left_to_its_new_owner"),
                sum(each.starts for each in members.workers),
            )

    add_summary_line("storm", **verdict.numbers(), **DECK, restarts=restarts - WORKERS, fenced=fenced)
    assert verdict.wrong == []
    assert verdict.runs == RUNS
    assert verdict.takeovers > 0
    # It costs the turns that were in flight on whoever was killed, was paused, or had no store.
    assert verdict.extra_model_calls <= verdict.takeovers + verdict.handed_back
    hit = DECK["kill a worker"] + DECK["pause a worker"] + WORKERS * DECK["kill MongoDB"]
    assert verdict.takeovers + verdict.handed_back <= CONCURRENCY * hit
    if LONG:  # the only pause of the short form may meet a worker that is killed meanwhile
        assert fenced > 0
