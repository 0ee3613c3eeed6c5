"""The reader of agents: every form, and every broken shape with the exact finding."""

from typing import Any

import pytest
from hypothesis import given as generated
from hypothesis import strategies as st

from workflows.package.findings import Finding, Findings, Level
from workflows.package.normal_form.package_model import Agent
from workflows.package.readers.agents_reader import read_agents
from workflows.package.readers.section import Section

FILE = "agents.yaml"
WRONG = ("error", "wrong_type")
ORDER = (
    "role",
    "objective",
    "context",
    "runtime_integrations",
    "guidelines",
    "instructions",
    "examples",
    "json_output_compliance",
    "output_format",
)


def read(body: Any) -> tuple[dict[str, Agent], tuple[Finding, ...]]:
    findings = Findings()
    return read_agents(Section(body, file=FILE, path="", findings=findings)), findings.all


def one(**written: Any) -> tuple[Agent, list[tuple[Level, str, str]]]:
    agents, findings = read({"agents": [{"name": "A", **written}]})
    assert {finding.file for finding in findings} <= {FILE}
    places = [(finding.level, finding.code, finding.path.removeprefix("agents[0].")) for finding in findings]
    return next(iter(agents.values()), Agent("", "")), places


def prompt(**written: Any) -> str:
    agent, places = one(**written)
    assert places == []
    return agent.system_message


@pytest.mark.parametrize(
    "body",
    [
        {"agents": [{"name": "A"}, {"agent_name": "B"}]},
        {"agents": {"A": {}, "B": None}},
        {"agents": {"A": {"name": None}, "key": {"agent_name": "B"}}},
        {"agents": {"key": {"name": "A"}, "B": {"name": "B"}}, "schema_version": "v1"},
        {"A": {}, "B": {}, "schema_version": "v1", "version": 2},
    ],
)
def test_agents_are_a_list_or_a_mapping_bare_or_wrapped(body: Any) -> None:
    agents, findings = read(body)
    assert (list(agents), findings) == (["A", "B"], ())


@pytest.mark.design("D4-49")
def test_every_field_is_read() -> None:
    agent, places = one(
        system_message="s",
        model="fast",
        description="d",
        max_consecutive_auto_reply=7,
        structured_outputs_required=True,
        auto_tool_mode="no",
        human_input_mode="never",
    )
    assert agent == Agent("A", "s", "fast", "d", max_consecutive_auto_reply=7, structured_outputs_required=True)
    assert places == []


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ({}, ""),
        ({"system_message": "plain"}, "plain"),
        ({"system_message": "plain", "prompt_sections": []}, "plain"),
        ({"system_message": "plain", "prompt_sections": [{"id": "x", "heading": "H", "content": None}]}, "plain"),
        ({"prompt_sections": [{"id": 1, "heading": "[R]", "content": "one"}, {"content": "two"}]}, "[R]\none\n\ntwo"),
        ({"prompt_sections": ["one", None, {"content": None}, "two"]}, "one\n\ntwo"),
        ({"prompt_sections": ["1"], "prompt_sections_custom": [{"content": "2"}]}, "1\n\n2"),
        ({"prompt_sections": ["{{PATTERN_GUIDANCE_AND_EXAMPLES}}"]}, "{{PATTERN_GUIDANCE_AND_EXAMPLES}}"),
        ({"prompt_sections": {"own": "last", **{key: key for key in reversed(ORDER)}}}, "\n\n".join([*ORDER, "last"])),
        ({"prompt_sections_custom": {"role": {"heading": "H", "content": "c"}}}, "H\nc"),
    ],
)
def test_a_prompt_is_its_sections_in_order(written: dict[str, Any], text: str) -> None:
    assert prompt(**written) == text


def test_an_agent_may_leave_its_tools_to_its_structured_answers() -> None:
    agents, findings = read({"agents": [{"name": "A", "auto_tool_mode": True}]})

    assert agents["A"].auto_tool_mode
    assert findings == ()


