"""A package that is not started: every way to start a run reports why, and creates no run."""

from pathlib import Path

import pytest

from tests.e2e.product import as_json, one_line, unattended
from tests.e2e.test_up import Machine
from tests.unit.workflows.packages import write_package

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def test_enqueue_reports_why_a_package_is_not_started(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    flows = tmp_path / "flows"
    broken = write_package(flows / "Broken", orchestrator={"workflow_name": "Broken", "initial_agent": "C"})
    blocked = write_package(flows / "Blocked", orchestrator={"workflow_name": "Blocked", "initial_agent": "A"})
    (blocked / "extended_orchestration").mkdir()
    (blocked / "extended_orchestration" / "task_batches.yaml").write_text("batches: [{id: one}]")
    machine.env["UNATTENDED_PACKAGES"] = str(flows)

    with machine.up():
        messages = {
            name: unattended("enqueue", name, "--app", "acme", cwd=tmp_path, env=machine.env)
            for name in ("Broken", "Blocked", "Absent")
        }
        runs = as_json("runs", "list", cwd=tmp_path, env=machine.env)

    assert {name: each.returncode for name, each in messages.items()} == {"Broken": 1, "Blocked": 1, "Absent": 2}
    assert one_line(messages["Broken"].stderr) == (
        "unattended: Broken is not started: error: orchestrator.yaml: initial_agent: C is not an agent of this package;"
        f" name one [unknown_agent]; see `unattended validate {broken}`"
    )
    assert "Blocked is not started: warning: " in one_line(messages["Blocked"].stderr)
    assert "[task_batches]" in messages["Blocked"].stderr
    assert "there is no package Absent" in messages["Absent"].stderr
    assert runs == []
