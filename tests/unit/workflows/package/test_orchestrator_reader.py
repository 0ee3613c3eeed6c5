"""The reader of the orchestrator: every spelling, and every broken shape with the exact finding."""

from typing import Any, get_args

import pytest
from hypothesis import given as generated
from hypothesis import strategies as st

from workflows.package.findings import Finding, Findings
from workflows.package.normal_form.package_model import Limits, Orchestrator, Pattern
from workflows.package.readers.orchestrator_reader import read_orchestrator
from workflows.package.readers.section import Section

FILE = "orchestrator.yaml"
MINIMUM: dict[str, Any] = {"workflow_name": "Small", "initial_agent": "A"}


def read(body: Any, folder_name: str = "Folder") -> tuple[Orchestrator, tuple[Finding, ...]]:
    findings = Findings()
    section = Section(body, file=FILE, path="", findings=findings)
    return read_orchestrator(section, folder_name=folder_name), findings.all


def read_without_findings(**fields: Any) -> Orchestrator:
    orchestrator, findings = read({**MINIMUM, **fields})
    assert findings == ()
    return orchestrator


def findings_of(**fields: Any) -> list[tuple[str, str, str, str]]:
    _, findings = read({**MINIMUM, **fields})
    return [(finding.level, finding.code, finding.file, finding.path) for finding in findings]


def test_the_least_has_the_defaults_of_the_format() -> None:
    assert read_without_findings() == Orchestrator(workflow_name="Small", initial_agent="A")
    assert read_without_findings().startup_mode == "BackendOnly"
    assert read_without_findings().pattern == "DefaultPattern"
    assert read_without_findings().limits.max_turns == 50


def test_null_is_how_authors_leave_out() -> None:
    nothing = dict.fromkeys(
        (
            "max_turns",
            "startup_mode",
            "orchestration_pattern",
            "inputs",
            "limits",
            "visual_agents",
            "runtime_extensions",
        )
    )
    assert read_without_findings(**nothing) == read_without_findings()


@pytest.mark.parametrize("field", ["initial_agent", "recipient", "initiating_agent"])
def test_the_first_speaker_has_several_fields(field: str) -> None:
    orchestrator, findings = read({"workflow_name": "Small", field: " B "})
    assert (orchestrator.initial_agent, findings) == ("B", ())


@pytest.mark.parametrize("word", ["user", "User", "user_proxy", "human"])
def test_a_user_may_be_the_first_speaker(word: str) -> None:
    assert read_without_findings(initial_agent=word).initial_agent == "user"


@pytest.mark.parametrize("field", ["startup_mode", "workflow_startup_mode"])
@pytest.mark.parametrize("mode", ["AgentDriven", "BackendOnly"])
def test_the_startup_mode_has_two_names(field: str, mode: str) -> None:
    assert read_without_findings(**{field: mode}).startup_mode == mode
    assert read_without_findings(**{field: mode.lower()}).startup_mode == mode
    assert read_without_findings(startup_mode=mode, workflow_startup_mode=mode).startup_mode == mode


def test_a_workflow_that_waits_for_its_user_needs_a_first_agent() -> None:
    orchestrator, findings = read({**MINIMUM, "workflow_startup_mode": "UserDriven"})

    assert orchestrator.startup_mode == "UserDriven"
    assert [(finding.level, finding.code, finding.path) for finding in findings] == [
        ("info", "starts_without_user", "workflow_startup_mode")
    ]


@pytest.mark.parametrize(("word", "meant"), [(True, True), (1, True), ("Yes", True), (0, False), ("off", False)])
@pytest.mark.parametrize("field", ["human_in_the_loop", "human_in_loop"])
def test_a_person_in_the_loop_has_many_spellings(field: str, word: object, meant: bool) -> None:
    assert read_without_findings(**{field: word}).human_in_the_loop is meant


@pytest.mark.parametrize("pattern", get_args(Pattern))
def test_patterns_are_known_in_any_case(pattern: str) -> None:
    assert read_without_findings(orchestration_pattern=pattern).pattern == pattern
    assert read_without_findings(orchestration_pattern=pattern.upper()).pattern == pattern


