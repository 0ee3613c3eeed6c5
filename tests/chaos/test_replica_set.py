"""A replica set of three under load: its primary is killed and stepped down, and no run is lost or done twice."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.counting_model import counting_model, known_relay
from tests.chaos.invariants import judge_runs, wait_for_calm
from tests.chaos.lengths import add_summary_line, by_length
from tests.chaos.own_servers import stage_on
from tests.chaos.replica_set import ReplicaSet, replica_set_of_three
from tests.chaos.senders import HonestSenders
from tests.chaos.squad import squad
from tests.integration.stage import Stage
from workers.settings import Settings

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(by_length(short=120, long=240))]

RUNS = by_length(short=60, long=500)
AGENTS = {"A": 1, "B": 1, "C": 1}
PAUSE_S = by_length(short=2.5, long=8.0)


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[ReplicaSet]:
    async with replica_set_of_three(tmp_path / "three") as three:
        yield three


@pytest.fixture
async def stage(three: ReplicaSet, settings: Settings, tmp_path: Path) -> AsyncIterator[Stage]:
    own = replace(settings, mongodb_url=three.url, lease_s=6)
    async with stage_on(own, tmp_path) as stage:
        # Whoever writes without saying how: from now on that is weak, and is counted.
        weak = {"defaultWriteConcern": {"w": 1}, "writeConcern": {"w": "majority"}}
        await stage.store.database.client.admin.command({"setDefaultRWConcern": 1, **weak})
        yield stage


async def test_nothing_is_lost_and_nothing_done_twice_when_primaries_die(three: ReplicaSet, stage: Stage) -> None:
    kill, step_down = three.kill_primary, three.step_down
    elections: Sequence[Callable[[], Awaitable[None]]] = by_length(short=[kill], long=[kill, step_down, kill])
    stage.package("Relay", known_relay("Relay", list(AGENTS)))
    with counting_model(stage, takes_s=0.3) as asked:
        async with squad(stage, workers=2, schedulers=1, concurrency=16) as members:
            senders = HonestSenders(stage, random.Random(5))
            sending = asyncio.create_task(senders.send(RUNS, within_s=PAUSE_S * (len(elections) + 1)))
            for elect in elections:
                await asyncio.sleep(PAUSE_S)
                await elect()
            await sending
            await wait_for_calm(stage, asked, within_s=120)
            await three.wait_for_all_members()
            verdict = await judge_runs(stage, senders.accepted.values(), AGENTS, asked)
            fenced = members.count_events("run_left_to_its_new_owner")

    add_summary_line("replica set", **verdict.numbers(), elections=len(elections), fenced=fenced)
    assert verdict.wrong == []
    assert verdict.runs == RUNS
    assert weak_write_concerns(await three.write_concerns()) == []


def weak_write_concerns(counters: Sequence[Mapping[str, Any]]) -> list[object]:
    """Writes that asked for less than a majority, or left it to a default."""
    return [
        (operation, counted)
        for member in counters
        for operation, counted in member.items()
        if counted["wnum"] or counted["wtag"] or any(counted["noneInfo"]["CWWC"].values())
    ]
