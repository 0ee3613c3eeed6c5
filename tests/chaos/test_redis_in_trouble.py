"""Redis that neither works nor dies: it hangs, or is full. Runs are accepted as quickly as ever, and all end."""

import asyncio
import signal
import time

import pytest

from tests.chaos.lengths import add_summary_line, by_length
from tests.chaos.own_servers import listener, redis_of
from tests.integration.stage import Stage, relay, wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]

HANGS_S = by_length(short=3.0, long=20.0)
RUNS = 10
ACCEPTED_WITHIN_S = 1.0


async def assert_quick_acceptance(stage: Stage) -> list[str]:
    run_ids = []
    for _ in range(RUNS):
        began = time.monotonic()
        run_ids.append((await stage.accept("Relay")).run_id)
        assert time.monotonic() - began < ACCEPTED_WITHIN_S
    return run_ids


async def test_a_hanging_redis_delays_no_acceptance_and_loses_nothing(own_redis_stage: Stage) -> None:
    stage = own_redis_stage
    stage.package("Relay", relay("Relay", ["A"]))
    worker = await stage.start_worker()
    await stage.wait_for_end((await stage.accept("Relay")).run_id)
    redis = listener(stage.settings.redis_url)

    redis.send_signal(signal.SIGSTOP)
    try:
        run_ids = await assert_quick_acceptance(stage)
        await asyncio.sleep(HANGS_S)
    finally:
        redis.send_signal(signal.SIGCONT)
    woke_at = time.monotonic()
    runs = [await stage.reconcile_until_end(run_id, within_s=60) for run_id in run_ids]

    add_summary_line("Redis hangs", runs=RUNS, seconds=HANGS_S, all_ended_after_s=f"{time.monotonic() - woke_at:.1f}")
    assert worker.returncode is None
    assert {run["state"] for run in runs} == {"succeeded"}
    assert [len(await stage.usage_rows(run_id)) for run_id in run_ids] == [1] * RUNS


async def test_a_full_redis_takes_no_wakeup_and_costs_no_run(own_redis_stage: Stage) -> None:
    stage = own_redis_stage
    stage.package("Relay", relay("Relay", ["A"]))
    worker = await stage.start_worker()
    await stage.wait_for_end((await stage.accept("Relay")).run_id)

    async with redis_of(stage) as redis:
        await redis.config_set("maxmemory", "1")  # celery#5716: OOM on publish
        run_ids = await assert_quick_acceptance(stage)
        await stage.wakeups.wait_until_published()
        sent = await redis.llen(stage.settings.queue)
        starting = asyncio.create_task(stage.start_worker())
        await wait_until("the second worker finds Redis full", lambda: has_logged_full_redis(stage))
        await redis.config_set("maxmemory", "0")
    fresh = await starting
    emptied_at = time.monotonic()
    runs = [await stage.reconcile_until_end(run_id, within_s=60) for run_id in run_ids]

    add_summary_line("Redis full", runs=RUNS, all_ended_after_s=f"{time.monotonic() - emptied_at:.1f}")
    assert sent == 0
    assert (worker.returncode, fresh.returncode) == (None, None)
    assert {run["state"] for run in runs} == {"succeeded"}
    assert [len(await stage.usage_rows(run_id)) for run_id in run_ids] == [1] * RUNS


async def has_logged_full_redis(stage: Stage) -> bool:
    return len(stage.workers) > 1 and "maxmemory" in stage.log(1)
