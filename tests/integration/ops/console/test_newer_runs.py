"""Runs of a newer version, in words that this one does not know: every view displays them."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from ops.exporter.store_snapshot import SnapshotReader
from tests.integration.ops.command import unattended
from tests.integration.ops.console.conftest import Console, accept_run
from workers.store.run import RUN_FORMAT

pytestmark = pytest.mark.integration

NOW = datetime.now(UTC)
OUTCOME = {"kind": "undone", "reason": "three of four steps", "error": None, "steps": [1, 2]}
HISTORY = [{"token": 1, "owner": "vm:1:a", "from": NOW, "until": NOW, "turn": 0, "ended": "undoing", "reason": ""}]
UNKNOWN: dict[str, dict[str, Any]] = {
    "compensating": {"state": "compensating", "history": HISTORY},
    "undone": {"state": "undone", "outcome": OUTCOME, "finished_at": NOW},
    "failed": {"state": "failed", "outcome": OUTCOME, "finished_at": NOW},
    "queued": {"state": "queued", "hold": "quota", "held_by": "quota:acme", "held_until": NOW},
}


@pytest.mark.parametrize("state", UNKNOWN)
async def test_what_only_a_newer_version_knows_is_displayed(console: Console, state: str) -> None:
    stage, visit = console.stage, await console.visit()
    run_id = await accept_run(stage)
    newer = {**UNKNOWN[state], "format": RUN_FORMAT + 1, "trigger.type": "mail", "steps": [{"undo": "pay"}]}
    await stage.store.runs.update_one({"_id": run_id}, {"$set": newer, "$unset": {"lane": ""}})

    listed, listed_json, shown, shown_json = await asyncio.gather(
        unattended(stage, "runs", "list"),
        unattended(stage, "runs", "list", "--json"),
        unattended(stage, "runs", "show", run_id),
        unattended(stage, "runs", "show", run_id, "--json"),
    )
    assert [each.code for each in (listed, listed_json, shown, shown_json)] == [0] * 4, (listed.err, shown.err)
    assert [line for line in listed.out.splitlines() if run_id in line and state in line]
    assert {run["run_id"]: run["state"] for run in listed_json.json}[run_id] == state
    assert state in shown.out
    assert shown_json.json["state"] == state

    key = {"authorization": f"Bearer {visit.key}"}
    answers = {
        path: await visit.client.get(path, headers=key) for path in ("/v1/runs", f"/v1/runs/{run_id}", "/v1/triggers")
    }
    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(answers, 200)
    assert {run["run_id"]: run["state"] for run in answers["/v1/runs"].json()["items"]}[run_id] == state
    assert answers[f"/v1/runs/{run_id}"].json()["state"] == state

    for path in ("/console", "/console/runs", f"/console/runs/{run_id}"):
        page = await visit.get(path)
        assert page.status_code == 200, path
        assert path == "/console" or state in page.text, path
    await SnapshotReader(stage.store.database).read()
