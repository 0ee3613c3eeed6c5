"""A run that lasts twenty times as long as Redis thinks a message may be worked on is executed once."""

from dataclasses import replace

import pytest

from tests.chaos.lengths import by_length
from tests.chaos.test_worker_killed import metric_value
from tests.integration.stage import Stage, relay
from workers.settings import Settings
from workers.store.run_store import RunStore

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]

VISIBILITY_TIMEOUT_S = by_length(short=1, long=3)
TURNS = 4
RUN_S = 20 * VISIBILITY_TIMEOUT_S


async def test_a_run_longer_than_the_visibility_timeout_is_executed_once(
    settings: Settings, store: RunStore, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = f"{settings.redis_url}?visibility_timeout={VISIBILITY_TIMEOUT_S}"
    # Duplicates are wanted here: the reconciler repeats wake-ups, too.
    stage = Stage(replace(settings, redis_url=url, republish_after_s=1), store, tmp_path_factory.mktemp("stage"))
    try:
        agents = [f"Agent{number}" for number in range(TURNS)]
        stage.package("Long", relay("Long", agents))
        stage.answers({each: [{"text": "done", "delay_s": RUN_S / TURNS}] for each in agents})
        for _ in range(3):
            await stage.start_worker()
        run_ids = [(await stage.accept("Long")).run_id for _ in range(3)]
        for run_id in run_ids:
            stage.wakeups.send(run_id)

        runs = [await stage.reconcile_until_end(each, within_s=RUN_S + 60) for each in run_ids]
        rows = [await stage.usage_rows(each) for each in run_ids]
        dropped = [await metric_value(stage, "unattended_idle_wakeups_total", worker=each) for each in range(3)]
    finally:
        await stage.close()

    assert sum(dropped) >= len(run_ids), "no repeated wake-up has reached a worker"
    for run, calls in zip(runs, rows, strict=True):
        assert (run["state"], run["turn"], run["attempt"]) == ("succeeded", TURNS, 1)
        assert (run["lease"]["token"], run["worker_losses"]) == (1, 0), "it was claimed more than once"
        assert len(run["history"]) == 1, "it had more than one owner"
        assert [each["agent"] for each in calls] == agents, "a model was asked more than once per turn"
        took_s = (run["finished_at"] - run["started_at"]).total_seconds()
        assert took_s >= RUN_S
