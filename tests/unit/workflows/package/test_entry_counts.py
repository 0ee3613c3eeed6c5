"""Numbers of entries: in every dialect, of the used files, zero for broken shapes."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.packages import ORCHESTRATOR, write_package
from workflows.package.files.package_files import PackageFile
from workflows.package.loader import inspect_package
from workflows.package.normal_form.package_model import EntryCounts
from workflows.package.readers.entry_counts import count_entries

RULE = {"source_agent": "A", "target_agent": "B"}


def counts_of(folder: Path, **files: Any) -> EntryCounts:
    return inspect_package(write_package(folder, **files)).counts


@pytest.mark.parametrize(
    "agents",
    [
        [{"name": "A"}, {"name": "B"}],
        {"agents": [{"name": "A"}, {"name": "B"}]},
        {"agents": [{"name": "A"}, {"name": "A"}]},
        {"agents": [5, None]},
        {"agents": {"A": {}, "B": None}},
        {"A": {}, "B": {}},
        {"A": {}, "B": None, "schema_version": "x"},
        {"schema_version": "x", "agents": {"A": {}, "B": {}}},
    ],
)
def test_agents(tmp_path: Path, agents: Any) -> None:
    assert counts_of(tmp_path, agents=agents).agents == 2


@pytest.mark.parametrize(
    ("tools", "counts"),
    [
        ([{"agent": "A"}, {}], (2, 0)),
        ({"tools": [{"tool_type": "UI_Tool"}, {"tool_type": "UI_Surface"}, {}]}, (3, 0)),
        ({"tools": [{}], "lifecycle_tools": [{}, {}]}, (1, 2)),
        ({"tools": {"tools": [{}], "lifecycle_tools": [{}, {}]}}, (1, 2)),
        ({"lifecycle_tools": [{}]}, (0, 1)),
        (
            {
                "backend_tools": {"A": [{}, {}], "B": [{}]},
                "ui_tools": {"A": [{}]},
                "lifecycle_tools": {"ALL_AGENTS": [{}]},
            },
            (4, 1),
        ),
        ({"tools": {"A": [{}, {}]}}, (2, 0)),
        ({"tools": None, "lifecycle_tools": "x"}, (0, 0)),
    ],
)
def test_tools_with_those_of_a_user_interface(tmp_path: Path, tools: Any, counts: tuple[int, int]) -> None:
    found = counts_of(tmp_path, tools=tools)
    assert (found.tools, found.lifecycle_tools) == counts


@pytest.mark.parametrize("stem", ["handoffs", "transition_graph"])
@pytest.mark.parametrize(
    "body",
    [
        [RULE, RULE],
        {"handoff_rules": [RULE, RULE]},
        {"handoffs": {"handoff_rules": [RULE, RULE]}},
        {"handoffs": [RULE, RULE]},
        {"transition_rules": [RULE, RULE]},
        {"transitions": [{"after_turn": "user", "terminate_if": {"variable": "v", "equals": 1}}, RULE]},
        {"transition_graph": {"transition_rules": [RULE, RULE]}, "schema_version": "x"},
    ],
)
def test_rules_of_every_root(tmp_path: Path, stem: str, body: Any) -> None:
    assert counts_of(tmp_path, **{stem: body}).handoffs == 2


@pytest.mark.parametrize(
    "body",
    [
        {"definitions": {"a": {}, "b": None}},
        {"definitions": [{"name": "a"}, {}]},
        {"context_variables": {"definitions": {"a": {}, "b": {}}, "agents": {"A": {"variables": ["a"]}}}},
        {"context_variables": {"variables": [{"name": "a"}, {"name": "b"}], "schema_overview": "x"}},
        {"variables": [{"name": "a"}, {"name": "b"}]},
        {"database_variables": [{"name": "a"}], "environment_variables": [], "derived_variables": [{"name": "b"}]},
        {"context_variables": {"a": {"type": "string"}, "b": {"type": "string"}}},
        {"a": {"type": "string"}, "agents": {"type": "array", "description": "flat", "default": []}},
        [{"name": "a"}, {"name": "b"}],
    ],
)
def test_variables_of_all_six_roots(tmp_path: Path, body: Any) -> None:
    assert counts_of(tmp_path, context_variables=body).variables == 2


@pytest.mark.parametrize(
    "body",
    [
        {"models": {"M": {"type": "model", "fields": {}}, "Alias": {"type": "literal", "values": ["x"]}}},
        {"structured_outputs": {"models": {"M": {}, "N": {"type": "union", "variants": ["str", "null"]}}}},
        {"structured_outputs": {"models": {"M": {}, "N": {}}}, "registry": {"A": "M"}},
        {"models": [{"name": "M"}, {"name": "N"}]},
    ],
)
def test_models_with_aliases(tmp_path: Path, body: Any) -> None:
    assert counts_of(tmp_path, structured_outputs=body).models == 2


@pytest.mark.parametrize(
    ("stem", "body"),
    [
        ("hooks", {"hooks": [{}, {}]}),
        ("hooks", [{}, {}]),
        ("hooks", {"hooks": {"hooks": [{}, {}]}}),
        ("middleware", {"prompt_middleware": [{}, {}]}),
        ("middleware", {"hooks": [{}], "prompt_middleware": [{}]}),
    ],
)
def test_hooks_and_prompt_middleware_together(tmp_path: Path, stem: str, body: Any) -> None:
    assert counts_of(tmp_path, **{stem: body}).hooks == 2


@pytest.mark.parametrize(
    ("body", "hooks", "moments"),
    [
        ({"hooks": [{"hook_type": "x"}, {"trigger": "on_start"}]}, 1, 1),
        ({"hook_files": [{"trigger": "on_start"}, {}]}, 0, 2),
        ({"hook_files": [{"hook_type": "x"}], "hooks": [{}]}, 2, 0),
        ({"hooks": {"hook_files": [{"filename": "a.py"}]}}, 0, 1),
        ({"prompt_middleware": [{"trigger": "x"}]}, 1, 0),
        ({"hook_files": 5}, 0, 0),
    ],
)
def test_entries_with_a_trigger_are_lifecycle_tools(tmp_path: Path, body: Any, hooks: int, moments: int) -> None:
    found = counts_of(tmp_path, hooks=body, tools={"lifecycle_tools": [{}]})

    assert (found.hooks, found.lifecycle_tools) == (hooks, moments + 1)


def test_triggers_of_their_own_file_or_of_the_orchestrator(tmp_path: Path) -> None:
    triggers = [{"type": "chat"}, {"type": "odd"}]

    assert counts_of(tmp_path / "a", triggers=triggers).triggers == 2
    assert counts_of(tmp_path / "b", triggers={"triggers": triggers}).triggers == 2
    assert counts_of(tmp_path / "c", orchestrator={**ORCHESTRATOR, "triggers": triggers}).triggers == 2


@pytest.mark.parametrize(
    ("pattern", "handoffs", "hooks"), [("DefaultPattern", 1, 1), ("ag2_network", 2, 2), ("AutoPattern", 1, 1)]
)
def test_of_a_pair_only_the_file_that_counts(tmp_path: Path, pattern: str, handoffs: int, hooks: int) -> None:
    found = counts_of(
        tmp_path,
        orchestrator={**ORCHESTRATOR, "orchestration_pattern": pattern},
        handoffs={"handoff_rules": [RULE]},
        transition_graph={"transition_rules": [RULE, RULE]},
        hooks={"hooks": [{}]},
        middleware={"prompt_middleware": [{}, {}]},
    )
    assert (found.handoffs, found.hooks) == (handoffs, hooks)


def test_all_eight_are_there_whatever_could_be_read(tmp_path: Path) -> None:
    found = counts_of(tmp_path, agents="- [", tools=None)

    assert asdict(found) == dict.fromkeys(
        ("agents", "tools", "lifecycle_tools", "handoffs", "variables", "models", "hooks", "triggers"), 0
    )


@pytest.mark.parametrize("garbage", ["null", "5", '"x"', "[[1], 2]", '{"5": {"6": 7}}', "true", '{"tools": 5}'])
def test_garbage_counts_for_something_or_nothing(garbage: str) -> None:
    stems = ("orchestrator", "agents", "tools", "handoffs", "context_variables", "structured_outputs", "hooks")
    files = {stem: PackageFile(stem, json.loads(garbage)) for stem in stems}

    assert all(number >= 0 for number in asdict(count_entries(files)).values())
