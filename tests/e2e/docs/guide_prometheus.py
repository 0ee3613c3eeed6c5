"""The guide's Prometheus, which finds the roles by the files that `unattended up` writes."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from ops.processes.role_processes import ROLES
from tests.e2e.docs.reader import Reader
from tests.e2e.product import descendants, is_alive, wait_until
from tests.prometheus_server import PrometheusServer
from tests.promtool import promtool

# A metric that only this role has; a gateway has none of its own before a call.
OWN = {
    "scheduler": "unattended_reconcile_last_success_timestamp_seconds",
    "watcher": "unattended_stream_state",
    "worker": "unattended_worker_slots",
    "exporter": "unattended_exporter_store_up",
}
ALL_UP = dict.fromkeys(ROLES, True)


def files_of_up(reader: Reader) -> tuple[Path, Path]:
    """Return Prometheus's configuration and its targets."""
    place = reader.cwd / ".unattended" / "prometheus"
    return place / "prometheus.yml", place / "targets.json"


def scrape_every_second(reader: Reader) -> None:
    """Use the files of `up` with an interval of a second, to keep the test short."""
    config, _ = files_of_up(reader)
    status, words = promtool("check", "config", config)
    assert status == 0, words
    written: dict[str, Any] = yaml.safe_load(config.read_text())
    written["global"] |= {"scrape_interval": "1s", "scrape_timeout": "1s"}
    config.write_text(yaml.safe_dump(written))


def assert_roles_are_found_again(reader: Reader) -> None:
    server, (_, targets) = PrometheusServer(f"http://{reader.replaced['127.0.0.1:9090']}"), files_of_up(reader)
    before = json.loads(targets.read_text())
    wait_until("every role is scraped", lambda: server.up() == ALL_UP)
    for role, metric in OWN.items():
        wait_until(f"{role} shows {metric}", partial(server.query, metric))
        assert {each.labels["role"] for each in server.query(metric)} == {role}
    since = _scheduler_start_time(server)
    _kill_scheduler(reader)
    wait_until("the new scheduler is scraped", lambda: _scheduler_start_time(server) > since > 0)
    wait_until("every role is scraped again", lambda: server.up() == ALL_UP)
    assert json.loads(targets.read_text()) == before


def _scheduler_start_time(server: PrometheusServer) -> float:
    found = server.query("unattended_reconcile_seconds_created")
    return found[0].value if found else 0


def _kill_scheduler(reader: Reader) -> None:
    family = descendants(reader.staying["unattended up"].pid)
    [scheduler] = [each for each in family if is_alive(each) and each.cmdline()[-1:] == ["scheduler"]]
    scheduler.kill()
