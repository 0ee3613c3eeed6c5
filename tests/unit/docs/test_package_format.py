"""The page for package authors: each field of each schema is on it, with an example that means what it says."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.workflows.packages import AGENTS, ORCHESTRATOR, errors, load, write_tool
from workflows.context.observers.registry import NEVER_FIRES, trigger_types
from workflows.package.reading.sources import SOURCES
from workflows.package.schemas.all import schema_of

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "package-format.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (`.+?`(?:, `.+?`)*) \| `(.+?)` \| (.*) \|$", re.MULTILINE)
TOOLS = [{"agent": "A", "file": "t.py", "function": name} for name in ("approve", "pay")]


def section(title: str) -> str:
    """From this heading to the next one of its level or above."""
    level = re.escape(title.split(" ", 1)[0])
    found = re.search(rf"^{re.escape(title)}$(.*?)(?=^#{{1,{len(level) // 2}}} |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def rows(text: str) -> Iterator[tuple[list[str], str, str]]:
    for names, example, meaning in ROW.findall(text):
        yield re.findall(r"`(.+?)`", names), example, meaning


def documented(text: str) -> set[str]:
    """The fields of the tables, and the other names that their meaning mentions."""
    return {word for names, _, meaning in rows(text) for word in (*names, *re.findall(r"`(\w+)`", meaning))}


def definition(file: str, name: str) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = schema_of(file)["definitions"][name]["properties"]
    return properties


FILES: list[tuple[str, Mapping[str, Any]]] = [
    ("## orchestrator", schema_of("orchestrator")["properties"]),
    ("## agents", definition("agents", "agent")),
    ("## context_variables", definition("context_variables", "definition")),
    ("### Sources", definition("context_variables", "source")),
    ("## handoffs, or transition_graph", definition("handoffs", "rule")),
    ("## tools", definition("tools", "tool")),
    ("## hooks, or middleware", definition("hooks", "entry")),
    ("## structured_outputs", definition("structured_outputs", "field")),
]


@pytest.mark.parametrize(("title", "fields"), FILES, ids=[title.strip("# ") for title, _ in FILES])
def test_every_field_is_on_the_page(title: str, fields: Mapping[str, Any]) -> None:
    # The earliest form of a variable has the place of its document beside its name; the page names it there.
    on_the_page = documented(section(title)) | ({"value", "default_value", "database"} if "context" in title else set())

    assert set(fields) - on_the_page == set()


@pytest.mark.parametrize(("title", "fields"), FILES, ids=[title.strip("# ") for title, _ in FILES])
def test_every_example_says_the_field_it_stands_for(title: str, fields: Mapping[str, Any]) -> None:
    tables = re.split(
        r"^\| (?=\w)",
        section(title).split("\n### ")[0] if title.startswith("## ") else section(title),
        flags=re.MULTILINE,
    )
    for table in (each for each in tables if each.startswith("field ")):
        for names, example, _ in rows(table):
            assert names[0] in yaml.safe_load(example), example
            assert names[0] in fields, names


EXAMPLES = [(names, example) for names, example, _ in rows(section("### Sources")) if example.startswith("source: ")]


def test_every_type_of_source_has_an_example() -> None:
    assert {name for names, _ in EXAMPLES for name in names} == set(SOURCES)


@pytest.mark.parametrize(("names", "example"), EXAMPLES, ids=[names[0] for names, _ in EXAMPLES])
def test_every_example_of_a_source_is_read(tmp_path: Path, names: list[str], example: str) -> None:
    written = yaml.safe_load(example)
    agents = {"agents": [{"name": "A"}, {"name": "Clerk"}]}
    for name in names:
        definitions = {
            "v": {"type": "object", "source": {**written["source"], "type": name}},
            "items": {"type": "array", "source": {"type": "state"}},
        }
        package = load(tmp_path / name, agents=agents, context_variables={"definitions": definitions})
        assert errors(package) == []
        assert {each.code for each in package.findings} <= {
            "no_way_on",
            "unreachable_agent",
            "missing_file",
            "wrong_default",
            "wrong_type_of_value",
        }


TRIGGERS = [(names[0], example) for names, example, _ in rows(section("### What changes a state"))]


def test_every_trigger_of_a_state_has_an_example() -> None:
    assert {name for name, _ in TRIGGERS} == set(trigger_types())
    assert all(f"`{name}`" in section("### What changes a state") for name in NEVER_FIRES)


@pytest.mark.parametrize(("name", "example"), TRIGGERS)
def test_every_example_of_a_trigger_is_read(tmp_path: Path, name: str, example: str) -> None:
    trigger = yaml.safe_load(example)
    write_tool(tmp_path, "t.py", "def approve() -> dict: ...\n\n\ndef pay() -> dict: ...\n")
    package = load(
        tmp_path,
        orchestrator=ORCHESTRATOR,
        agents={"agents": [*AGENTS["agents"], {"name": "Clerk"}]},
        tools={"tools": TOOLS},
        context_variables={"definitions": {"v": {"source": {"type": "state", "triggers": [trigger]}}}},
    )

    assert trigger["type"] == name
    assert errors(package) == []
