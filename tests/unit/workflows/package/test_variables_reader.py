"""The reader of variables: six roots and all early forms become one normal form."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.context.observers.agent_text import AgentTextTrigger
from workflows.context.observers.handoff import HandoffTrigger
from workflows.context.observers.tool_call import ToolCallTrigger
from workflows.context.state.state_transitions import UNSET, Transition
from workflows.package.findings import Finding, Findings
from workflows.package.normal_form.package_model import Variable
from workflows.package.normal_form.variable_sources import DatabaseSource, EnvSource, StateSource, StaticSource
from workflows.package.readers.section import Section
from workflows.package.readers.variables.variables_reader import read_variables

NOWHERE = Path("/nowhere/at/all")
TRIGGER = {"type": "agent_text", "agent": "A", "match": {"equals": "NEXT"}}
NEXT = Transition(AgentTextTrigger("A", equals="NEXT"))


def read(body: Any) -> tuple[dict[str, Variable], dict[str, tuple[str, ...]], list[Finding]]:
    findings = Findings()
    variables, exposed = read_variables(Section(body, file="f", path="", findings=findings), folder=NOWHERE)
    return variables, exposed, list(findings.all)


def finding_keys(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(finding.level, finding.code, finding.path) for finding in findings]


def one(written: Any) -> tuple[Variable, list[tuple[str, str, str]]]:
    variables, _, findings = read({"definitions": {"v": written}})
    return variables["v"], finding_keys(findings)


STATE = {"type": "boolean", "source": {"type": "state", "default": False, "triggers": [TRIGGER]}}
BARE = {"type": "boolean", "default": False, "triggers": [TRIGGER]}
EXPECTED = Variable("v", "boolean", StateSource((NEXT,)), default=False)


@pytest.mark.design("D1-20", "D1-23", "D1-59")
@pytest.mark.parametrize(
    "body",
    [
        {"definitions": {"v": STATE}, "agents": {"A": {"variables": ["v"]}}},
        {"definitions": {"v": STATE}, "agents": {"A": ["v"]}},
        {"definitions": [{"name": "v", **STATE}], "agents": [{"agent_name": "A", "variables": ["v"]}]},
        {"definitions": {"v": BARE}, "agents": [{"agent": "A", "variables": ["v"]}, {"name": "A", "variables": ["v"]}]},
        {"variables": [{"name": "v", **BARE}], "agents": {"A": {"exposures": [{"variables": ["v"]}]}}},
        {"variables": {"v": BARE}, "agents": {"A": {"variables": ["v"], "exposures": [{"variables": ["v"]}]}}},
        {"derived_variables": [{"name": "v", **BARE}], "agents": {"A": ["v"]}},
        {"derived_variables": [{"name": "v", **STATE}], "environment_variables": [], "agents": {"A": ["v"]}},
        {"v": BARE, "agents": {"A": ["v"]}, "schema_version": "1"},
        {"definitions": {"v": STATE}, "schema_version": 1, "version": 2, "agents": {"A": ["v"], "B": None}},
    ],
)
def test_every_root_is_one_internal_form(body: Any) -> None:
    variables, exposed, findings = read(body)

    assert findings == []
    assert variables == {"v": EXPECTED}
    assert exposed == {"A": ("v",)}


@pytest.mark.design("D1-8")
def test_the_name_of_a_list_defines_where_its_variables_come_from() -> None:
    variables, _, findings = read(
        {
            "database_variables": [
                {"name": "a", "database_name": "d", "collection": "c", "search_by": "app_id", "field": "f"}
            ],
            "environment_variables": [{"name": "b", "env_var": "B"}, {"name": "c", "source": {"env_var": "C"}}],
            "declarative_variables": [{"name": "d", "value": "beta"}, {"name": "e", "source": {"value": 25}}],
            "derived_variables": [{"name": "f"}],
        }
    )

    assert findings == []
    assert [variable.source for variable in variables.values()] == [
        DatabaseSource("d", "c", {"app_id": "{{runtime.app_id}}"}, ("f",)),
        EnvSource("B"),
        EnvSource("C"),
        StaticSource(),
        StaticSource(),
        StateSource(),
    ]
    assert (variables["d"].default, variables["e"].default, variables["e"].type) == ("beta", 25, "integer")


def test_the_first_variables_named_collection_and_query_under_database() -> None:
    written = {
        "name": "v",
        "database": {"collection": "concepts", "query": {"type": "overview"}, "field": "content"},
        "default_value": "none",
    }
    variables, _, findings = read({"variables": [written], "database_name": "d", "schema_overview": {"x": 1}})

    assert finding_keys(findings) == [("warning", "not_executed", "schema_overview")]
    assert variables["v"].source == DatabaseSource("d", "concepts", {"type": "overview"}, ("content",))
    assert variables["v"].default == "none"


def test_an_early_variable_without_a_database_keeps_its_default() -> None:
    written = {"name": "v", "database": {"collection": "c", "search_by": "app_id", "field": "f"}, "default_value": "x"}
    variables, _, findings = read({"variables": [written]})

    assert finding_keys(findings) == [("warning", "no_database", "variables[0].database.database_name")]
    assert (variables["v"].kind, variables["v"].default) == ("state", "x")


def test_a_flat_variable_comes_with_the_run_and_has_a_default() -> None:
    variables, exposed, findings = read({"scope": {"type": "string", "enum": ["a", "b"], "default": "a"}, "x": None})

    assert findings == []
    assert exposed == {}
    assert variables["scope"].kind == variables["x"].kind == "runtime"
    assert (variables["scope"].default, variables["scope"].enum) == ("a", ("a", "b"))


@pytest.mark.parametrize("agents", [{"type": "array", "default": []}, {"default": ["A"]}, {"description": "who"}, {}])
def test_a_flat_variable_may_be_called_agents(agents: Any) -> None:
    variables, exposed, findings = read({"v": {}, "agents": agents})

    assert findings == []
    assert list(variables) == (["v", "agents"] if agents else ["v"])
    assert exposed == {}


@pytest.mark.design("D1-46")
@pytest.mark.parametrize(
    ("word", "declared"),
    [
        ("string", "string"), ("str", "string"), ("text", "string"), (None, "string"), ("null", "string"), ("bool", "boolean"),
        ("BOOLEAN", "boolean"), ("int", "integer"), ("float", "number"), ("number", "number"), ("dict", "object"),
        ("json", "object"), ("document", "object"), ("list", "array"), (["null", "integer"], "integer"),
    ],
)  # fmt: skip
def test_a_type_has_many_names(word: Any, declared: str) -> None:
    variable, findings = one({"type": word})

    assert findings == []
    assert variable.type == declared


@pytest.mark.parametrize(
    ("default", "declared"), [(True, "boolean"), (3, "integer"), (0.5, "number"), ([], "array"), ({}, "object")]
)
def test_a_default_is_the_type_where_none_is_declared(default: Any, declared: str) -> None:
    assert one({"default": default})[0].type == declared


@pytest.mark.parametrize(
    ("declared", "written", "value"),
    [
        ("boolean", "true", True), ("boolean", "No", False), ("boolean", 1, True), ("integer", "5", 5),
        ("integer", " -7 ", -7), ("integer", 5.0, 5), ("number", "0.5", 0.5), ("number", "1e3", 1000.0),
        ("string", 5, "5"), ("array", '["a"]', ["a"]), ("object", '{"a": 1}', {"a": 1}), ("integer", None, None),
    ],
)  # fmt: skip
def test_a_default_becomes_its_type_where_that_has_one_meaning(declared: str, written: Any, value: Any) -> None:
    variable, findings = one({"type": declared, "default": written})

    assert findings == []
    assert variable.default == value
    assert type(variable.default) is type(value)


@pytest.mark.parametrize(
    ("declared", "written"),
    [
        ("boolean", "perhaps"), ("boolean", 2), ("boolean", []), ("integer", "many"), ("integer", 5.5),
        ("integer", True), ("number", "nan"), ("number", "inf"), ("number", True), ("string", True), ("string", {}),
        ("string", 1.5), ("array", {}), ("array", "a, b"), ("object", []), ("object", "[1]"), ("integer", "9" * 5000),
    ],
)  # fmt: skip
def test_a_default_that_does_not_fit_is_reported_and_kept(declared: str, written: Any) -> None:
    variable, findings = one({"type": declared, "default": written})

    assert findings == [("warning", "wrong_default", "definitions.v.default")]
    assert variable.default == written


@pytest.mark.parametrize(
    "written", [2**64, float("nan"), {5: 1}, {"a\0": 1}, "\ud800", [b"x"], "x" * 300_000, [{"a": float("inf")}]]
)
def test_a_default_that_no_run_could_keep_is_refused(written: Any) -> None:
    variable, findings = one({"source": {"type": "state", "default": written}})

    assert findings == [("error", "wrong_value", "definitions.v.source.default")]
    assert variable.default is None


@pytest.mark.parametrize(
    ("source", "default"),
    [
        ({"type": "static", "value": "v", "default": "d"}, "v"),
        ({"type": "static", "default": "d"}, "d"),
        ({"type": "state", "initial": "i"}, "i"),
        ({"type": "state", "default": "d", "initial": "i"}, "d"),
        ({"type": "config", "env_var": "X", "default_value": "c"}, "c"),
    ],
)
def test_a_default_has_many_names(source: Any, default: str) -> None:
    variable, findings = one({"source": source})

    assert findings == []
    assert variable.default == default


def test_a_default_may_stand_beside_its_source() -> None:
    assert one({"source": {"type": "state"}, "default": 3})[0].default == 3


def test_unenforced_fields_are_reported_once_for_the_file() -> None:
    marks = {"authority_class": "routing", "writer_ids": ["tool"], "persisted": True}
    definitions = {f"v{number}": {"source": {"type": "state"}, **marks} for number in range(100)}

    _, _, findings = read({"definitions": {**definitions, "w": {"model_visible": True, "writer_ids": []}}})

    assert finding_keys(findings) == [("info", "not_enforced", "definitions")]
    assert "authority_class, writer_ids of 100 variables" in findings[0].message


def test_what_no_model_may_see_is_not_shown() -> None:
    hidden = {"model_visible": False, "source": {"type": "state"}}
    _, exposed, findings = read({"definitions": {"v": hidden, "w": hidden, "x": {}}, "agents": {"A": ["v", "x"]}})

    assert finding_keys(findings) == [("warning", "not_visible", "agents.A")]
    assert exposed == {"A": ("x",)}


@pytest.mark.parametrize(
    ("written", "to", "from_"),
    [
        ({"triggers": [TRIGGER]}, UNSET, UNSET),
        ({"trigger": TRIGGER}, UNSET, UNSET),
        ({"transitions": [{"trigger": TRIGGER}]}, UNSET, UNSET),
        ({"transitions": [{"from": None, "to": None, "trigger": TRIGGER}]}, None, None),
        ({"transitions": [{"from": "1", "to": "2", "trigger": TRIGGER}]}, 2, 1),
        ({"transitions": [{**TRIGGER, "to": 3}]}, 3, UNSET),
        ({"triggers": [{**TRIGGER, "to": "4", "from": 0}]}, 4, 0),
        ({"triggers": [{**TRIGGER, "value": 5}]}, 5, UNSET),
    ],
)
def test_transitions_have_several_forms_and_the_declared_type(written: Any, to: Any, from_: Any) -> None:
    variable, findings = one({"type": "integer", "source": {"type": "state", **written}})

    assert findings == []
    assert variable.source == StateSource((Transition(NEXT.trigger, to, from_),))


def test_all_kinds_of_transitions_are_read_together() -> None:
    written = {"triggers": [TRIGGER], "trigger": TRIGGER, "transitions": [{"trigger": TRIGGER}]}

    variable, _ = one({"source": {"type": "derived", **written}})

    assert variable.source == StateSource((NEXT, NEXT, NEXT))


def test_a_captured_group_is_no_value_to_be_typed() -> None:
    pattern = {**TRIGGER, "match": {"regex": r"score (\d+)"}}

    variable, findings = one({"type": "integer", "source": {"type": "state", "triggers": [{**pattern, "to": "$1"}]}})

    assert findings == []
    assert isinstance(variable.source, StateSource)
    assert variable.source.transitions[0].to == "$1"


PLACE = "definitions.v.source"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"trigger": {"type": "handoff", "from": "A", "to": "B", "value": "x"}},
            Transition(HandoffTrigger("B", "A"), to="x"),
        ),
        ({"triggers": [{"type": "handoff", "from": "A", "to": "B"}]}, Transition(HandoffTrigger("B", "A"))),
        ({"transitions": [{"type": "handoff", "to": "B"}]}, Transition(HandoffTrigger("B"))),
        (
            {"transitions": [{"from": "x", "to": "y", "trigger": {"type": "handoff", "to": "B"}}]},
            Transition(HandoffTrigger("B"), to="y", from_="x"),
        ),
        (
            {"trigger": {"type": "tool_call", "tool": "t", "agent": "", "from": "x", "value": "y"}},
            Transition(ToolCallTrigger("t"), to="y", from_="x"),
        ),
    ],
)
def test_a_handoff_has_a_from_and_a_to_of_its_own(source: Any, expected: Transition) -> None:
    variable, findings = one({"type": "string", "source": {"type": "state", **source}})

    assert findings == []
    assert isinstance(variable.source, StateSource)
    assert [replace(transition, place="", trigger_place="") for transition in variable.source.transitions] == [expected]


# One fault a line, however long.
# ruff: noqa: E501


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"triggers": [{"type": "user_text", "match": {}}]}, ("error", "wrong_value", "triggers[0].match")),
        ({"triggers": [{"type": "tool_call"}]}, ("error", "missing_field", "triggers[0].tool")),
        ({"trigger": "tool_call"}, ("error", "missing_field", "trigger.tool")),
        ({"transitions": [{"trigger": {"type": "handoff"}}]}, ("error", "missing_field", "transitions[0].trigger.to")),
        ({"transitions": [{"to": "x", "trigger": "handoff"}]}, ("error", "missing_field", "transitions[0].trigger.to")),
        ({"trigger": "lifecycle"}, ("error", "missing_field", "trigger.event")),
        ({"trigger": {"type": "lifecycle", "event": "noon"}}, ("error", "wrong_value", "trigger.event")),
        ({"triggers": [{"type": "moon"}]}, ("error", "unknown_trigger", "triggers[0].type")),
        ({"triggers": ["moon"]}, ("error", "wrong_type", "triggers[0]")),
        ({"triggers": [{}]}, ("error", "missing_field", "triggers[0].type")),
        ({"triggers": {}}, ("error", "wrong_type", "triggers")),
        ({"transitions": [{"from": "a", "to": "b"}]}, ("warning", "no_trigger", "transitions[0].trigger")),
        ({"triggers": [{**TRIGGER, "to": "$1"}]}, ("error", "wrong_value", "triggers[0].to")),
        ({"triggers": [{**TRIGGER, "once": True}]}, ("warning", "not_executed", "triggers[0].once")),
        ({"triggers": [{**TRIGGER, "to": []}]}, ("warning", "wrong_type_of_value", "triggers[0].to")),
        ({"required": True}, ("warning", "not_executed", "required")),
        ({"persist_key": "none"}, ("warning", "not_executed", "persist_key")),
    ],
)  # fmt: skip
def test_a_fault_of_state_is_found_where_it_is(source: Any, expected: tuple[str, str, str]) -> None:
    _, findings = one({"type": "string", "source": {"type": "state", **source}})

    level, code, path = expected
    assert findings == [(level, code, f"{PLACE}.{path}")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"definitions": 5}, ("error", "wrong_type", "definitions")),
        ({"definitions": [5]}, ("error", "wrong_type", "definitions[0]")),
        ({"definitions": [{"type": "string"}]}, ("error", "missing_field", "definitions[0].name")),
        ({"definitions": {"v": 5}}, ("error", "wrong_type", "definitions.v")),
        ({"definitions": {"v": {"source": "state"}}}, ("error", "wrong_type", "definitions.v.source")),
        ({"definitions": {"v": {"source": {"type": "oracle"}}}}, ("error", "unknown_source", "definitions.v.source.type")),
        ({"definitions": {"v": {"type": "dat"}}}, ("error", "wrong_value", "definitions.v.type")),
        ({"definitions": {"v": {"enum": 5}}}, ("error", "wrong_type", "definitions.v.enum")),
        ({"definitions": {"a b": {}}}, ("error", "wrong_value", "definitions.a b.name")),
        ({"definitions": {"run_id": {}}}, ("warning", "base_name", "definitions.run_id")),
        ({"definitions": [{"name": "v"}, {"name": "v"}]}, ("error", "duplicate_variable", "definitions[1]")),
        ({"definitions": {"v": {"enum": ["a"], "default": "b"}}}, ("warning", "wrong_default", "definitions.v.default")),
        ({"definitions": {"v": {"enum": ["a"], "triggers": [{**TRIGGER, "to": "b"}]}}}, ("warning", "not_in_enum", "definitions.v.transitions")),
        ({"definitions": {}, "agents": 5}, ("error", "wrong_type", "agents")),
        ({"definitions": {}, "agents": [{"variables": []}]}, ("error", "missing_field", "agents[0].agent_name")),
        ({"definitions": {}, "agents": {"A": "v"}}, ("error", "wrong_type", "agents.A")),
        ({"definitions": {}, "agents": {"A": [5]}}, ("error", "wrong_type", "agents.A[0]")),
        ({"definitions": {}, "agents": {"A": {"variables": "v"}}}, ("error", "wrong_type", "agents.A.variables")),
        ({"definitions": {}, "agents": {"A": {"exposures": [{"variables": ["v"], "placement": "top"}]}}}, ("warning", "not_executed", "agents.A.exposures[0].placement")),
        ({"definitions": {}, "agents": {"A": {"template": "{v}"}}}, ("warning", "not_executed", "agents.A.template")),
        ({"definitions": {}, "visual": True}, ("warning", "not_executed", "visual")),
        ({"v": 5}, ("error", "wrong_type", "v")),
        ([], ("error", "wrong_type", "")),
    ],
)  # fmt: skip
def test_a_fault_is_found_where_it_is(body: Any, expected: tuple[str, str, str]) -> None:
    assert finding_keys(read(body)[2]) == [expected]


junk = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2**70), st.floats(), st.text(max_size=5), st.just("agent_text")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.sampled_from(
                    [
                        "type", "source", "name", "default", "triggers", "transitions", "trigger", "match", "agents",
                        "variables", "definitions", "enum", "derived_variables", "value", "to", "from", "regex",
                    ]
                ),
                st.text(max_size=3),
                st.booleans(),
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["definitions", "variables", "agents", "v", "derived_variables"]), junk))
def test_whatever_is_written_is_read_or_found(body: Any) -> None:
    variables, _, findings = read(body)

    assert all(isinstance(name, str) for name in variables)
    assert all(finding.code and finding.message for finding in findings)
