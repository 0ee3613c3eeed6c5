"""Whether a watcher is ready: its streams get on, and its looks at the triggers succeed."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.stream_bench import StreamBench
from triggers.change_stream.run_starter import RunIntent, RunStarter
from workers.process.role_health import StepWatch

pytestmark = pytest.mark.integration


async def test_a_stream_that_does_not_get_on_is_named_until_it_does(
    bench: StreamBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, let_go, start = asyncio.Event(), asyncio.Event(), RunStarter.start

    async def held_up(self: RunStarter, wishes: Sequence[RunIntent]) -> None:
        held.set()
        await let_go.wait()
        await start(self, wishes)

    bench.settings = replace(bench.settings, lease_s=3)  # an idle stream saves twice a second
    bench.declare({})
    watcher = bench.watcher(patience_s=0.3)

    async def is_overdue() -> bool:
        return bool(watcher.overdue_streams())

    async def is_well() -> bool:
        return not watcher.overdue_streams()

    async with bench.watching(watcher=watcher):
        assert await is_well()
        monkeypatch.setattr(RunStarter, "start", held_up)
        await bench.orders.insert_one({"_id": 1})
        await held.wait()
        await wait_until(is_overdue, "the stream is late")
        [words] = watcher.overdue_streams()
        let_go.set()
        await wait_until(is_well, "the stream gets on")
        await bench.wait_for_runs(1)

    assert words.startswith(f"the stream {bench.shop.name} has saved no position for ")
    assert await is_well()  # one that is not read any more owes nothing


async def test_a_quiet_stream_gets_on(bench: StreamBench) -> None:
    bench.settings = replace(bench.settings, lease_s=3)
    bench.declare({})
    watcher = bench.watcher(patience_s=0.3)
    late: list[str] = []

    async with bench.watching(watcher=watcher):
        first = (await bench.stream())["token_saved_at"]

        async def saved_often() -> bool:
            late.extend(watcher.overdue_streams())
            since_first: timedelta = (await bench.stream())["token_saved_at"] - first
            return since_first > timedelta(seconds=1.5)

        await wait_until(saved_often, "some positions")

    assert late == []


async def test_each_look_at_the_triggers_counts_as_a_step(bench: StreamBench) -> None:
    steps, stop = StepWatch("look"), asyncio.Event()
    assert steps.check() == ["the step look has not succeeded yet"]

    async def has_checked() -> bool:
        return not steps.check()

    running = asyncio.create_task(bench.watcher(patience_s=0.3).run(stop, watch_step=partial(steps.watch, "look")))
    await wait_until(has_checked, "a look")
    stop.set()
    await running
