"""Packages share a worker: a slow import delays only the runs of its package."""

import pytest

from tests.integration.stage import Stage, relay, wait_until

pytestmark = pytest.mark.integration

SLOW_RUNS = 10


async def test_a_slow_import_delays_no_other_package(stage: Stage) -> None:
    slow = relay("Slow", ["A"])
    slow["tools"] = {"tools": [{"agent": "A", "file": "slow.py", "function": "slow"}]}
    slow["tools/slow.py"] = "import time\n\ntime.sleep(15)\n\ndef slow():\n    return 1\n"
    stage.package("Slow", slow)
    stage.package("Fast", relay("Fast", ["B"]))
    await stage.start_worker()
    for _ in range(SLOW_RUNS):
        await stage.accept("Slow")

    async def all_claimed() -> bool:
        return await stage.store.runs.count_documents({"state": "running"}) == SLOW_RUNS

    await wait_until("every slow run is being worked on", all_claimed, within_s=4)
    fast = await stage.wait_for_end((await stage.accept("Fast")).run_id, within_s=3)

    assert fast["state"] == "succeeded"
    assert await stage.store.runs.count_documents({"workflow": "Slow", "state": "running"}) == SLOW_RUNS
