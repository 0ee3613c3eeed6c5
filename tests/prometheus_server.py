"""A real Prometheus of a test's own: started on a free port with a configuration, asked over its API, stopped.

with prometheus(tmp_path, scrape_config({"worker": "127.0.0.1:9402"}, rule_files=[RULES])) as server:
    until("the worker is scraped", lambda: server.up() == {"worker": True})
    assert server.query("sum(unattended_worker_slots)")[0].value == 200
"""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ops.free_ports import find_free_address
from tests.programs import require_program, wait_until_ready
from tests.server_logs import WatchedServer

JOB = "unattended"
Parameters = Mapping[str, str | float]


class QueryRefused(AssertionError):  # noqa: N818 -- what it is
    """Prometheus said no; the text is its own."""


@dataclass(frozen=True, slots=True)
class Series:
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]  # Unix time, value; one of an instant query

    @property
    def value(self) -> float:
        return self.points[-1][1]


def scrape_config(
    targets: Mapping[str, str | Sequence[str]] | Path,
    *,
    rule_files: Sequence[Path] = (),
    alertmanager: str | None = None,
    every_s: int = 1,
) -> dict[str, Any]:
    """Our convention: one job, one label `role`. An address is `host:port`; a role may have several. A path is that of
    a file of targets, which may come later: Prometheus takes five seconds to heed what it finds, so start it early.
    """
    config: dict[str, Any] = {
        "global": {"scrape_interval": f"{every_s}s", "scrape_timeout": f"{every_s}s", "evaluation_interval": "1s"},
        "rule_files": [str(path.resolve()) for path in rule_files],
        "scrape_configs": [
            {"job_name": JOB, **_discovery(targets)},
        ],
    }
    if alertmanager:
        config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
    return config


def _discovery(targets: Mapping[str, str | Sequence[str]] | Path) -> dict[str, Any]:
    if isinstance(targets, Path):
        return {"file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}]}
    listed = {role: [each] if isinstance(each, str) else list(each) for role, each in targets.items()}
    return {"static_configs": [{"targets": each, "labels": {"role": role}} for role, each in listed.items()]}


@contextmanager
def prometheus(folder: Path, config: Mapping[str, Any] | Path) -> Iterator["PrometheusServer"]:
    """`config` as `scrape_config` makes it, or a file of one's own. Data and log are in folder/prometheus."""
    program = require_program("prometheus", package="prometheus")
    place = folder / "prometheus"
    place.mkdir(parents=True)
    if not isinstance(config, Path):
        (place / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        config = place / "prometheus.yml"
    address = str(find_free_address())
    arguments = (f"--config.file={config}", f"--storage.tsdb.path={place / 'data'}", f"--web.listen-address={address}")
    with (place / "log").open("wb") as log:
        process = subprocess.Popen([program, *arguments, "--log.level=warn"], stdout=log, stderr=log)
    watched = WatchedServer("Prometheus", place / "log", process.poll)
    try:
        wait_until_ready(process, address, place / "log")
        yield PrometheusServer(f"http://{address}")
    finally:
        process.kill()  # its data is nobody's
        process.wait(10)
        del watched


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    url: str

    def up(self) -> dict[str, bool]:
        """Role to whether all of its targets were scraped well, of those that were tried."""
        seen: dict[str, bool] = {}
        for series in self.query(f'up{{job="{JOB}"}}'):
            role = series.labels["role"]
            seen[role] = seen.get(role, True) and series.value == 1
        return seen

    def query(self, expression: str, *, at: float | None = None) -> list[Series]:
        when: dict[str, str | float] = {"time": at} if at is not None else {}
        found = self.api("query", {"query": expression, **when})
        if found["resultType"] == "scalar":
            return [Series({}, [_point(found["result"])])]
        return [Series(each["metric"], [_point(each["value"])]) for each in found["result"]]

    def query_range(self, expression: str, *, start: float, end: float, step_s: float) -> list[Series]:
        """As a panel of Grafana asks."""
        found = self.api("query_range", {"query": expression, "start": start, "end": end, "step": step_s})
        return [Series(each["metric"], [_point(value) for value in each["values"]]) for each in found["result"]]

    def label_values(self, label: str, *, match: str) -> list[str]:
        """As a variable of Grafana asks."""
        values: list[str] = self.api(f"label/{label}/values", {"match[]": match})
        return values

    def alerts(self, state: str = "firing") -> list[Mapping[str, str]]:
        """Labels of the alerts that are in that state now."""
        return [each["labels"] for each in self.api("alerts", {})["alerts"] if each["state"] == state]

    def api(self, path: str, parameters: Parameters) -> Any:
        try:
            query = f"{self.url}/api/v1/{path}?{urlencode(parameters)}"
            with urllib.request.urlopen(query, timeout=30) as answer:  # noqa: S310 -- our own server
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                said = json.load(error)
            raise QueryRefused(f"{said.get('error')}: {dict(parameters)}") from None


def _point(pair: Sequence[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])
