"""The shipped dashboards: generated from their source, complete, with existing metrics and valid links."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops.dashboards.__main__ import find_stale_files, main
from ops.dashboards.dashboard_frame import TITLES
from ops.dashboards.panels import OUTCOMES
from tests.dashboards.panel_queries import FOLDER, Document, dashboards, panels
from workflows.outcome import OutcomeKind

ROOT = Path(__file__).parents[3]
DASHBOARDS = dashboards()
RULES = sorted((ROOT / "ops" / "alerts").glob("*.yaml"))
# Metrics of Prometheus and of client libraries.
NOT_OURS = {"up", "ALERTS", "process_resident_memory_bytes", "process_cpu_seconds_total"}

every = pytest.mark.parametrize("name", DASHBOARDS)


def rules(path: Path) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return groups


def targets(dashboard: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((panel["title"], target) for panel in panels(dashboard) for target in panel["targets"])


def test_the_files_are_what_their_source_generates(tmp_path: Path) -> None:
    assert find_stale_files() == [], "run make dashboards"
    assert main(["--check"]) is None

    for path in FOLDER.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    edited = tmp_path / "fleet.json"
    edited.write_text(edited.read_text().replace("Oldest", "Eldest"))
    (tmp_path / "forgotten.json").write_text("{}")

    assert main(["--check"], folder=tmp_path) == "out of date: fleet.json, forgotten.json; run make dashboards"
    assert main([], folder=tmp_path) is None
    assert main(["--check"], folder=tmp_path) is None
    assert main(["--chekc"], folder=tmp_path) == "usage: python -m ops.dashboards [--check]"


@every
def test_every_panel_has_a_description_and_a_unit(name: str) -> None:
    for panel in panels(DASHBOARDS[name]):
        defaults = panel["fieldConfig"]["defaults"]
        assert len(panel["description"]) > 40, panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert defaults["unit"], panel["title"]
        assert defaults["thresholds"]["steps"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert panel["type"] == "table" or target["legendFormat"], panel["title"]
            assert target.get("instant") == (panel["type"] != "timeseries"), panel["title"]


@every
def test_nothing_is_named_or_placed_twice(name: str) -> None:
    shown = DASHBOARDS[name]["panels"]

    ids = [panel["id"] for panel in shown]
    titles = [panel["title"] for panel in shown]
    assert len(set(ids)) == len(ids)
    assert len(set(titles)) == len(titles)
    for panel in panels(DASHBOARDS[name]):
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs), panel["title"]
    for one, other in itertools.combinations([panel["gridPos"] for panel in shown], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in shown)


def test_uids_and_panel_numbers_are_the_same_for_ever() -> None:
    """Links and bookmarks contain panel ids: a removed id is not reused, and a new panel gets a new id."""
    uids = {name: each["uid"] for name, each in DASHBOARDS.items()}

    assert uids == {name: f"unattended-{name}" for name in ("fleet", "triggers", "usage", "workflow")}
    assert set(uids.values()) == set(TITLES)
    for first, name in ((100, "fleet"), (200, "usage"), (300, "triggers"), (400, "workflow")):
        assert all(first < panel["id"] < first + 100 for panel in panels(DASHBOARDS[name]))


@pytest.mark.design("U-8")
@every
def test_only_metrics_that_exist_are_asked_for(name: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    known = NOT_OURS | {metric for metric, _ in rows}
    known |= {each["record"] for path in RULES for group in rules(path) for each in group["rules"] if "record" in each}
    known |= {f"{metric}_{part}" for metric, kind in rows if kind == "histogram" for part in ("bucket", "count", "sum")}

    for title, target in targets(DASHBOARDS[name]):
        asked = set(re.findall(r"\b(?:unattended[_:]|process_)[\w:]+|\bup\b|\bALERTS\b", target["expr"]))
        assert asked - known == set(), title


@every
def test_numbers_of_the_store_are_never_summed_over_exporters(name: str) -> None:
    """Two exporters serve the same runs, so their sum would be twice the number."""
    rows = re.findall(
        r"^\| `(\w+)` \| \w+ \|.*\| exporter \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE
    )

    for title, target in targets(DASHBOARDS[name]):
        for metric in rows:
            for match in re.finditer(rf"\b{metric}\b", target["expr"]):
                before = target["expr"][: match.start()]
                assert re.search(r"max(?: by \([\w, ]+\))? \((?:[\w ]+\()*$|max\($|/ \($", before), (title, before)


@every
def test_links_lead_to_dashboards_and_sections_that_exist(name: str) -> None:
    dashboard = DASHBOARDS[name]
    headings = re.findall(r"^#+ (.+)$", (ROOT / "ops" / "runbook.md").read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
    of_panels = [link["url"] for panel in panels(dashboard) for link in panel.get("links", [])]
    others = {each["url"]: each for each in dashboard["links"] if each["url"].startswith("/d/")}

    assert others.keys() == {f"/d/{uid}" for uid in TITLES if uid != dashboard["uid"]}
    assert all(each["includeVars"] and each["keepTime"] for each in others.values())
    for url in of_panels:
        page, _, anchor = url.partition("#")
        assert page == "${gateway:raw}/console/runbook"
        assert anchor in anchors, url


def test_every_outcome_has_its_colour() -> None:
    assert OUTCOMES.keys() == set(OutcomeKind)