@pytest.mark.parametrize(
    ("capability", "value"),
    [
        ("sandbox_shell", True),
        ("web_search", "yes"),
        ("duck_search", True),
        ("web_fetch", 1),
        ("multimodal_inputs_enabled", True),
        ("image_generation", {"size": "1024x1024"}),
        ("image_generation_enabled", True),
        ("pending_turn_replay", "block"),
        ("role", "planner"),
    ],
)
def test_an_unsupported_capability_is_reported(capability: str, value: object) -> None:
    assert one(**{capability: value})[1] == [("warning", "capability_unsupported", capability)]


@pytest.mark.parametrize("value", [None, False, 0, "", "false", "Off", {}, []])
def test_a_capability_that_is_not_wanted_is_no_finding(value: object) -> None:
    assert one(web_search=value, image_generation=value)[1] == []


@pytest.mark.parametrize("name", ["A", "Émile", "a-b_c", "Agent2", "助手", "x" * 64])
def test_names_that_models_and_the_database_take(name: str) -> None:
    agents, findings = read({"agents": [{"name": name}]})
    assert (list(agents), findings) == ([name], ())


@pytest.mark.parametrize(
    "name", ["a b", "a.b", "$a", "a/b", "a\\b", "<a>", "a|b", "a\nb", "a\x00b", "\ud800", "x" * 65]
)
def test_names_that_they_do_not_take_are_refused(name: str) -> None:
    assert one(name=name)[1] == [("error", "wrong_value", "name")]