def test_what_describes_is_read_without_a_finding() -> None:
    described = read_without_findings(
        description="d",
        metadata={"owner": "x"},
        entry_point=True,
        schema_version="v1",
        initial_message="go",
        triggers=[{"type": "chat"}],
    )
    assert described.initial_message == "go"


def test_what_explains_a_failure_is_read() -> None:
    assert read_without_findings(failure_message_key="why").failure_message_key == "why"


def test_limits_stand_inside_or_beside() -> None:
    assert read_without_findings(max_turns=7, limits={"wall_clock_s": 2.5, "model_calls": 3}).limits == Limits(
        7, 2.5, 3
    )
    assert read_without_findings(max_turns=7, limits={"max_turns": 3}).limits.max_turns == 3


def test_every_limit_is_read() -> None:
    written = {"max_turns": 1, "wall_clock_s": 2, "model_calls": 3, "tool_calls": 4, "tokens": 5, "usd": 0.25}
    assert read_without_findings(limits=written).limits == Limits(1, 2.0, 3, 4, 5, 0.25)


def test_tokens_and_money_have_no_limit_of_their_own() -> None:
    assert (read_without_findings().limits.tokens, read_without_findings().limits.usd) == (None, None)


def test_a_package_without_a_name_has_its_directory_s() -> None:
    orchestrator, findings = read({"initial_agent": "A"}, folder_name="Some.Folder-1")
    assert orchestrator.workflow_name == "Some.Folder-1"
    assert [(finding.level, finding.code, finding.path) for finding in findings] == [
        ("warning", "no_workflow_name", "workflow_name")
    ]


def test_a_directory_s_name_must_fit_into_addresses_too() -> None:
    _, findings = read({"initial_agent": "A"}, folder_name="My Workflow")
    assert [(finding.level, finding.code) for finding in findings] == [
        ("warning", "no_workflow_name"),
        ("error", "wrong_value"),
    ]


