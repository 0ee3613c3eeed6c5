"""The page for package authors: each field of each schema is on it, with an example that means what it says."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.docs.test_docs import ROOT, blocks
from tests.unit.workflows.packages import AGENTS, ORCHESTRATOR, errors, load, write_tool
from workers.store import storable
from workflows.chat.chat_state import ChatTimeouts
from workflows.chat.hooks import hook_results
from workflows.chat.limits import repetitions
from workflows.chat.routing.speaker_manager import MAX_SHOWN_CONVERSATION
from workflows.chat.tools.tool_functions import MAX_RESULT_CHARACTERS
from workflows.context.expressions import routing_conditions
from workflows.context.expressions.text_patterns import MAX_MATCHED_LENGTH, MAX_PATTERN_LENGTH
from workflows.context.external.external_reader import MAX_ATTEMPTS, MAX_CALL_S
from workflows.context.observers.registry import trigger_types
from workflows.context.reads.source_reads import ALL_READS_TIMEOUT_S, READ_TIMEOUT_S
from workflows.context.values import storable_values
from workflows.context.values.size_limits import MAX_CONTEXT_BYTES, MAX_VALUE_BYTES
from workflows.context.values.value_text import MAX_RENDERED_CHARACTERS
from workflows.package import jmespath_problems
from workflows.package.files.data_files import MAX_FILE_BYTES
from workflows.package.files.package_tree import MAX_FILES, MAX_TREE_BYTES
from workflows.package.files.yaml_reader import MAX_CHARACTERS
from workflows.package.loader import load_package
from workflows.package.normal_form.package_model import Limits, Package
from workflows.package.readers.code.parsed_code import MAX_CODE_BYTES
from workflows.package.readers.variables.sources_reader import SOURCE_READERS
from workflows.package.schemas.package_schemas import build_schema

PATH = ROOT / "docs" / "package-format.md"
PAGE = PATH.read_text(encoding="utf-8")
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


def documented_names(text: str) -> set[str]:
    """The fields of the tables, and the other names that their meaning mentions."""
    return {word for names, _, meaning in rows(text) for word in (*names, *re.findall(r"`(\w+)`", meaning))}


def definition(file: str, name: str) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = build_schema(file)["definitions"][name]["properties"]
    return properties


FILES: list[tuple[str, Mapping[str, Any]]] = [
    ("## orchestrator", build_schema("orchestrator")["properties"]),
    ("## agents", definition("agents", "agent")),
    ("## context_variables", definition("context_variables", "definition")),
    ("### Sources", definition("context_variables", "source")),
    ("## handoffs, or transition_graph", definition("handoffs", "rule")),
    ("## tools", definition("tools", "tool")),
    ("## hooks, or middleware", {**definition("hooks", "hook"), **definition("hooks", "lifecycle")}),
    ("## structured_outputs", definition("structured_outputs", "field")),
]


@pytest.mark.parametrize(("title", "fields"), FILES, ids=[title.strip("# ") for title, _ in FILES])
def test_every_field_is_on_the_page(title: str, fields: Mapping[str, Any]) -> None:
    # The earliest form of a variable has the place of its document beside its name; the page names it there.
    on_the_page = documented_names(section(title)) | (
        {"value", "default_value", "database"} if "context" in title else set()
    )

    assert set(fields) - on_the_page == set()


@pytest.mark.parametrize(("title", "fields"), FILES, ids=[title.strip("# ") for title, _ in FILES])
def test_every_example_names_the_field_it_stands_for(title: str, fields: Mapping[str, Any]) -> None:
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
    assert {name for names, _ in EXAMPLES for name in names} == set(SOURCE_READERS)


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
            "no_prompt",
            "no_way_on",
            "unreachable_agent",
            "missing_file",
            "wrong_default",
            "wrong_type_of_value",
        }


def other_names(text: str) -> Iterator[tuple[str, str]]:
    for names, _, meaning in rows(text):
        for said in re.findall(r"\balso ((?:`\w+`(?:, )?)+)", meaning):
            yield from ((names[0], other) for other in re.findall(r"`(\w+)`", said))


def example_package(folder: Path, **changed: str) -> Package:
    """The one that the page's blocks form, some of its files with another text."""
    for block in (each for each in blocks(PATH) if each.file):
        file = folder / str(block.file)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(changed.get(file.stem, block.text), encoding="utf-8")
    return load_package(folder)


