"""`unattended up` on one machine: it keeps data, restarts dead roles, and reports errors in one line."""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from ops.free_ports import find_free_address
from tests.e2e.product import (
    as_json,
    descendants,
    environment,
    is_alive,
    one_line,
    started_command,
    unattended,
    wait_until,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gateway = find_free_address()
        self.env = environment(
            UNATTENDED_DATA_DIR=str(folder / "data"),
            UNATTENDED_LISTEN=str(self.gateway),
            UNATTENDED_METRICS_LISTEN=str(find_free_address()),
            UNATTENDED_LEASE_S="4",
        )

    @contextmanager
    def up(self) -> Iterator[psutil.Process]:
        with started_command("up", cwd=self.folder, env=self.env) as process:
            wait_until(
                "every role is ready", lambda: self.ready_roles() >= {"gateway", "scheduler", "watcher", "worker"}
            )
            yield psutil.Process(process.pid)
        (self.folder / "output").unlink()

    def answer_slowly(self) -> None:
        """Make runs long enough to be observed from outside."""
        entry = '{text: "NEXT", usage: {input: 10, output: 1}, delay_s: 4}'
        (self.folder / "answers.yaml").write_text(f"default: {entry}\n")
        (self.folder / "slow.yaml").write_text("models:\n  default: {provider: script, file: answers.yaml}\n")
        self.env["UNATTENDED_MODELS"] = str(self.folder / "slow.yaml")

    def ready_roles(self) -> set[str]:
        output = (self.folder / "output").read_text()
        return {role for role in ("gateway", "scheduler", "watcher", "worker", "exporter") if f"{role}_ready" in output}

    def enqueue(self) -> str:
        arguments = ("enqueue", "DailyDigest", "--app", "acme", "--input", '{"region": "eu"}')
        return str(as_json(*arguments, cwd=self.folder, env=self.env)["run_id"])

    def state(self, run_id: str) -> str:
        return str(as_json("runs", "show", run_id, cwd=self.folder, env=self.env)["state"])


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def role_process(up: psutil.Process, role: str) -> psutil.Process | None:
    living = (each for each in descendants(up.pid) if is_alive(each))
    return next((each for each in living if each.cmdline()[-1:] == [role]), None)


def test_data_is_kept_between_starts_and_the_cli_finds_the_servers(machine: Machine) -> None:
    with machine.up():
        run_id = machine.enqueue()
        wait_until("the run ends", lambda: machine.state(run_id) == "succeeded")
        usage = as_json("usage", cwd=machine.folder, env=machine.env)
    gone = unattended("runs", "list", cwd=machine.folder, env=machine.env)

    with machine.up():
        runs = as_json("runs", "list", cwd=machine.folder, env=machine.env)
        assert as_json("usage", cwd=machine.folder, env=machine.env) == usage

    assert [(run["run_id"], run["state"], run["turn"]) for run in runs] == [(run_id, "succeeded", 2)]
    assert [row["app_id"] for row in usage] == ["acme"]
    assert gone.returncode == 1
    assert "unattended up" in one_line(gone.stderr)


def test_a_worker_killed_during_a_run_is_replaced_and_the_run_ends(machine: Machine) -> None:
    machine.answer_slowly()
    with machine.up() as up:
        worker = role_process(up, "worker")
        assert worker is not None
        run_id = machine.enqueue()
        wait_until("the run is being worked on", lambda: machine.state(run_id) == "running")

        worker.kill()

        wait_until("another worker process runs", lambda: (now := role_process(up, "worker")) and now.pid != worker.pid)
        wait_until("the run ends", lambda: machine.state(run_id) == "succeeded")
        story = as_json("runs", "show", run_id, cwd=machine.folder, env=machine.env)

    assert [turn["agent"] for turn in story["turns"]] == ["Collector", "Writer"]


def test_sigterm_stops_everything(machine: Machine) -> None:
    with machine.up() as up:
        family = descendants(up.pid)

        up.send_signal(signal.SIGTERM)

        wait_until("every process is gone", lambda: not any(is_alive(each) for each in [up, *family]), within_s=40)
    assert not (machine.folder / "data" / "services.json").exists()


def test_a_taken_port_is_one_line_and_nothing_is_started(machine: Machine) -> None:
    with socket.create_server((machine.gateway.host, machine.gateway.port)):
        done = unattended("up", cwd=machine.folder, env=machine.env)

    assert done.returncode == 2
    assert str(machine.gateway) in one_line(done.stderr)
    assert "UNATTENDED_LISTEN" in done.stderr
    assert not (machine.folder / "data").exists()


def test_one_address_for_gateway_and_exporter_is_one_line(machine: Machine) -> None:
    env = {**machine.env, "UNATTENDED_METRICS_LISTEN": str(machine.gateway)}

    done = unattended("up", cwd=machine.folder, env=env)
    examined = unattended("doctor", "--json", cwd=machine.folder, env=env)

    assert done.returncode == 2
    assert "UNATTENDED_METRICS_LISTEN" in one_line(done.stderr)
    assert not (machine.folder / "data").exists()
    assert examined.returncode == 1
    assert {row["check"] for row in json.loads(examined.stdout)["checks"] if row["level"] == "problem"} == {"addresses"}


@pytest.mark.parametrize(
    ("variable", "url"),
    [
        ("UNATTENDED_MONGODB_URL", "mongodb://user:hunter2@{}"),
        ("UNATTENDED_MONGODB_URL", "nonsense"),
        ("UNATTENDED_REDIS_URL", "redis://:hunter2@{}/0"),
        ("UNATTENDED_REDIS_URL", "nonsense"),
    ],
)
def test_a_given_server_that_is_absent_is_one_line_and_starts_nothing(
    machine: Machine, variable: str, url: str
) -> None:
    done = unattended("up", cwd=machine.folder, env={**machine.env, variable: url.format(find_free_address())})

    assert done.returncode == 1
    assert variable in one_line(done.stderr)
    assert "hunter2" not in done.stderr
    assert not (machine.folder / "data").exists()


def test_the_doctor_examines_a_bad_setting_too(machine: Machine) -> None:
    env = {**machine.env, "UNATTENDED_CONCURRENCY": "abc"}

    done = unattended("doctor", "--json", cwd=machine.folder, env=env)
    table = unattended("doctor", cwd=machine.folder, env=env)

    assert (done.returncode, done.stderr) == (1, "")
    answer = json.loads(done.stdout)
    assert answer["ok"] is False
    assert [(row["check"], row["level"]) for row in answer["checks"]] == [("settings", "problem")]
    assert "UNATTENDED_CONCURRENCY='abc'" in answer["checks"][0]["found"]
    assert answer["checks"][0]["advice"].startswith("write a whole number")
    assert table.returncode == 1
    assert "UNATTENDED_CONCURRENCY" in table.stdout


def test_a_second_up_on_the_same_data_is_one_line(machine: Machine) -> None:
    with machine.up():
        env = {
            **machine.env,
            "UNATTENDED_LISTEN": str(find_free_address()),
            "UNATTENDED_METRICS_LISTEN": str(find_free_address()),
        }
        second = unattended("up", cwd=machine.folder, env=env)

    assert second.returncode == 1
    assert "in use" in one_line(second.stderr)


def test_data_of_a_newer_version_is_left_alone(machine: Machine) -> None:
    with machine.up():
        pass
    data = machine.folder / "data"
    marker = next(path for path in data.iterdir() if path.is_file() and '"format"' in path.read_text(errors="replace"))
    marker.write_text(json.dumps({"format": 999}))

    done = unattended("up", cwd=machine.folder, env=machine.env)

    assert done.returncode == 1
    assert "newer" in one_line(done.stderr)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("UNATTENDED_LEASE_S", "soon"),
        ("UNATTENDED_LISTEN", "everywhere"),
        ("UNATTENDED_MODELS", "/no/such/models.yaml"),
    ],
)
def test_a_bad_setting_is_one_line_that_names_it(machine: Machine, variable: str, value: str) -> None:
    done = unattended("up", cwd=machine.folder, env={**machine.env, variable: value})

    assert done.returncode == 2
    complaint = one_line(done.stderr)
    assert value in complaint
    assert "Traceback" not in complaint
