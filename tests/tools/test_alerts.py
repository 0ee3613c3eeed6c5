"""The shipped alert rules: valid, firing when they should and not before, with advice.

The files in `alert_rules` are input of `promtool test rules`; the description and the runbook page that every alert has
are added here.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import require_program
from tests.promtool import promtool
from tests.unit.docs.test_docs import read, slug

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "ops" / "alerts").glob("*.yaml"))
TESTS = Path(__file__).parent / "alert_rules"
RUNBOOK = ROOT / "ops" / "runbook.md"
RUNBOOK_URL = "http://127.0.0.1:8400/console/runbook#"

Document = dict[str, Any]


def alerts(path: Path) -> Iterator[Document]:
    for group in yaml.safe_load(read(path))["groups"]:
        yield from (rule for rule in group["rules"] if "alert" in rule)


def cases(path: Path) -> Document:
    """Load a test of rules, and add the description and runbook page of every expected alert."""
    output = {(each["alert"], each["labels"]["severity"]): each["annotations"] for each in alerts(path)}
    written: Document = yaml.safe_load(read(TESTS / path.name))
    for case in (case for test in written["tests"] for case in test["alert_rule_test"]):
        case["exp_alerts"] = [
            fill_expected(each, output[case["alertname"], each["exp_labels"]["severity"]])
            for each in case["exp_alerts"]
        ]
    return {"rule_files": [str(path)], "evaluation_interval": "1m", **written}


def fill_expected(expected: Document, always: Document) -> Document:
    labels = expected["exp_labels"]
    return {"exp_labels": labels, "exp_annotations": {**always, "summary": expected["summary"]}}


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_prometheus_takes_the_rules(path: Path) -> None:
    status, output = promtool("check", "rules", path)

    assert status == 0, output


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_alerts_fire_when_they_should_and_not_before(path: Path, tmp_path: Path) -> None:
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(cases(path)))

    status, output = promtool("test", "rules", tmp_path / "tests.yaml")

    assert status == 0, output


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_of_every_alert_it_is_tried_that_it_fires_and_that_it_does_not(path: Path) -> None:
    fires, silent = set(), set()
    for case in (case for test in cases(path)["tests"] for case in test["alert_rule_test"]):
        name = case["alertname"]
        fires |= {(name, each["exp_labels"]["severity"]) for each in case["exp_alerts"]}
        silent |= set() if case["exp_alerts"] else {name}

    assert fires == {(each["alert"], each["labels"]["severity"]) for each in alerts(path)}
    assert silent == {each["alert"] for each in alerts(path)}


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_every_alert_leads_to_a_section_of_the_runbook(path: Path) -> None:
    sections = {slug(each) for each in re.findall(r"^#+ (.+)$", read(RUNBOOK), re.MULTILINE)}

    for alert in alerts(path):
        url = alert["annotations"]["runbook_url"]
        assert url.startswith(RUNBOOK_URL), alert["alert"]
        assert url.removeprefix(RUNBOOK_URL) in sections, url
        assert alert["alert"].startswith("Unattended")
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert {"summary", "description", "runbook_url"} == set(alert["annotations"])


def test_the_runbook_begins_with_a_table_of_all_alerts() -> None:
    table = re.findall(r"^\| `(Unattended\w+)` \| (\w+) \| (?:.* )?\[.*\]\(#(\S+)\) \|$", read(RUNBOOK), re.MULTILINE)

    by_name: dict[str, tuple[set[str], str]] = {}
    for alert in (alert for path in RULES for alert in alerts(path)):
        severities, anchor = by_name.get(alert["alert"], (set(), alert["annotations"]["runbook_url"]))
        by_name[alert["alert"]] = severities | {alert["labels"]["severity"]}, anchor
    assert {name: anchor for name, _, anchor in table} == {
        name: anchor.removeprefix(RUNBOOK_URL) for name, (_, anchor) in by_name.items()
    }
    assert {name: severity for name, severity, _ in table} == {
        name: min(severities) for name, (severities, _) in by_name.items()
    }


def test_alertmanager_takes_our_example() -> None:
    amtool = require_program("amtool", package="prometheus-alertmanager")
    config = ROOT / "ops" / "alertmanager" / "alertmanager.yml"

    done = subprocess.run([amtool, "check-config", str(config)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_alertmanager_names_alerts_that_exist() -> None:
    config = read(ROOT / "ops" / "alertmanager" / "alertmanager.yml")

    named = {name for each in re.findall(r'alertname ?=~? ?"([^"]+)"', config) for name in each.split("|")}

    assert named
    assert named <= {alert["alert"] for path in RULES for alert in alerts(path)}


def test_a_role_that_is_down_is_alerted_before_its_effects() -> None:
    """An inhibited alert must fire later than the one that inhibits it, or an operator is paged twice."""
    lasting = {alert["alert"]: int(alert.get("for", "0m")[:-1]) for path in RULES for alert in alerts(path)}
    silenced = {"UnattendedNoWorker", "UnattendedNobodyReconciles", "UnattendedExporterStale"}

    assert silenced <= set(re.findall(r"Unattended\w+", read(ROOT / "ops" / "alertmanager" / "alertmanager.yml")))
    assert min(lasting[each] for each in silenced) > lasting["UnattendedRoleDown"]
