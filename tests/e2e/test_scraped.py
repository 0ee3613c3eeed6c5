"""A real Prometheus beside `unattended up`: it finds the five roles by the files that `up` writes."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from ops.free_ports import free_address
from ops.roles import ROLES
from tests.e2e.product import alive, descendants, environment, started, until
from tests.prometheus_server import PrometheusServer, prometheus
from tests.promtool import promtool

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

# What no other role shows; a gateway shows nothing of its own before it is called.
OWN = {
    "scheduler": "unattended_reconcile_last_success_timestamp_seconds",
    "watcher": "unattended_stream_state",
    "worker": "unattended_worker_slots",
    "exporter": "unattended_exporter_store_up",
}
ALL_UP = dict.fromkeys(ROLES, True)


def impatient(config: Path, folder: Path) -> Path:
    """The same, asked every second and without alerts, so that the test is not as slow as an operator."""
    written: dict[str, Any] = yaml.safe_load(config.read_text())
    written["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    copy = folder / "impatient.yml"
    copy.write_text(yaml.safe_dump(written))
    return copy


def process_of(role: str, up: int) -> psutil.Process | None:
    return next((each for each in descendants(up) if alive(each) and each.cmdline()[-1:] == [role]), None)


def scheduler_counts_since(server: PrometheusServer) -> float:
    found = server.query("unattended_reconcile_seconds_created")
    return found[0].value if found else 0


def kill_and_see(server: PrometheusServer, up: int) -> None:
    before = scheduler_counts_since(server)
    scheduler = process_of("scheduler", up)
    assert scheduler is not None
    scheduler.kill()
    until("the new scheduler is scraped", lambda: scheduler_counts_since(server) > before > 0)


def test_prometheus_finds_the_roles_of_up_and_those_that_were_restarted(tmp_path: Path) -> None:
    listen, metrics = free_address(), free_address()
    env = environment(UNATTENDED_LISTEN=str(listen), UNATTENDED_METRICS_LISTEN=str(metrics))
    place = tmp_path / ".unattended" / "prometheus"

    with started("up", cwd=tmp_path, env=env) as process:
        until(
            "up says where its configuration is",
            lambda: f"--config.file={place.relative_to(tmp_path)}" in said(tmp_path),
        )
        status, words = promtool("check", "config", place / "prometheus.yml")
        assert status == 0, words
        before = json.loads((place / "targets.json").read_text())
        with prometheus(tmp_path, impatient(place / "prometheus.yml", tmp_path)) as server:
            until("every role is scraped", lambda: server.up() == ALL_UP)
            for role, metric in OWN.items():
                until(f"{role} shows {metric}", partial(server.query, metric))
                assert {each.labels["role"] for each in server.query(metric)} == {role}
            kill_and_see(server, process.pid)
            until("every role is scraped again", lambda: server.up() == ALL_UP)
        assert json.loads((place / "targets.json").read_text()) == before

    assert not (place / "targets.json").exists()  # stopped on purpose: nothing is down


def said(folder: Path) -> str:
    return (folder / "output").read_text()
