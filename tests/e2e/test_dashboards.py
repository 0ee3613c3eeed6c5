"""Every query of every dashboard on a real Prometheus, which scrapes all five roles of a busy system.

`UNATTENDED_TEST_PICTURES=240 pytest tests/e2e/test_dashboards.py` runs the system for 240 seconds, and then draws the
pictures of docs/dashboards.md.
"""

import itertools
import math
import os
import time
from pathlib import Path

import pytest

from tests.dashboards.busy_system import BusySystem, busy_system, targets_file
from tests.dashboards.panel_queries import ALL, DashboardQuery, DashboardWindow, Document, dashboards, panels
from tests.dashboards.picture import picture_of
from tests.e2e.product import wait_until
from tests.prometheus_server import PrometheusServer, Series, prometheus, scrape_config

ROOT = Path(__file__).parents[2]
PICTURES_S = int(os.environ.get("UNATTENDED_TEST_PICTURES", "0"))
PACE_S = 2.5 if PICTURES_S else 0.3
PATIENCE_S = 90 + PICTURES_S
ROLES = {"gateway", "scheduler", "watcher", "worker", "exporter"}
ONE_WORKFLOW = {"workflow": "Helpdesk", "app": ALL}
Query = tuple[str, str, Document]
CHOSEN = {"fleet": {"app": ALL, "workflow": ALL}, "usage": {"app": ALL, "workflow": ALL}, "triggers": {"workflow": ALL}}

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(PATIENCE_S + 120)]


def askings(server: PrometheusServer, began: float) -> dict[str, DashboardQuery]:
    """Query as Grafana does with a scrape interval of five seconds, the interval of the exporter's reads."""
    now = time.time()
    began = min(began, now - 1)  # Prometheus refuses a range that rounds to zero
    window = DashboardWindow(began, now, step_s=max(1, round((now - began) / 240)), scrape_s=5 if PICTURES_S else 1)
    return {name: DashboardQuery(server, window, CHOSEN.get(name, ONE_WORKFLOW)) for name in dashboards()}


def all_queries() -> list[Query]:
    return [
        (name, panel["title"], target)
        for name, dashboard in dashboards().items()
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]


def has_numbers(found: list[Series]) -> bool:
    return any(not math.isnan(value) for series in found for _, value in series.points)


def work(system: BusySystem, server: PrometheusServer, began: float) -> None:
    """Generate load until every query has results; for pictures longer, at a varying rate."""
    rounds = itertools.count()
    left = all_queries()
    due_at, killed = began, False

    def all_answered() -> bool:
        nonlocal due_at, killed
        if time.time() < due_at:
            return False
        system.do_some_things_again(next(rounds))
        due_at = time.time() + PACE_S
        if time.time() - began < PICTURES_S:
            if not killed and time.time() - began > PICTURES_S / 2:
                system.kill_worker()
                killed = True
            system.mood.slowness = 0.15 + 0.1 * math.sin((time.time() - began) / 25)
            return False
        now = askings(server, began)
        left[:] = [(name, title, target) for name, title, target in left if not has_numbers(now[name].answer(target))]
        return not left

    try:
        wait_until("every query of every dashboard finds something", all_answered, within_s=PATIENCE_S)
    except AssertionError:
        pytest.fail(f"these find nothing: {[(name, title, target['refId']) for name, title, target in left]}")


def rules(folder: Path) -> list[Path]:
    """Copy the shipped rules, evaluated every second to keep the test short."""
    hasty = folder / "rules"
    hasty.mkdir()
    for path in (ROOT / "ops" / "alerts").glob("*.yaml"):
        (hasty / path.name).write_text(path.read_text().replace("interval: 1m", "interval: 1s"))
    return sorted(hasty.iterdir())


@pytest.mark.design("U-8")
async def test_every_query_finds_something_while_all_roles_work(tmp_path: Path) -> None:
    with (
        prometheus(tmp_path, scrape_config(targets_file(tmp_path), rule_files=rules(tmp_path))) as server,
        busy_system(tmp_path) as system,
    ):
        began = time.time()
        wait_until("all roles are scraped", lambda: server.up() == dict.fromkeys(ROLES, True))
        system.do_each_thing_once()
        work(system, server, began)

        pictures: dict[str, bytes] = {}
        for name, asking in askings(server, began).items():
            board = dashboards()[name]
            for variable in (each for each in board["templating"]["list"] if each["type"] == "query"):
                wanted = {"app": {"acme", "globex"}, "workflow": {"DailyDigest", "Helpdesk"}}[variable["name"]]
                assert wanted <= set(asking.values(variable))
            if PICTURES_S:
                pictures[name] = await picture_of(board, asking)
                if name == "fleet":
                    pictures["fleet-top"] = await picture_of(board, asking, rows=22)  # for the README

    for name, picture in pictures.items():
        (ROOT / "docs" / "images" / f"dashboard-{name}.png").write_bytes(picture)
