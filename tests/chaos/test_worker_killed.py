"""kill -9 of a worker in the middle of a run: another one takes it over and no finished turn is asked again."""

import asyncio
import signal

import pytest

from tests.integration.stage import Stage, relay, wait_until
from tests.integration.workers.test_worker_health import address_of, fetch

pytestmark = pytest.mark.chaos

AGENTS = ["A", "B", "C", "D"]
USAGE = {"input": 100, "output": 10}


async def test_another_worker_resumes_after_the_lease(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", AGENTS))
    stage.answers({agent: [{"text": agent, "delay_s": 0.6, "usage": USAGE}] for agent in AGENTS})
    doomed = await stage.start_worker()
    run_id = (await stage.accept("Relay")).run_id
    await stage.wait_for_turn(run_id, 2)

    doomed.send_signal(signal.SIGKILL)
    await doomed.wait()
    killed_at = await stage.run(run_id)
    await stage.start_worker()
    run = await stage.reconcile_until_end(run_id, within_s=stage.settings.lease_s * 3 + 10)

    assert killed_at["state"] == "running"
    assert (run["state"], run["turn"], run["attempt"]) == ("succeeded", 4, 1)
    assert [line["ended"] for line in run["history"]] == ["worker_lost", "succeeded"]
    assert run["lease"]["token"] > killed_at["lease"]["token"]
    turns = await stage.store.committed_turns(run_id, up_to=run["turn"])
    assert [turn["agent"] for turn in turns] == AGENTS
    # Finished turns are paid once; only the turn in flight may have been asked twice.
    finished_before = AGENTS[: killed_at["turn"]]
    rows = await stage.usage_rows(run_id)
    assert [row["agent"] for row in rows if row["agent"] in finished_before] == finished_before
    assert run["usage"]["input_tokens"] == USAGE["input"] * sum(row["ok"] for row in rows)
    assert run["usage"]["missing"] == sum(not row["ok"] for row in rows)


async def test_a_paused_worker_that_wakes_after_its_lease_writes_nothing(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", AGENTS))
    stage.answers({agent: [{"text": agent, "delay_s": 0.5, "usage": USAGE}] for agent in AGENTS})
    paused = await stage.start_worker()
    run_id = (await stage.accept("Relay")).run_id
    await stage.wait_for_turn(run_id, 1)

    paused.send_signal(signal.SIGSTOP)
    await stage.start_worker()
    run = await stage.reconcile_until_end(run_id, within_s=stage.settings.lease_s * 3 + 10)
    paused.send_signal(signal.SIGCONT)
    await wait_until("the old owner sees that it lost the run", lambda: _has_logged(stage, "run_left_to_its_new_owner"))

    assert (run["state"], run["turn"]) == ("succeeded", 4)
    assert await stage.run(run_id) == run
    assert await metric_value(stage, "unattended_fenced_writes_total", worker=0) >= 1
    tokens = [turn["token"] for turn in await stage.store.committed_turns(run_id, up_to=4)]
    assert tokens == sorted(tokens)


async def test_a_wiped_redis_loses_no_accepted_run(stage: Stage) -> None:
    from redis.asyncio import Redis

    stage.package("Relay", relay("Relay", ["A"]))
    accepted = [await stage.accept("Relay") for _ in range(20)]
    await asyncio.wait_for(stage.wakeups.wait_until_published(), 10)

    redis = Redis.from_url(stage.settings.redis_url or "")
    waiting = await redis.llen(stage.settings.queue)
    await redis.delete(stage.settings.queue)
    await redis.aclose()
    await stage.start_worker()
    runs = [await stage.reconcile_until_end(each.run_id) for each in accepted]

    assert waiting == 20
    assert {run["state"] for run in runs} == {"succeeded"}
    assert [len(await stage.usage_rows(run["_id"])) for run in runs] == [1] * 20


async def metric_value(stage: Stage, metric: str, *, worker: int) -> float:
    _, text = await fetch(address_of(stage, worker), "/metrics")
    return sum(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{metric} "))


async def _has_logged(stage: Stage, event: str) -> bool:
    return event in stage.log(0)