# One fault a line, however long.
# ruff: noqa: E501
@pytest.mark.parametrize(
    ("given", "level", "code", "path"),
    [
        ({"workflow_name": "a b"}, "error", "wrong_value", "workflow_name"),
        ({"workflow_name": ["a"]}, "error", "wrong_type", "workflow_name"),
        ({"initial_agent": None}, "error", "missing_field", "initial_agent"),
        ({"initial_agent": "TERMINATE"}, "error", "wrong_value", "initial_agent"),
        ({"initial_agent": None, "recipient": "end"}, "error", "wrong_value", "recipient"),
        ({"recipient": "B"}, "warning", "not_executed", "recipient"),
        ({"orchestration_pattern": "Magic"}, "error", "unknown_pattern", "orchestration_pattern"),
        ({"orchestration_pattern": ["Magic"]}, "error", "wrong_type", "orchestration_pattern"),
        ({"startup_mode": "Sometimes"}, "error", "wrong_value", "startup_mode"),
        ({"workflow_startup_mode": "Sometimes"}, "error", "wrong_value", "workflow_startup_mode"),
        ({"startup_mode": "AgentDriven", "workflow_startup_mode": "BackendOnly"}, "error", "conflicting_fields", "workflow_startup_mode"),
        ({"human_in_the_loop": "maybe"}, "error", "wrong_value", "human_in_the_loop"),
        ({"human_in_the_loop": 2}, "error", "wrong_value", "human_in_the_loop"),
        ({"max_turns": True}, "error", "wrong_value", "max_turns"),
        ({"max_turns": 0}, "error", "wrong_value", "max_turns"),
        ({"max_turns": 2**70}, "error", "wrong_value", "max_turns"),
        ({"max_turns": "8"}, "error", "wrong_type", "max_turns"),
        ({"initial_message": 5}, "error", "wrong_type", "initial_message"),
        ({"failure_message_key": {}}, "error", "wrong_type", "failure_message_key"),
        ({"entry_point": "perhaps"}, "error", "wrong_value", "entry_point"),
        ({"limits": []}, "error", "wrong_type", "limits"),
        ({"limits": {"model_calls": False}}, "error", "wrong_value", "limits.model_calls"),
        ({"limits": {"usd": 0}}, "error", "wrong_value", "limits.usd"),
        ({"limits": {"usd": "5"}}, "error", "wrong_value", "limits.usd"),
        ({"limits": {"usd": float("nan")}}, "error", "wrong_value", "limits.usd"),
        ({"limits": {"tokens": 0}}, "error", "wrong_value", "limits.tokens"),
        ({"limits": {"tokens": 1.5}}, "error", "wrong_type", "limits.tokens"),
        ({"limits": {"tool_calls": -1}}, "error", "wrong_value", "limits.tool_calls"),
        ({"limits": {"tool_calls": True}}, "error", "wrong_value", "limits.tool_calls"),
        ({"limits": {"turns": 5}}, "warning", "not_executed", "limits.turns"),
        ({"retry": {"max_attempts": 2}}, "warning", "not_executed", "retry"),
        ({"on_failure": "notify"}, "warning", "not_executed", "on_failure"),
        ({"outputs": {"report": {"type": "string"}}}, "warning", "not_executed", "outputs"),
        ({"initial_message_to_user": "hi"}, "warning", "not_executed", "initial_message_to_user"),
        ({"visual_agents": ["A"]}, "warning", "not_executed", "visual_agents"),
        ({"ui_theme": "dark"}, "warning", "not_executed", "ui_theme"),
        ({"runtime_extensions": [{"kind": "api_router", "entrypoint": "a.b:c"}]}, "warning", "ignored_in_worker", "runtime_extensions"),
        ({"runtime_extensions": "a.b:c"}, "warning", "ignored_in_worker", "runtime_extensions"),
        ({"max_turn": 8}, "warning", "not_executed", "max_turn"),
        ({"inputs": ["a"]}, "error", "wrong_type", "inputs"),
        ({"inputs": {"a": "string"}}, "error", "wrong_type", "inputs.a"),
        ({"inputs": {5: {}}}, "error", "wrong_type", "inputs"),
        ({"inputs": {"a": {"type": "dat"}}}, "error", "unknown_type", "inputs.a.type"),
        ({"inputs": {"a": {"type": ["string"]}}}, "error", "wrong_type", "inputs.a.type"),
        ({"inputs": {"a": {"required": "maybe"}}}, "error", "wrong_value", "inputs.a.required"),
        ({"inputs": {"a": {"enum": "x"}}}, "error", "wrong_type", "inputs.a.enum"),
        ({"inputs": {"a": {"format": 5}}}, "error", "wrong_type", "inputs.a.format"),
        ({"inputs": {"a": {"description": []}}}, "error", "wrong_type", "inputs.a.description"),
        ({"inputs": {"a": {"properties": 5}}}, "error", "wrong_type", "inputs.a.properties"),
        ({"inputs": {"a": {"properties": {"b": 5}}}}, "error", "wrong_type", "inputs.a.properties.b"),
        ({"inputs": {"a": {"properties": {"b": {"type": "x"}}}}}, "error", "unknown_type", "inputs.a.properties.b.type"),
        ({"inputs": {"a": {"pattern": "x"}}}, "warning", "not_executed", "inputs.a.pattern"),
        ({"inputs": {"a": {"type": "object", "required": ["b"]}}}, "warning", "not_executed", "inputs.a.required"),
        ({"inputs": {"a": {"type": "integer", "default": True}}}, "warning", "wrong_default", "inputs.a.default"),
        ({"inputs": {"a": {"type": "boolean", "default": 1}}}, "warning", "wrong_default", "inputs.a.default"),
        ({"inputs": {"a": {"type": "string", "default": 1}}}, "warning", "wrong_default", "inputs.a.default"),
        ({"inputs": {"a": {"type": "array", "default": {}}}}, "warning", "wrong_default", "inputs.a.default"),
        ({"inputs": {"a": {"enum": [1, 2], "default": True}}}, "warning", "wrong_default", "inputs.a.default"),
    ],
)  # fmt: skip
def test_a_fault_is_one_finding(given: dict[str, Any], level: str, code: str, path: str) -> None:
    assert findings_of(**given) == [(level, code, FILE, path)]