@pytest.mark.parametrize("word", ["user", "User", "user_proxy", "human", "terminate", "TERMINATE", "end", "Stop"])
@pytest.mark.parametrize("field", ["name", "agent_name"])
def test_an_agent_that_no_hand_off_could_reach_is_refused(word: str, field: str) -> None:
    assert one(**{"name": None, field: word})[1] == [("error", "reserved_name", field)]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"name": None}, ("error", "missing_field", "name")),
        ({"human_input_mode": "ALWAYS"}, ("warning", "not_executed", "human_input_mode")),
        ({"llm_config_type": "base"}, ("warning", "not_executed", "llm_config_type")),
        ({"temperature": 1}, ("warning", "not_executed", "temperature")),
        ({"agent_name": "B"}, ("warning", "not_executed", "agent_name")),
        ({"model": 5}, ("error", "wrong_type", "model")),
        ({"description": []}, ("error", "wrong_type", "description")),
        ({"system_message": ["x"]}, ("error", "wrong_type", "system_message")),
        ({"auto_tool_mode": "sometimes"}, ("error", "wrong_value", "auto_tool_mode")),
        ({"structured_outputs_required": 3}, ("error", "wrong_value", "structured_outputs_required")),
        ({"prompt_sections": 5}, ("error", "wrong_type", "prompt_sections")),
        ({"prompt_sections_custom": "x"}, ("error", "wrong_type", "prompt_sections_custom")),
        ({"prompt_sections": [5]}, ("error", "wrong_type", "prompt_sections[0]")),
        ({"prompt_sections": {"role": [1]}}, ("error", "wrong_type", "prompt_sections.role")),
        ({"prompt_sections": [{"content": ["x"]}]}, ("error", "wrong_type", "prompt_sections[0].content")),
        ({"prompt_sections": [{"heading": 1, "content": "x"}]}, ("error", "wrong_type", "prompt_sections[0].heading")),
        (
            {"prompt_sections": [{"text": "x"}], "system_message": "y"},
            ("warning", "not_executed", "prompt_sections[0].text"),
        ),
        ({"prompt_sections": ["x"], "system_message": "y"}, ("warning", "two_prompts", "system_message")),
    ],
)
def test_a_fault_is_one_finding(written: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert [each for each in one(**written)[1] if each[1] != "no_agents"] == [expected]


@pytest.mark.parametrize(
    ("written", "place", "meant"),
    [
        ({"system_mesage": "x"}, "system_mesage", "system_message"),
        ({"sytem_message": "x"}, "sytem_message", "system_message"),
        ({"systemMessage": "x"}, "systemMessage", "system_message"),
        ({"system message": "x", "temperature": None}, "system message", "system_message"),
        ({"SYSTEM_MESSAGE": "x", "system_message": None}, "SYSTEM_MESSAGE", "system_message"),
        ({"prompt": "x"}, "prompt", "system_message"),
        ({"system_prompt": "x", "system_message": "  "}, "system_prompt", "system_message"),
        ({"instructions": "x"}, "instructions", "system_message"),
        ({"message": "x"}, "message", "system_message"),
        ({"promt_sections": [{"content": "x"}]}, "promt_sections", "prompt_sections"),
        ({"prompt_section": {"role": "x"}, "prompt_sections": []}, "prompt_section", "prompt_sections"),
        ({"prompt_sections": [{"heading": "H", "contents": "x"}]}, "prompt_sections[0].contents", "content"),
        ({"prompt_sections": {"role": {"text": "x"}}}, "prompt_sections.role.text", "content"),
    ],
)
def test_a_prompt_under_another_name_is_an_error(written: dict[str, Any], place: str, meant: str) -> None:
    _, findings = read({"agents": [{"name": "A", **written}]})

    assert [(finding.level, finding.code, finding.path) for finding in findings] == [
        ("error", "misspelt_prompt", f"agents[0].{place}")
    ]
    assert findings[0].message.endswith(f"did you mean {meant}?")


@pytest.mark.parametrize(
    "written",
    [
        {"system_message": "x", "prompt": "y"},
        {"prompt_sections": ["x"], "system_mesage": "y"},
        {"temperature": "high"},
        {"prompt": 5},
    ],
)
def test_an_unknown_field_beside_a_prompt_or_unlike_one_is_no_error(written: dict[str, Any]) -> None:
    assert [(level, code) for level, code, _ in one(**written)[1]] == [("warning", "not_executed")]


@pytest.mark.parametrize("replies", [True, -1, 2**70])
def test_a_number_of_replies_is_a_number(replies: object) -> None:
    assert ("error", "wrong_value", "max_consecutive_auto_reply") in one(max_consecutive_auto_reply=replies)[1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, [("error", "no_agents", "agents")]),
        ({"agents": None}, [("error", "wrong_type", "agents"), ("error", "no_agents", "agents")]),
        ({"agents": "A"}, [("error", "wrong_type", "agents"), ("error", "no_agents", "agents")]),
        ({"agents": [{"name": "A"}, {"name": "A"}]}, [("error", "duplicate_agent", "agents[1].name")]),
        ({"agents": {"A": {}, "k": {"agent_name": "A"}}}, [("error", "duplicate_agent", "agents.k.agent_name")]),
        ({"agents": ["A", {"name": "B"}, None]}, [(*WRONG, "agents[0]"), (*WRONG, "agents[2]")]),
        ({"A": {}, "B": 5}, [("error", "wrong_type", "B")]),
        ({"A": {}, True: {}}, [("error", "wrong_type", "")]),
        ({"agents": {"A": {}, 5: {}}}, [("error", "wrong_type", "agents")]),
        ({"agents": {"A": {}, "version": 5}}, [("error", "wrong_type", "agents.version")]),
        ({"agents": [{"name": "A"}], "tools": [1]}, [("warning", "not_executed", "tools")]),
    ],
)
def test_a_fault_of_the_container_is_found_where_it_is(body: Any, expected: list[tuple[str, str, str]]) -> None:
    _, findings = read(body)
    assert [(finding.level, finding.code, finding.path) for finding in findings] == expected


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "agents", "prompt_sections", "content"]) | st.integers(), inner)
    ),
    max_leaves=10,
)


@generated(st.fixed_dictionaries({"agents": junk}) | junk)
def test_anything_is_read_or_found(body: Any) -> None:
    agents, findings = read(body)
    assert agents or findings