def text_of(stem: str) -> str:
    return next(block.text for block in blocks(PATH) if block.file == f"{stem}.yaml")


FILE_OF = {"### Sources": "context_variables", "## handoffs, or transition_graph": "handoffs", "## tools": "tools"}
OTHER_NAMES = [
    (stem, name, other)
    for title, stem in FILE_OF.items()
    for name, other in other_names(section(title))
    if re.search(rf"\b{name}:", text_of(stem))
]


@pytest.mark.parametrize(("stem", "name", "other"), OTHER_NAMES)
def test_every_other_name_of_a_field_is_read_as_the_field(tmp_path: Path, stem: str, name: str, other: str) -> None:
    plain = example_package(tmp_path / "plain" / "Refunds")
    package = example_package(
        tmp_path / "other" / "Refunds", **{stem: re.sub(rf"\b{name}:", f"{other}:", text_of(stem))}
    )

    assert package.findings == ()
    assert (package.variables, package.rules) == (plain.variables, plain.rules)
    assert [(each.agents, each.function) for each in package.tools] == [
        (each.agents, each.function) for each in plain.tools
    ]


def test_enough_other_names_are_tried() -> None:
    assert len(OTHER_NAMES) >= 10


def test_the_bounds_and_defaults_are_those_of_the_code() -> None:
    limits, kilobyte, megabyte = Limits(), 1024, 1024 * 1024

    for said in (
        f"A file has at most {MAX_FILE_BYTES // megabyte} MB, and {MAX_CHARACTERS // megabyte} MB once",
        f"Python files {MAX_CODE_BYTES // megabyte} MB",
        f"a package {MAX_FILES:,} files and {MAX_TREE_BYTES // megabyte} MB",
        f"A value that is read has at most {MAX_VALUE_BYTES // kilobyte} KB",
        f"a context {MAX_CONTEXT_BYTES // megabyte} MB when a run begins",
        f"and {storable.MAX_CONTEXT_BYTES // megabyte} MB later",
        f"a prompt shows {MAX_RENDERED_CHARACTERS:,} characters",
        f"A condition or an expression has at most {routing_conditions.MAX_LENGTH:,} characters",
        f"An expression of a trigger has at most {jmespath_problems.MAX_DEPTH} levels",
        f"a pattern {MAX_PATTERN_LENGTH:,}; it sees {MAX_MATCHED_LENGTH:,} characters",
        f"of more than {storable_values.MAX_BYTES // megabyte} MB the first "
        f"{storable_values.MAX_TEXT_CHARACTERS:,} characters",
        f"| `max_turns` | {limits.max_turns} |",
        f"| `wall_clock_s` | {limits.wall_clock_s:g} |",
        f"| `model_calls` | {limits.model_calls} |",
        f"| `tool_calls` | {limits.tool_calls} |",
        f"for the {repetitions.MAX_SAME_ROUNDS}th time in a row, or 2 to {max(repetitions.CYCLE_LENGTHS)} such answers",
        f"take turns for the {repetitions.MAX_ROUND_CYCLES}th time",
        f"{repetitions.MAX_SAME_TURNS} times in a row, or 2 to {max(repetitions.CYCLE_LENGTHS)} turns",
        f"in the same order {repetitions.MAX_TURN_CYCLES} times over",
        f"{READ_TIMEOUT_S:g} s each, {ALL_READS_TIMEOUT_S:g} s together",
        f"no call takes longer than {MAX_CALL_S:g} s",
        f"attempts, 1 to {MAX_ATTEMPTS}",
        f"at most {MAX_RESULT_CHARACTERS:,} characters",
        f"A call has {ChatTimeouts().step_s:g} s. Everything after the end has {ChatTimeouts().closing_s:g} s in all",
        f"says nothing. At most {hook_results.MAX_SENT_CHARACTERS:,} characters",
        f"the newest {MAX_SHOWN_CONVERSATION:,} characters of the conversation",
    ):
        assert said in PAGE
    assert routing_conditions.MAX_LENGTH == jmespath_problems.MAX_CHARACTERS


TRIGGERS = [(names[0], example) for names, example, _ in rows(section("### What changes a state"))]


@pytest.mark.design("D2-16")
def test_every_trigger_of_a_state_has_an_example() -> None:
    assert {name for name, _ in TRIGGERS} == set(trigger_types())


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
