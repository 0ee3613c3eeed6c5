"""Findings: every fault of an author, with level, code, file and place."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.quick_yaml import dumped
from tests.unit.workflows.packages import (
    ORCHESTRATOR,
    TOOL,
    errors,
    faults,
    finding_keys,
    load,
    rule,
    write_package,
    write_tool,
)
from workflows.package.catalog import LIBRARY
from workflows.package.findings import PackageError
from workflows.package.loader import load_package

DB = {
    "type": "database",
    "database_name": "d",
    "collection": "c",
    "query_template": {"app_id": "{{app_id}}"},
    "fields": ["f"],
}


def variable(**source: Any) -> dict[str, Any]:
    return {"context_variables": {"definitions": {"v": {"source": source}}}}


def handoff(**fields: Any) -> dict[str, Any]:
    return {"handoffs": {"handoff_rules": [{"source_agent": "A", "target_agent": "B", **fields}]}}


def tool(**fields: Any) -> dict[str, Any]:
    return {"tools": [{"agent": "A", "file": "greet.py", "function": "greet", **fields}]}


def orchestrator(**fields: Any) -> dict[str, Any]:
    return {"orchestrator": {**ORCHESTRATOR, **fields}}


def agent(**fields: Any) -> dict[str, Any]:
    return {"agents": [{"name": "A", **fields}, {"name": "B"}]}


def make_derived(**fields: Any) -> dict[str, Any]:
    return variable(type="derived", triggers=[{"type": "agent_text", "agent": "A", "match": {"equals": "x"}, **fields}])


ORCH, G, V, H, T = "orchestrator.yaml", "agents.yaml", "context_variables.yaml", "handoffs.yaml", "tools.yaml"
SOURCE = "definitions.v.source"

# One fault a line, however long.
# ruff: noqa: E501
FAULTS: list[tuple[dict[str, Any], tuple[str, str, str, str]]] = [
    # orchestrator
    ({"orchestrator": {"initial_agent": "A"}}, ("warning", "no_workflow_name", ORCH, "workflow_name")),
    ({"orchestrator": {"workflow_name": "S"}}, ("error", "missing_field", ORCH, "initial_agent")),
    ({"orchestrator": "[1]"}, ("error", "wrong_type", ORCH, "")),
    (orchestrator(workflow_name="a/b"), ("error", "wrong_value", ORCH, "workflow_name")),
    (orchestrator(workflow_name=7), ("error", "wrong_type", ORCH, "workflow_name")),
    (orchestrator(initial_agent="C"), ("error", "unknown_agent", ORCH, "initial_agent")),
    (orchestrator(orchestration_pattern="Magic"), ("error", "unknown_pattern", ORCH, "orchestration_pattern")),
    (orchestrator(max_turns=0), ("error", "wrong_value", ORCH, "max_turns")),
    (orchestrator(max_turns=True), ("error", "wrong_value", ORCH, "max_turns")),
    (orchestrator(max_turns="8"), ("error", "wrong_type", ORCH, "max_turns")),
    (orchestrator(limits={"wall_clock_s": 0}), ("error", "wrong_value", ORCH, "limits.wall_clock_s")),
    (orchestrator(limits={"wall_clock_s": float("nan")}), ("error", "wrong_value", ORCH, "limits.wall_clock_s")),
    (orchestrator(limits={"wall_clock_s": float("inf")}), ("error", "wrong_value", ORCH, "limits.wall_clock_s")),
    (orchestrator(limits={"tokens": 0}), ("error", "wrong_value", ORCH, "limits.tokens")),
    (orchestrator(limits=5), ("error", "wrong_type", ORCH, "limits")),
    (orchestrator(human_in_the_loop="maybe"), ("error", "wrong_value", ORCH, "human_in_the_loop")),
    (orchestrator(inputs={"a": "string"}), ("error", "wrong_type", ORCH, "inputs.a")),
    (orchestrator(initial_message_to_user="hi"), ("warning", "not_executed", ORCH, "initial_message_to_user")),
    (orchestrator(runtime_extensions=[{"kind": "x"}]), ("warning", "ignored_in_worker", ORCH, "runtime_extensions")),
    (orchestrator(max_turn=8), ("warning", "not_executed", ORCH, "max_turn")),
    # agents
    ({"agents": "{}"}, ("error", "no_agents", G, "agents")),
    ({"agents": {"agents": "A"}}, ("error", "wrong_type", G, "agents")),
    ({"agents": ["A"]}, ("error", "wrong_type", G, "agents[0]")),
    ({"agents": [{"name": "A"}, {"system_message": "x"}]}, ("error", "missing_field", G, "agents[1].name")),
    ({"agents": [{"name": "A"}, {"name": "A"}]}, ("error", "duplicate_agent", G, "agents[1].name")),
    (agent(auto_tool_mode=True), ("error", "missing_model", G, "agents[0].auto_tool_mode")),
    (agent(human_input_mode="ALWAYS"), ("warning", "not_executed", G, "agents[0].human_input_mode")),
    (agent(web_search=True), ("warning", "capability_unsupported", G, "agents[0].web_search")),
    (agent(prompt_sections=5), ("error", "wrong_type", G, "agents[0].prompt_sections")),
    # context variables
    ({"context_variables": {"variables": 5}}, ("error", "wrong_type", V, "variables")),
    ({"context_variables": {"definitions": 5}}, ("error", "wrong_type", V, "definitions")),
    ({"context_variables": {"definitions": [{"type": "string"}]}}, ("error", "missing_field", V, "definitions[0].name")),
    ({"context_variables": {"definitions": {"a.b": {}}}}, ("error", "wrong_value", V, "definitions.a.b.name")),
    (
        {"context_variables": {"definitions": [{"name": "v"}, {"name": "v"}]}},
        ("error", "duplicate_variable", V, "definitions[1]"),
    ),
    ({"context_variables": {"definitions": {"v": {"type": "dat"}}}}, ("error", "wrong_value", V, "definitions.v.type")),
    ({"context_variables": {"definitions": {"v": {"default": 1, "persist_key": "user_id"}}}}, ("warning", "not_executed", V, "definitions.v.persist_key")),
    (variable(type="oracle"), ("error", "unknown_source", V, f"{SOURCE}.type")),
    (variable(default=1), ("error", "missing_field", V, f"{SOURCE}.type")),
    (variable(type="environment"), ("error", "missing_field", V, f"{SOURCE}.env_var")),
    (variable(type="state", persist_key="user_id"), ("warning", "not_executed", V, f"{SOURCE}.persist_key")),
    (variable(**{**DB, "collection": None}), ("error", "missing_field", V, f"{SOURCE}.collection")),
    (variable(**{**DB, "query_template": {}}), ("error", "missing_field", V, f"{SOURCE}.query_template")),
    (variable(**{**DB, "fields": []}), ("error", "missing_field", V, f"{SOURCE}.fields")),
    (variable(**{**DB, "fields": ["a.b"]}), ("error", "wrong_value", V, f"{SOURCE}.fields")),
    (variable(**{**DB, "query_template": {"x": 1}}), ("warning", "no_tenant_key", V, "definitions.v")),
    (make_derived(type="user_text"), ("warning", "never_fires", V, f"{SOURCE}.triggers[0].type")),
    (make_derived(agent=None), ("error", "missing_field", V, f"{SOURCE}.triggers[0].agent")),
    (make_derived(match={}), ("error", "wrong_value", V, f"{SOURCE}.triggers[0].match")),
    (make_derived(match={"equals": "a", "contains": "b"}), ("error", "wrong_value", V, f"{SOURCE}.triggers[0].match")),
    (make_derived(match={"regex": "("}), ("error", "wrong_value", V, f"{SOURCE}.triggers[0].match.regex")),
    (make_derived(match={"regex": "a{99999999999}"}), ("error", "wrong_value", V, f"{SOURCE}.triggers[0].match.regex")),
    (variable(type="state", transitions=[{"from": "a", "to": "b", "trigger": {"type": "agent_text", "agent": "A", "match": {"equals": "x"}}}]), ("warning", "orphan_state", V, "definitions.v.source.transitions[0]")),
    ({"context_variables": {"definitions": {}, "agents": 5}}, ("error", "wrong_type", V, "agents")),
    ({"context_variables": {"definitions": {}, "agents": {"A": "v"}}}, ("error", "wrong_type", V, "agents.A")),
    ({"context_variables": {"definitions": {}, "agents": {"A": ["no"]}}}, ("warning", "undefined_variable", V, "agents.A")),
    ({"context_variables": {"definitions": {}, "agents": {"C": []}}}, ("warning", "unknown_agent", V, "agents.C")),
    # routing
    ({"handoffs": {"handoff_rules": 5}}, ("error", "wrong_type", H, "handoff_rules")),
    (handoff(source_agent=None), ("error", "missing_field", H, "handoff_rules[0].source_agent")),
    (handoff(source_agent="C"), ("error", "unknown_agent", H, "handoff_rules[0].source_agent")),
    (handoff(target_agent="C"), ("error", "unknown_agent", H, "handoff_rules[0].target_agent")),
    (handoff(transition_target="TerminateTarget"), ("error", "wrong_value", H, "handoff_rules[0].transition_target")),
    (handoff(handoff_type="condition"), ("error", "missing_field", H, "handoff_rules[0].condition")),
    ({"orchestrator": {**ORCHESTRATOR, "orchestration_pattern": "ag2_network"}, **handoff(condition_type="string_llm", condition="${v}")}, ("warning", "judged_by_model", H, "handoff_rules[0].condition")),
    (handoff(source_agent="user", condition_type="string_llm", condition="they agree"), ("warning", "judged_for_user", H, "handoff_rules[0]")),
    (handoff(condition_type="tool_called", condition="${v}"), ("error", "wrong_value", H, "handoff_rules[0].condition_type")),
    (handoff(condition="${v"), ("error", "bad_condition", H, "handoff_rules[0].condition")),
    (handoff(condition_type="expression", condition="${v}.x"), ("error", "bad_condition", H, "handoff_rules[0].condition")),
    (handoff(condition_type="context_equals"), ("error", "missing_field", H, "handoff_rules[0].condition_key")),
    (handoff(condition_key="v", condition_value={"a": 1}), ("error", "wrong_value", H, "handoff_rules[0].condition_value")),
    (handoff(handoff_type="sometimes"), ("error", "wrong_value", H, "handoff_rules[0].handoff_type")),
    (handoff(handoff_type="after_work", condition="${v}"), ("warning", "not_executed", H, "handoff_rules[0].condition")),
    (handoff(conditions=["${v"]), ("error", "bad_condition", H, "handoff_rules[0].conditions[0]")),
    (handoff(condition_scope="sideways"), ("error", "wrong_value", H, "handoff_rules[0].condition_scope")),
    (handoff(condition="${no}"), ("warning", "waits_for_ever", H, "handoff_rules[0]")),
    (handoff(condition="not ${no}"), ("warning", "undefined_variable", H, "handoff_rules[0]")),
    (handoff(trigger="NEXT"), ("warning", "not_executed", H, "handoff_rules[0].trigger")),
    (handoff(condition="${v}") | variable(**DB), ("warning", "routing_on_data", H, "handoff_rules[0]")),
    (handoff(condition="${v}") | variable(type="static", value=1), ("warning", "routing_on_data", H, "handoff_rules[0]")),
    (handoff(condition="${v}") | variable(type="config", env_var="X"), ("warning", "vanishes_in_production", H, "handoff_rules[0]")),
    ({"handoffs": {"handoff_rules": [rule("A", "B"), rule("A", "terminate")]}}, ("warning", "shadowed_rule", H, "handoff_rules[0]")),
    # tools
    (tool(agent=None), ("error", "missing_field", T, "tools[0].agent")),
    (tool(agent="C"), ("error", "unknown_agent", T, "tools[0].agent")),
    (tool(file=None), ("error", "missing_field", T, "tools[0].file")),
    (tool(file="no.py"), ("error", "missing_tool_file", T, "tools[0].file")),
    (tool(file="../outside.py"), ("error", "leaves_package", T, "tools[0].file")),
    (tool(file="../_shared/../outside.py"), ("error", "leaves_package", T, "tools[0].file")),
    (tool(file="/etc/passwd"), ("error", "leaves_package", T, "tools[0].file")),
    (tool(file="link.py"), ("error", "leaves_package", T, "tools[0].file")),
    (tool(file="broken.py"), ("error", "broken_tool_file", T, "tools[0].file")),
    (tool(file="nul.py"), ("error", "broken_tool_file", T, "tools[0].file")),
    (tool(file="deep.py"), ("error", "broken_tool_file", T, "tools[0].file")),
    (tool(file="a\x00b"), ("error", "wrong_value", T, "tools[0].file")),
    (tool(function="no"), ("error", "missing_tool_function", T, "tools[0].function")),
    (tool(function=None), ("error", "missing_field", T, "tools[0].function")),
    (tool(tool_type="UI_Tool"), ("warning", "ui_tool_headless", T, "tools[0].tool_type")),
    (tool(tool_type="Magic"), ("error", "wrong_value", T, "tools[0].tool_type")),
    (tool(bind_to_agent=False), ("warning", "not_executed", T, "tools[0].bind_to_agent")),
    (tool(auto_invoke=True), ("warning", "not_executed", T, "tools[0].auto_invoke")),
    (tool(name="say_hello"), ("warning", "not_executed", T, "tools[0].name")),
    (tool(constraints={"read_only": True}), ("warning", "not_executed", T, "tools[0].constraints")),
    ({"tools": [*tool()["tools"], *tool(agent=["B", "A"])["tools"]]}, ("error", "duplicate_tool", T, "tools[1].function")),
    ({"tools": {"backend_tools": {"A": []}, "x": 1}}, ("warning", "not_executed", T, "x")),
    # read, but not executed
    ({"hooks": {"hook_files": [{"filename": "a.py", "trigger": "on_start", "content": "x"}]}}, ("warning", "hooks_not_executed", "hooks.yaml", "hook_files[0].content")),
    # triggers
    ({"triggers": {"triggers": 5}}, ("error", "wrong_type", "triggers.yaml", "triggers")),
    ({"triggers": ["x"]}, ("error", "wrong_type", "triggers.yaml", "triggers[0]")),
    ({"triggers": [{"type": "pigeon"}]}, ("error", "unknown_trigger", "triggers.yaml", "triggers[0].type")),
    ({"triggers": [{"type": "chat"}]}, ("info", "not_ours", "triggers.yaml", "triggers[0]")),
    ({"triggers": [{"type": "schedule", "every": "1h"}]}, ("warning", "inactive_trigger", "triggers.yaml", "triggers[0]")),
    ({"triggers": [{"type": "schedule", "every": "1h", "apps": ["a"], "name": "n"}] * 2}, ("error", "duplicate_trigger", "triggers.yaml", "triggers[1]")),
    ({"triggers": [{"type": "schedule", "evry": "1h", "apps": ["a"]}]}, ("error", "bad_trigger", "triggers.yaml", "triggers[0].evry")),
    (orchestrator(triggers=[{"type": "chat"}]) | {"triggers": [{"type": "chat"}]}, ("error", "two_files", "triggers.yaml", "triggers")),
]  # fmt: skip


def prepared_folder(folder: Path) -> Path:
    folder = folder / "P"
    write_tool(folder, "greet.py", TOOL)
    write_tool(folder, "broken.py", "def greet(:")
    write_tool(folder, "nul.py", "def greet(): ...\x00")
    write_tool(folder, "deep.py", "x = " + "(" * 5000)
    (folder.parent / "outside.py").write_text(TOOL)
    (folder / "tools" / "link.py").symlink_to(folder.parent / "outside.py")
    return folder


@pytest.mark.parametrize(
    ("files", "finding"), FAULTS, ids=[f"{number}-{each[1][1]}-{each[1][3]}" for number, each in enumerate(FAULTS)]
)
def test_a_fault_is_found_where_it_is(
    tmp_path: Path, files: dict[str, Any], finding: tuple[str, str, str, str]
) -> None:
    package = load(prepared_folder(tmp_path), **files)

    assert finding in finding_keys(package)
    assert package.is_refused is any(each.level == "error" for each in package.findings)
    # A fault of one field causes no findings about others.
    assert len(faults(package)) <= 4, package.findings


MODEL = {"type": "model", "fields": {"f": {"type": "str"}}}
HOOK = {"hook_type": "update_agent_state", "hook_agent": "A", "filename": "greet.py", "function": "greet"}
LIFECYCLE = {"trigger": "before_chat", "file": "greet.py", "function": "greet"}
HOURLY = {"type": "schedule", "every": "1h", "apps": ["a"]}
ODD = {"colour": "red"}
UNKNOWN_FIELDS: list[tuple[dict[str, Any], str]] = [
    (orchestrator(**ODD), "colour"),
    (orchestrator(limits=ODD), "limits.colour"),
    (agent(**ODD), "agents[0].colour"),
    ({"context_variables": {"definitions": {"v": ODD}}}, "definitions.v.colour"),
    ({"context_variables": {"definitions": {}, "agents": {"A": {"variables": [], **ODD}}}}, "agents.A.colour"),
    *((variable(**each, **ODD), f"{SOURCE}.colour") for each in (DB, {"type": "state"}, {"type": "computed"})),
    *((variable(type=each, env_var="X", **ODD), f"{SOURCE}.colour") for each in ("config", "static", "runtime")),
    (variable(type="external", url="https://example.org", **ODD), f"{SOURCE}.colour"),
    (make_derived(**ODD), f"{SOURCE}.triggers[0].colour"),
    (handoff(**ODD), "handoff_rules[0].colour"),
    (tool(**ODD), "tools[0].colour"),
    ({"tools": {"tools": [], "lifecycle_tools": [{**LIFECYCLE, **ODD}]}}, "lifecycle_tools[0].colour"),
    ({"hooks": {"hooks": [{**HOOK, **ODD}]}}, "hooks[0].colour"),
    ({"structured_outputs": {"models": {"M": {**MODEL, **ODD}}}}, "models.M.colour"),
    ({"structured_outputs": {"models": {"M": MODEL}, **ODD}}, "colour"),
    ({"triggers": [{**HOURLY, **ODD}]}, "triggers[0].colour"),
]


@pytest.mark.design("D1-23", "D1-59", "D5-1")
@pytest.mark.parametrize(("files", "place"), UNKNOWN_FIELDS)
def test_a_field_that_nothing_reads_is_found(tmp_path: Path, files: dict[str, Any], place: str) -> None:
    found = [finding for finding in load(prepared_folder(tmp_path), **files).findings if finding.path == place]

    assert [finding.level in ("warning", "error") for finding in found] == [True]


def test_every_fault_is_reported_at_once(tmp_path: Path) -> None:
    package = load(
        tmp_path, **orchestrator(max_turns=0, initial_agent="C"), agents=[{"name": "A", "auto_tool_mode": "maybe"}]
    )
    assert [finding.code for finding in errors(package)] == ["wrong_value", "wrong_value", "unknown_agent"]


def test_empty_and_null_fields_are_no_fault(tmp_path: Path) -> None:
    package = load(
        tmp_path,
        orchestrator={**ORCHESTRATOR, "visual_agents": None, "initial_message": None, "triggers": None},
        agents=[
            {"name": "A", "web_search": False, "prompt_sections": None, "system_message": "s"},
            {"name": "B", "image_generation": {}, "system_message": "s"},
        ],
        context_variables={"definitions": {}, "agents": {}},
        handoffs={"handoff_rules": []},
        tools={"tools": [], "lifecycle_tools": []},
        structured_outputs={"schema_version": "x", "models": {}, "registry": {"A": None}},
        hooks={"hooks": []},
    )
    assert faults(package) == []


@pytest.mark.parametrize("empty", ["", "null", "{}", "[]", "5", "text", "true"])
@pytest.mark.parametrize(
    "stem", ["context_variables", "handoffs", "tools", "triggers", "hooks", "ui_config", "agents", "orchestrator"]
)
def test_a_file_of_any_shape_is_read(tmp_path: Path, stem: str, empty: str) -> None:
    load(tmp_path, **{stem: empty})


def library_files(name: str) -> dict[str, Any]:
    return {path.stem: yaml.safe_load(path.read_text()) for path in sorted((LIBRARY / name).glob("*.yaml"))}


SEEDS = {name: library_files(name) for name in ("DailyDigest", "IssueTriage", "LeadIntake", "OrderFollowUp")}
junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**70),
    st.floats(),
    st.sampled_from(["", "A", "${x}", "=[", "{{", "../x", "* * * * *", "env:X", "1h", "\ud7ff", "a\x00b", "/", "."]),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.just([{}]),
    st.dictionaries(st.sampled_from(["name", "type", "source", "agents", "variables", ""]), st.integers(), max_size=2),
    st.just({5: {2: 3}, True: None}),
)


@st.composite
def mutations(draw: st.DrawFn) -> dict[str, Any]:
    """A valid package with a few places replaced, removed or renamed."""
    files = copy.deepcopy(SEEDS[draw(st.sampled_from(sorted(SEEDS)))])
    for _ in range(draw(st.integers(1, 4))):
        spot: Any = files
        key: Any = draw(st.sampled_from(sorted(files)))
        while isinstance(spot[key], dict | list) and spot[key] and draw(st.integers(0, 4)):
            spot = spot[key]
            key = draw(st.sampled_from(list(spot) if isinstance(spot, dict) else list(range(len(spot)))))
        if draw(st.booleans()) or spot is files:
            spot[key] = copy.deepcopy(draw(junk))
        elif isinstance(spot, dict):
            spot[draw(st.sampled_from(["x", "type", "name", "agents", 5]))] = spot.pop(key)
        else:
            del spot[key]
    return files


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(mutations())
def test_a_mutated_package_is_loaded_or_refused_in_our_own_words(tmp_path: Path, files: dict[str, Any]) -> None:
    folder = write_package(tmp_path / "P", orchestrator=None, agents=None)
    for path in folder.glob("*.yaml"):
        path.unlink()
    for stem, body in files.items():
        (folder / f"{stem}.yaml").write_text(dumped(body), encoding="utf-8")

    try:
        package = load_package(folder)
    except PackageError:
        return
    assert all(finding.code and finding.message for finding in package.findings)
