"""`unattended demo`: a whole one, and one that is interrupted."""

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.product import descendants, is_alive, started_command, unattended, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

ROLES_AND_SERVERS = 7


@pytest.mark.design("U-5")
def test_four_triggers_start_four_kinds_of_runs_and_the_bill_is_shown(tmp_path: Path) -> None:
    done = unattended("demo", "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert {run["trigger"]["type"] for run in summary["runs"]} == {
        "schedule",
        "database_condition",
        "webhook",
        "form_submit",
    }
    assert {run["state"] for run in summary["runs"]} == {"succeeded"}
    assert {run["turns"] for run in summary["runs"]} == {2}
    assert all(set(run) == {"run_id", "app_id", "workflow", "trigger", "state", "turns"} for run in summary["runs"])
    webhooks = [run for run in summary["runs"] if run["trigger"]["type"] == "webhook"]
    assert len(webhooks) == 1, "the second delivery of the same webhook started a run"
    assert {row["app_id"] for row in summary["usage"]} == {"acme", "globex"}
    assert all(row["input_tokens"] > 0 and row["output_tokens"] > 0 and row["cost_usd"] > 0 for row in summary["usage"])
    assert summary["metrics_url"].endswith("/metrics")
    assert list(tmp_path.iterdir()) == [], "the demo left something in the user's directory"


def test_a_second_demo_on_the_same_data_shows_its_own_runs(tmp_path: Path) -> None:
    arguments = ("demo", "--json", "--data-dir", str(tmp_path / "data"))

    first, second = (json.loads(unattended(*arguments, cwd=tmp_path).stdout) for _ in range(2))

    ids = [{run["run_id"] for run in each["runs"]} for each in (first, second)]
    assert ids[0] & ids[1] == set()
    assert {run["trigger"]["type"] for run in second["runs"]} == {run["trigger"]["type"] for run in first["runs"]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name)
def test_however_it_is_ended_no_process_is_left(tmp_path: Path, number: signal.Signals) -> None:
    with started_command("demo", "--data-dir", str(tmp_path / "data"), cwd=tmp_path) as demo:
        wait_until("servers and roles run", lambda: len(descendants(demo.pid)) >= ROLES_AND_SERVERS)
        family = descendants(demo.pid)

        demo.send_signal(number)
        demo.wait(30)

        wait_until("every child is gone", lambda: not any(is_alive(each) for each in family), within_s=10)
    assert "Traceback" not in (tmp_path / "output").read_text()


def test_it_runs_our_code_where_the_user_has_folders_of_the_same_names(tmp_path: Path) -> None:
    for name in ("accounting", "workflows", "workers", "triggers", "ops"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not ours')\n")
    for name in ("unattended.py", "celery.py", "click.py"):
        (tmp_path / name).write_text("raise RuntimeError('not ours')\n")

    done = unattended("demo", "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert {run["state"] for run in json.loads(done.stdout)["runs"]} == {"succeeded"}
