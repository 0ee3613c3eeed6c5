"""The shipped alert rules: Prometheus takes them, each fires when it should and not before, and says what to do."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.promtool import promtool

ROOT = Path(__file__).parents[3]
RULES = sorted((ROOT / "ops" / "alerts").glob("*.yaml"))
TESTS = Path(__file__).parent / "alert_rules"


def alerts(path: Path) -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
        yield from group["rules"]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_prometheus_takes_the_rules(path: Path) -> None:
    status, said = promtool("check", "rules", path)

    assert status == 0, said


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_alerts_fire_when_they_should_and_not_before(path: Path) -> None:
    status, said = promtool("test", "rules", TESTS / path.name)

    assert status == 0, said


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_every_alert_is_tested_and_leads_to_the_runbook(path: Path) -> None:
    cases = yaml.safe_load((TESTS / path.name).read_text(encoding="utf-8"))["tests"]
    expected = [each for case in cases for each in case["alert_rule_test"]]
    fired = {each["alertname"] for each in expected if each["exp_alerts"]}

    assert fired == {each["alert"] for each in alerts(path)}
    for alert in alerts(path):
        page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
        assert anchor in anchors(ROOT / page), alert["alert"]
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert {"summary", "description", "runbook_url"} == set(alert["annotations"])