def test_inputs_are_read_like_a_json_schema() -> None:
    written = {
        "scope": {"type": "str", "enum": ["platform", "app"], "required": "yes"},
        "alternatives": {"type": "bool", "default": False},
        "range": {"type": "object", "properties": {"start": {"type": "string", "format": "date"}, "end": None}},
        "free": None,
    }

    inputs = read_without_findings(inputs=written).inputs

    assert inputs == {
        "scope": {"type": "string", "enum": ["platform", "app"], "required": True},
        "alternatives": {"type": "boolean", "default": False, "required": False},
        "range": {
            "type": "object",
            "required": False,
            "properties": {"start": {"type": "string", "format": "date", "required": False}, "end": {}},
        },
        "free": {},
    }


def test_every_message_has_its_remedy() -> None:
    _, findings = read({**MINIMUM, "startup_mode": "x", "orchestration_pattern": "y", "limits": {"turns": 1}})
    assert "DefaultPattern" in findings[0].message
    assert "BackendOnly" in findings[1].message
    assert "max_turns" in findings[2].message


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "default", "enum", "a"]) | st.integers() | st.booleans(), inner, max_size=3
        )
    ),
    max_leaves=8,
)
FIELDS = [
    "workflow_name",
    "initial_agent",
    "startup_mode",
    "max_turns",
    "limits",
    "inputs",
    "human_in_the_loop",
    "ui_x",
]


@generated(
    st.dictionaries(st.sampled_from(FIELDS) | st.integers() | st.booleans() | st.none(), junk, max_size=5) | junk
)
def test_anything_is_read_or_found(body: Any) -> None:
    orchestrator, _ = read(body)
    assert orchestrator.workflow_name


@pytest.mark.parametrize(
    ("requires", "names"),
    [
        (None, ()),
        ({}, ()),
        ({"env": None}, ()),
        ({"env": ["SLACK_WEBHOOK_URL", "_b2", "SLACK_WEBHOOK_URL"]}, ("SLACK_WEBHOOK_URL", "_b2")),
        ({"env": [f"V{number}" for number in range(100)]}, tuple(f"V{number}" for number in range(100))),
    ],
)
def test_what_a_worker_must_have_is_named(requires: Any, names: tuple[str, ...]) -> None:
    assert read_without_findings(requires=requires).required_environment == names


@pytest.mark.parametrize(
    ("requires", "finding"),
    [
        ("SLACK", ("error", "wrong_type", "requires")),
        (["SLACK"], ("error", "wrong_type", "requires")),
        ({"env": "SLACK"}, ("error", "wrong_type", "requires.env")),
        ({"env": {"SLACK": "s3cr3t"}}, ("error", "wrong_type", "requires.env")),
        ({"env": ["OK", "SLACK=s3cr3t"]}, ("error", "wrong_value", "requires.env[1]")),
        ({"env": ["${s3cr3t}"]}, ("error", "wrong_value", "requires.env[0]")),
        ({"env": ["9s3cr3t"]}, ("error", "wrong_value", "requires.env[0]")),
        ({"env": ["s3cr3t\n"]}, ("error", "wrong_value", "requires.env[0]")),
        ({"env": [""]}, ("error", "wrong_value", "requires.env[0]")),
        ({"env": [5]}, ("error", "wrong_value", "requires.env[0]")),
        ({"env": ["s3cr3t" * 40]}, ("error", "wrong_value", "requires.env[0]")),
        ({"env": ["V"] * 150}, ("error", "wrong_value", "requires.env[100]")),
        ({"environment": ["SLACK"]}, ("warning", "not_executed", "requires.environment")),
    ],
)
def test_a_requirement_is_the_name_of_a_variable_and_never_its_value(
    requires: Any, finding: tuple[str, str, str]
) -> None:
    _, findings = read({**MINIMUM, "requires": requires})

    assert [(each.level, each.code, each.path) for each in findings] == [finding]
    assert "s3cr3t" not in str(findings)
