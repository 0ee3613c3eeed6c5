"""Prometheus and the queries of the dashboards."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops.dashboards import promql
from ops.dashboards.dashboard_frame import GATEWAY
from tests.dashboards.panel_queries import DashboardWindow, Document, dashboards, interpolate, panels
from tests.promtool import promtool

DASHBOARDS = dashboards()
CHOSEN = {**DashboardWindow(0, 3600, step_s=15).variables(), "app": ".*", "workflow": ".*", "gateway": GATEWAY}
CHOSEN_SEVERAL = {**CHOSEN, "app": ["acme", "globex.eu"], "workflow": ["DailyDigest"]}

every = pytest.mark.parametrize("name", DASHBOARDS)


def rules(path: Path) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return groups


def targets(dashboard: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((panel["title"], target) for panel in panels(dashboard) for target in panel["targets"])


@every
def test_prometheus_takes_every_expression_whatever_is_chosen(name: str, tmp_path: Path) -> None:
    asked = [
        interpolate(target["expr"], chosen)
        for _, target in targets(DASHBOARDS[name])
        for chosen in (CHOSEN, CHOSEN_SEVERAL)
    ]
    recorded = [{"record": f"asked:{place}", "expr": each} for place, each in enumerate(asked)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": recorded}]}))

    status, said = promtool("check", "rules", "--lint=none", tmp_path / "rules.yaml")

    assert status == 0, said


# Scraped each minute; `_` is a scrape that failed, or a series that is not there yet.
COUNTED = [
    # name, values, what was counted in the last ten of 30 minutes
    ("steady", "0+3x30", 30),
    ("begins inside", "_x25 2x3 4x1", 4),
    ("was there before, though not just when the range begins", "5x16 _x6 9x6", 4),
    ("nothing happened", "7x30", 0),
]


@pytest.mark.parametrize(("case", "values", "grew"), COUNTED)
def test_growth_counts_what_increase_does_not_see(case: str, values: str, grew: int, tmp_path: Path) -> None:
    counter = promql.StoreCounter("some_total", ("app",))
    series = [{"series": f'some_total{{app="acme",instance="{each}"}}', "values": values} for each in "ab"]
    asked = {promql.store_increase(counter): grew}
    if "not just" not in case:  # `increase` spreads hidden counts over the gap
        asked[promql.increase("some_total")] = 2 * grew

    status, said = promtool("test", "rules", _test_of(asked, series, tmp_path))

    assert status == 0, (case, said)


def test_a_process_that_starts_anew_loses_nothing_of_what_it_counted(tmp_path: Path) -> None:
    series = [{"series": 'some_total{instance="a"}', "values": "0+1x24 0+1x6"}]

    status, said = promtool("test", "rules", _test_of({promql.increase("some_total"): 9}, series, tmp_path))

    assert status == 0, said


@pytest.mark.parametrize(
    ("counted", "percent"),
    [
        ({"completed": 3, "timeout": 1}, 75),
        ({"no_transition": 2}, 100),
        ({"no_transition": 2, "stranded": 1}, 50),
        ({"no_transition": 1, "stranded": 1, "timeout": 1, "cancelled": 5}, 0),
    ],
)
def test_a_stranded_run_has_not_ended_well(counted: dict[str, int], percent: int, tmp_path: Path) -> None:
    """Of two exporters, each of which shows all runs."""
    labels = 'app="acme",workflow="W",trigger="api"'
    names = {name: f'unattended_runs_total{{{labels},outcome="{name}"' for name in counted if name != "stranded"} | {
        "stranded": f"unattended_runs_stranded_total{{{labels}"
    }
    series = [
        {"series": f'{names[name]},instance="{each}"}}', "values": f"0+{grows}x30"}
        for name, grows in counted.items()
        for each in "ab"
    ]
    where = 'app="acme"'
    share = {f"100 * ({promql.success_share(where)})": percent}

    status, said = promtool("test", "rules", _test_of(share, series, tmp_path))

    assert status == 0, said


def _test_of(asked: dict[str, int], series: list[dict[str, str]], folder: Path) -> Path:
    """`round`: Prometheus's `increase` guesses what happened at both ends of the range."""
    cases = [
        {
            "expr": f"round({interpolate(expression, {'__range': '10m'})})",
            "eval_time": "30m",
            "exp_samples": [{"labels": "{}", "value": value}],
        }
        for expression, value in asked.items()
    ]
    (folder / "none.yaml").write_text('{"groups": []}')
    document = {
        "rule_files": ["none.yaml"],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": cases}],
    }
    (folder / "test.yaml").write_text(json.dumps(document))
    return folder / "test.yaml"
