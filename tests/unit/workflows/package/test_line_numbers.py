"""Line numbers of findings: the line of the path, or of its nearest existing part."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.packages import ORCHESTRATOR, write_package
from workflows.package.files.line_numbers import locate_findings
from workflows.package.findings import Finding
from workflows.package.loader import inspect_package

TEXT = """\
# a comment
schema_version: x
agents:
  - name: A
    model: m
  - name: "B.C"
    prompt_sections:
      - {heading: h, content: 5}
definitions:
  dotted.name:
    source:
      type: x
"""


def line(folder: Path, path: str, text: str, name: str = "agents.yaml") -> int | None:
    (folder / name).write_text(text, encoding="utf-8")
    (found,) = locate_findings([Finding("error", "code", name, path, "message")], folder)
    return found.line


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("agents", 3),
        ("agents[0]", 4),
        ("agents[0].model", 5),
        ("agents[1].prompt_sections[0].content", 8),
        ("agents.A.model", 5),
        ("agents.B.C.prompt_sections", 7),
        ("definitions.dotted.name.source.type", 12),
        ("agents[0].absent", 4),
        ("agents[7].name", 3),
        ("absent", None),
        ("[0]", 4),
        ("", None),
    ],
)
def test_a_path_leads_to_its_line(tmp_path: Path, path: str, expected: int | None) -> None:
    assert line(tmp_path, path, TEXT) == expected


def test_wrapped_and_bare_files_are_entered(tmp_path: Path) -> None:
    wrapped = "handoffs:\n  handoff_rules:\n  - source_agent: A\n    condition: x\n"
    assert line(tmp_path, "handoff_rules[0].condition", wrapped, "handoffs.yaml") == 4
    assert line(tmp_path, "tools[1].file", "- file: a\n-\n  file: b\n", "tools.yaml") == 3


def test_json_has_lines_too(tmp_path: Path) -> None:
    text = json.dumps({"agents": [{"name": "A", "model": "m\t/\u20ac"}]}, indent=2).replace("/", "\\/")
    assert line(tmp_path, "agents[0].model", text, "agents.json") == 5
    assert line(tmp_path, "agents[0].model", text.replace("  ", "\t"), "agents.json") == 5


@pytest.mark.parametrize("text", ["- [", "[" * 50_000 + "]" * 50_000, "? {a: 1}\n: b", "", "\x00"])
def test_what_cannot_be_read_has_no_lines_and_does_no_harm(tmp_path: Path, text: str) -> None:
    assert line(tmp_path, "agents[0].model", text) is None


@pytest.mark.parametrize("name", ["absent.yaml", "tools/x.py", "../outside.txt", "P"])
def test_what_is_no_data_file_has_no_lines(tmp_path: Path, name: str) -> None:
    (found,) = locate_findings([Finding("error", "code", name, "agents", "message")], tmp_path)
    assert found.line is None


@pytest.mark.parametrize(
    ("files", "code", "expected"),
    [
        ({"agents": "agents:\n- name: A\n  model: x\n  model: y\n"}, "duplicate_key", ("agents[0].model", 4)),
        ({"tools": "tools: []\n\non: 1\n"}, "boolean_key", ("on", 3)),
        ({"tools": "tools: [\n"}, "unreadable", ("", None)),  # its message names line and column
    ],
)
def test_what_the_parser_sees_has_its_line_at_once(
    tmp_path: Path, files: dict[str, Any], code: str, expected: tuple[str, int]
) -> None:
    inspection = inspect_package(write_package(tmp_path, **files))

    assert [(finding.path, finding.line) for finding in inspection.findings if finding.code == code] == [expected]


def test_a_duplicate_in_json_is_found_with_its_place(tmp_path: Path) -> None:
    folder = write_package(tmp_path, orchestrator=None)
    text = json.dumps(ORCHESTRATOR, indent=1).replace("{", '{\n "limits": {"usd": 1, "usd": 2},')
    (folder / "orchestrator.json").write_text(text)

    found = [finding for finding in inspect_package(folder).findings if finding.code == "duplicate_key"]

    assert [(finding.level, finding.file, finding.path, finding.line) for finding in found] == [
        ("warning", "orchestrator.json", "limits.usd", 2)
    ]


def test_all_findings_of_a_package_can_be_located(tmp_path: Path) -> None:
    folder = write_package(
        tmp_path,
        context_variables={"definitions": {"v": {"type": "odd"}, "w": {"source": {"type": "odd"}}}},
        handoffs={"handoff_rules": [{"source_agent": "A", "target_agent": "C"}]},
    )
    found = locate_findings(inspect_package(folder).findings, folder)

    assert {finding.path: finding.line for finding in found if finding.level == "error"} == {
        "definitions.v.type": 3,
        "definitions.w.source.type": 6,
        "handoff_rules[0].target_agent": 3,
    }
