"""A run that ends stranded, from the worker to every view of it."""

import re
from typing import Any

import pytest

from ops.exporter.store_snapshot import SnapshotReader
from tests.integration.ops.console.conftest import Console
from tests.integration.stage import relay
from workers.store.ended_counts import RunLabels

pytestmark = pytest.mark.integration


def forgetful() -> dict[str, Any]:
    """A package whose only hand-off waits for a text that its agent never writes."""
    ready_trigger = {"type": "agent_text", "agent": "Clerk", "match": {"equals": "READY"}}
    ready = {"type": "boolean", "source": {"type": "state", "default": False, "triggers": [ready_trigger]}}
    way = {"source_agent": "Clerk", "target_agent": "Writer", "handoff_type": "condition", "condition": "${ready}"}
    end = {"source_agent": "Writer", "target_agent": "terminate", "handoff_type": "after_work"}
    return {
        **relay("Forgetful", ["Clerk", "Writer"]),
        "context_variables": {"definitions": {"ready": ready}},
        "handoffs": {"handoff_rules": [way, end]},
    }


async def test_a_stranded_run_is_seen_wherever_a_run_is_looked_at(console: Console) -> None:
    stage, visit = console.stage, await console.visit()
    stage.package("Forgetful", forgetful())
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Forgetful")).run_id)

    reason = "no rule of Clerk applies; none of its conditions held in this run"
    outcome = {"kind": "no_transition", "reason": reason, "error": None, "stranded": True}
    assert (run["state"], run["outcome"]) == ("succeeded", outcome)
    key = {"authorization": f"Bearer {visit.key}"}
    listed = (await visit.client.get("/v1/runs?workflow=Forgetful", headers=key)).json()["items"]
    single = (await visit.client.get(f"/v1/runs/{run['_id']}", headers=key)).json()
    assert [each["outcome"] for each in (*listed, single)] == [outcome] * 2
    page = (await visit.get(f"/console/runs/{run['_id']}")).text
    assert f'class="outcome wrong"><strong>no transition, stranded:</strong> {reason}' in page
    table = (await visit.get("/console/runs?workflow=Forgetful")).text
    assert len(re.findall(r'<span class="badge warn">stranded</span>', table)) == 1
    counted = (await SnapshotReader(console.gateway.ground.database).read()).runs
    labels = RunLabels("acme", "Forgetful", run["trigger"]["type"], "no_transition", stranded=True)
    assert counted[labels] == 1
