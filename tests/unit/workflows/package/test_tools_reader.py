"""The readers of tools and lifecycle tools: every form, and its findings."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.workflows.packages import TOOL, write_tool
from workflows.package.findings import Finding, Findings
from workflows.package.normal_form.package_model import LifecycleTool, Tool
from workflows.package.readers.section import Section
from workflows.package.readers.tools.tools_reader import read_tools

AGENTS = frozenset({"A", "B"})
FindingKey = list[tuple[str, str, str]]


def folder_of(tmp_path: Path) -> Path:
    folder = tmp_path / "P"
    if not folder.exists():
        write_tool(folder, "greet.py", TOOL + "\n\ndef part(): ...\n")
    return folder


def read(tmp_path: Path, body: Any) -> tuple[tuple[Tool, ...], tuple[LifecycleTool, ...], tuple[Finding, ...]]:
    findings = Findings()
    section = Section(body, file="tools.yaml", path="", findings=findings)
    tools, lifecycle_tools = read_tools(section, folder=folder_of(tmp_path), agents=AGENTS)
    return tools, lifecycle_tools, findings.all


def finding_keys(findings: tuple[Finding, ...]) -> FindingKey:
    return [(finding.level, finding.code, finding.path) for finding in findings]


def tool(**fields: Any) -> dict[str, Any]:
    return {"agent": "A", "file": "greet.py", "function": "greet", **fields}


def moment(**fields: Any) -> dict[str, Any]:
    return {"trigger": "before_chat", "file": "greet.py", "function": "greet", **fields}


@pytest.mark.parametrize(
    ("agent", "owners"),
    [
        ("A", ("A",)),
        (["B", "A"], ("B", "A")),
        (["A", "A"], ("A",)),
        ("all", ("A", "B")),
        ("ALL_AGENTS", ("A", "B")),
        (["all"], ("A", "B")),
    ],
)
def test_a_tool_belongs_to_one_agent_to_several_or_to_all(tmp_path: Path, agent: Any, owners: tuple[str, ...]) -> None:
    [found], _, findings = read(tmp_path, {"tools": [tool(agent=agent)]})

    assert found.agents == owners
    assert findings == ()


@pytest.mark.design("D4-36")
@pytest.mark.parametrize(
    "body",
    [
        {"tools": [tool(description="Greets.")]},
        {"tools": [tool(description="Greets.")], "lifecycle_tools": [], "schema_version": "x"},
        {"tools": [tool(description="Greets.", file="tools/greet.py", tool_type="agent_tool", bind_to_agent=True)]},
        {"tools": {"A": [tool(description="Greets.", agent=None)]}},
        {"backend_tools": {"A": [{"path": "workflows.Other.tools.greet.greet", "description": "Greets."}]}},
        {"backend_tools": {"A": [{"path": "tools.greet:greet", "description": "Greets.", "tool_id": "greet"}]}},
        {"backend_tools": [tool(description="Greets.")], "ui_tools": {}},
    ],
)
def test_every_form_of_a_tool_is_the_same_tool(tmp_path: Path, body: Any) -> None:
    tools, _, findings = read(tmp_path, body)

    assert tools == (Tool(("A",), tmp_path / "P" / "tools" / "greet.py", "greet", "Greets."),)
    assert findings == ()
    assert tools[0].is_offered


def test_a_dotted_path_may_go_deeper_and_need_not_name_tools(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write_tool(folder, "mail/send.py", TOOL)
    (folder / "top.py").write_text(TOOL)

    tools, _, findings = read(
        tmp_path,
        {
            "backend_tools": {
                "A": [{"path": "workflows.P.tools.mail.send.greet"}],
                "ALL_AGENTS": [{"path": "workflows.P.top.greet", "agent": "B"}],
            }
        },
    )

    assert [(tool.agents, tool.file) for tool in tools] == [
        (("A",), folder / "tools" / "mail" / "send.py"),
        (("B",), folder / "top.py"),
    ]
    assert findings == ()


@pytest.mark.parametrize(
    ("body", "kind", "auto_invoke"),
    [
        (
            {"tools": [tool(tool_type="UI_Tool", ui={"component": "X"}, ui_contract={"a": 1}, display="inline")]},
            "UI_Tool",
            True,
        ),
        ({"tools": [tool(tool_type="UI_Tool", auto_tool_call=False)]}, "UI_Tool", False),
        ({"tools": [tool(tool_type="UI_Surface")]}, "UI_Surface", False),
        ({"ui_tools": {"A": [{"path": "workflows.P.tools.greet.greet"}]}}, "UI_Tool", True),
    ],
)
def test_a_ui_tool_is_offered_and_needs_a_person(tmp_path: Path, body: Any, kind: str, auto_invoke: bool) -> None:
    [found], _, [finding] = read(tmp_path, body)

    assert (found.kind, found.bound, found.auto_invoke, found.is_offered) == (kind, True, auto_invoke, True)
    assert (finding.level, finding.code) == ("warning", "ui_tool_headless")
    assert "stops as needs_human, unless its trigger has an answer in ui_responses" in finding.message
    assert finding.path.endswith("[0].tool_type")
    assert not finding.is_blocking


def test_a_tool_that_is_not_bound_is_kept_but_not_offered(tmp_path: Path) -> None:
    [found], _, findings = read(tmp_path, {"tools": [tool(bind_to_agent=False, auto_tool_call=True)]})

    assert (found.bound, found.auto_invoke, found.is_offered, found.place) == (False, True, False, "tools[0]")
    assert findings == ()  # the checks across files report tools without a caller


ONE = "tools[0]"
FAULTS: list[tuple[dict[str, Any], FindingKey]] = [
    (tool(agent=None), [("error", "missing_field", f"{ONE}.agent")]),
    (tool(agent=[]), [("error", "missing_field", f"{ONE}.agent")]),
    (tool(agent="C"), [("error", "unknown_agent", f"{ONE}.agent")]),
    (tool(agent=["A", "C", "D"]), [("error", "unknown_agent", f"{ONE}.agent")] * 2),
    (tool(agent={"A": 1}), [("error", "wrong_type", f"{ONE}.agent")]),
    (tool(agent=["A", True]), [("error", "wrong_type", f"{ONE}.agent")]),
    (tool(file=None), [("error", "missing_field", f"{ONE}.file")]),
    (tool(file="no.py"), [("error", "missing_tool_file", f"{ONE}.file")]),
    (tool(file="no.py", tool_type="UI_Tool"), [("error", "missing_tool_file", f"{ONE}.file"), ("warning", "ui_tool_headless", f"{ONE}.tool_type")]),
    (tool(function=None), [("error", "missing_field", f"{ONE}.function")]),
    (tool(function="no"), [("error", "missing_tool_function", f"{ONE}.function")]),
    (tool(tool_type="Lifecycle_Tool"), [("error", "wrong_value", f"{ONE}.tool_type")]),
    (tool(tool_type=5), [("error", "wrong_type", f"{ONE}.tool_type")]),
    (tool(auto_tool_call="yes"), []),
    (tool(auto_invoke="maybe"), [("error", "wrong_value", f"{ONE}.auto_invoke")]),
    (tool(timeout_s=0), [("error", "wrong_value", f"{ONE}.timeout_s")]),
    (tool(timeout="soon"), [("error", "wrong_value", f"{ONE}.timeout_s")]),
    (tool(timeout_s="2d"), [("error", "wrong_value", f"{ONE}.timeout_s")]),
    (tool(name="hello"), [("warning", "not_executed", f"{ONE}.name")]),
    (tool(tool_id="hello"), [("warning", "not_executed", f"{ONE}.tool_id")]),
    (tool(name="greet"), []),
    (tool(outcome={"context_key": "v"}), [("warning", "not_executed", f"{ONE}.outcome")]),
    (tool(constraints=["read_only"]), [("warning", "not_executed", f"{ONE}.constraints")]),
    (tool(integration="mail"), [("warning", "not_executed", f"{ONE}.integration")]),
    (tool(ui={"component": "X"}), [("warning", "not_executed", f"{ONE}.ui")]),
    (tool(auto_invoke=False, ui=None, integration=None), []),
    (tool(ui={"component": None, "mode": None}), []),
    ({"agent": "A", "path": "greet"}, [("error", "wrong_value", f"{ONE}.path")]),
    ({"agent": "A", "path": "workflows.P.tools..greet"}, [("error", "wrong_value", f"{ONE}.path")]),
    ({"agent": "A", "path": "workflows.P.tools.no.greet"}, [("error", "missing_tool_file", f"{ONE}.path")]),
    ({"agent": "A", "path": "workflows.P.tools.greet.no"}, [("error", "missing_tool_function", f"{ONE}.path")]),
    ({"agent": "A", "path": 5}, [("error", "wrong_type", f"{ONE}.path"), ("error", "missing_field", f"{ONE}.function"), ("error", "missing_field", f"{ONE}.file")]),
]  # fmt: skip
# ruff: noqa: E501 -- one fault a line, however long


@pytest.mark.design("D4-95", "D4-96")
@pytest.mark.parametrize(("entry", "expected"), FAULTS)
def test_a_fault_of_a_tool_is_found_where_it_is(tmp_path: Path, entry: Any, expected: FindingKey) -> None:
    assert finding_keys(read(tmp_path, {"tools": [entry]})[2]) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"tools": "x"}, [("error", "wrong_type", "tools")]),
        ({"tools": ["x", None]}, [("error", "wrong_type", "tools[0]"), ("error", "wrong_type", "tools[1]")]),
        ({"backend_tools": {"A": "x"}}, [("error", "wrong_type", "backend_tools.A")]),
        ({"backend_tools": {"A": ["x"]}}, [("error", "wrong_type", "backend_tools.A[0]")]),
        ({"backend_tools": {True: []}}, [("error", "wrong_type", "backend_tools")]),
        (
            {"backend_tools": {"C": [{"path": "tools.greet.greet"}]}},
            [("error", "unknown_agent", "backend_tools.C[0].agent")],
        ),
        ({"lifecycle_tools": 5}, [("error", "wrong_type", "lifecycle_tools")]),
        ({"toolz": [1]}, [("warning", "not_executed", "toolz")]),
        ([], [("error", "wrong_type", "")]),
    ],
)
def test_a_file_of_another_shape_is_a_finding(tmp_path: Path, body: Any, expected: FindingKey) -> None:
    assert finding_keys(read(tmp_path, body)[2]) == expected


@pytest.mark.parametrize(
    ("given", "timeout_s"),
    [({}, None), ({"timeout_s": 30}, 30), ({"timeout_seconds": 0.5}, 0.5), ({"timeout": "5m"}, 300)],
)
def test_a_tool_may_declare_its_timeout(tmp_path: Path, given: dict[str, Any], timeout_s: float | None) -> None:
    [found], _, findings = read(tmp_path, {"tools": [tool(**given)]})

    assert (found.timeout_s, findings) == (timeout_s, ())


@pytest.mark.parametrize(
    ("given", "has_effects", "expected"),
    [
        ({}, True, []),
        ({"effects": "none"}, False, []),
        ({"effects": "unknown"}, True, []),
        ({"effects": None}, True, []),
        ({"effects": "few"}, True, [("error", "wrong_value", "tools[0].effects")]),
        ({"effects": False}, True, [("error", "wrong_type", "tools[0].effects")]),
    ],
    ids=str,
)
def test_a_tool_has_effects_unless_declared_otherwise(
    tmp_path: Path, given: dict[str, Any], has_effects: bool, expected: FindingKey
) -> None:
    [found], _, findings = read(tmp_path, {"tools": [tool(**given)]})

    assert (found.has_effects, finding_keys(findings)) == (has_effects, expected)


def test_two_offered_tools_of_one_agent_cannot_have_one_name(tmp_path: Path) -> None:
    _, _, findings = read(tmp_path, {"tools": [tool(), tool(agent=["B", "A"]), tool(agent="B")]})

    assert finding_keys(findings) == [("error", "duplicate_tool", f"tools[{index}].function") for index in (1, 2)]


def test_tools_that_are_not_offered_may_share_a_name(tmp_path: Path) -> None:
    hidden = [tool(bind_to_agent=False), tool(tool_type="UI_Tool", bind_to_agent=False)]

    tools, _, findings = read(tmp_path, {"tools": [tool(), *hidden, tool(agent="B")]})

    assert [tool.is_offered for tool in tools] == [True, False, False, True]
    assert not [finding for finding in findings if finding.level == "error"]


@pytest.mark.parametrize(
    ("written", "known"),
    [(each, each) for each in ("before_chat", "after_chat", "before_agent", "after_agent", "on_start", "on_complete")]
    + [("on_fail", "on_fail"), ("workflow_start", "on_start"), ("workflow_end", "on_complete")],
)
def test_a_lifecycle_tool_has_a_moment(tmp_path: Path, written: str, known: str) -> None:
    _, [found], findings = read(tmp_path, {"lifecycle_tools": [moment(trigger=written, tool_type="Lifecycle_Tool")]})

    assert (found.moment, found.agent, found.function) == (known, None, "greet")
    assert found.file == tmp_path / "P" / "tools" / "greet.py"
    assert findings == ()


FOR_A = {"trigger": "before_agent", "agent": "A"}


@pytest.mark.parametrize(
    "body",
    [
        {"lifecycle_tools": [moment(**FOR_A, description="x", id="x", kind="y", auto_invoke=True, ui={"a": None})]},
        {"lifecycle_tools": {"A": [{"path": "workflows.P.tools.greet.greet", "trigger": "before_agent"}]}},
        {"lifecycle_tools": {"before_agent": [{"path": "workflows.P.tools.greet.greet", "agent": "A"}]}},
    ],
)
def test_every_form_of_a_lifecycle_tool_is_the_same(tmp_path: Path, body: Any) -> None:
    _, found, findings = read(tmp_path, body)

    assert findings == ()
    assert found == (LifecycleTool("before_agent", "A", tmp_path / "P" / "tools" / "greet.py", "greet"),)


@pytest.mark.parametrize("agent", ["all", "ALL_AGENTS", None, ""])
def test_a_lifecycle_tool_without_an_agent_is_for_all(tmp_path: Path, agent: Any) -> None:
    assert read(tmp_path, {"lifecycle_tools": [moment(agent=agent)]})[1][0].agent is None


@pytest.mark.design("D4-67")
@pytest.mark.parametrize("written", ["begin.py", "hooks/begin.py"])
def test_a_lifecycle_tool_may_lie_in_the_hooks_folder(tmp_path: Path, written: str) -> None:
    folder = folder_of(tmp_path)
    (folder / "hooks").mkdir()
    (folder / "hooks" / "begin.py").write_text(TOOL)

    _, [found], findings = read(tmp_path, {"lifecycle_tools": [moment(file=written)]})

    assert (found.file, findings) == (folder / "hooks" / "begin.py", ())


def test_a_tool_of_an_agent_does_not_lie_in_the_hooks_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "hooks").mkdir()
    (folder / "hooks" / "begin.py").write_text(TOOL)

    findings = read(tmp_path, {"tools": [tool(file="begin.py")]})[2]

    assert [(finding.code, finding.path) for finding in findings] == [("missing_tool_file", "tools[0].file")]


LIFE = "lifecycle_tools[0]"
LIFECYCLE_FAULTS: list[tuple[dict[str, Any], FindingKey]] = [
    (moment(trigger=None), [("error", "missing_field", f"{LIFE}.trigger")]),
    (moment(agent="A"), [("warning", "not_executed", f"{LIFE}.agent")]),
    (moment(trigger="at_noon"), [("error", "wrong_value", f"{LIFE}.trigger")]),
    (moment(agent="C"), [("error", "unknown_agent", f"{LIFE}.agent")]),
    (moment(file="no.py"), [("error", "missing_tool_file", f"{LIFE}.file")]),
    (moment(function="no"), [("error", "missing_tool_function", f"{LIFE}.function")]),
    (moment(tool_type="Magic"), [("error", "wrong_value", f"{LIFE}.tool_type")]),
    (moment(auto_invoke=False), [("warning", "not_executed", f"{LIFE}.auto_invoke")]),
    (moment(ui={"component": "Card", "mode": None}), [("warning", "not_executed", f"{LIFE}.ui")]),
    (moment(tool_type="UI_Surface", ui={"component": "Card"}), [("warning", "ui_tool_headless", f"{LIFE}.tool_type")]),
    (moment(retries=3), [("warning", "not_executed", f"{LIFE}.retries")]),
]


@pytest.mark.parametrize(("entry", "expected"), LIFECYCLE_FAULTS)
def test_a_fault_of_a_lifecycle_tool_is_found_where_it_is(tmp_path: Path, entry: Any, expected: FindingKey) -> None:
    findings = read(tmp_path, {"lifecycle_tools": [entry]})[2]

    assert finding_keys(findings) == expected


def test_lifecycle_tools_keep_their_order(tmp_path: Path) -> None:
    _, found, _ = read(tmp_path, {"lifecycle_tools": [moment(), moment(trigger="on_fail"), moment()]})

    assert [finding.moment for finding in found] == ["before_chat", "on_fail", "before_chat"]


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.text(max_size=4) | st.sampled_from(["A", "greet.py", "greet", "UI_Tool", "../x", "all", "tools.greet.greet"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["agent", "file", "function", "path", "tool_type", "trigger", "A", "tools", "lifecycle_tools", "backend_tools", "ui_tools"]) | st.booleans() | st.integers(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk, junk)
def test_anything_in_the_file_is_a_finding_and_never_an_exception(tmp_path: Path, tools: Any, lifecycle: Any) -> None:
    read(tmp_path, {"tools": tools, "lifecycle_tools": lifecycle, "backend_tools": tools})
    read(tmp_path, tools)


@pytest.mark.parametrize(
    ("given", "on_error", "expected"),
    [
        ({}, "tell", []),
        ({"on_error": None}, "tell", []),
        ({"on_error": "tell"}, "tell", []),
        ({"on_error": " Fail "}, "fail", []),
        ({"on_error": "retry"}, "tell", [("error", "wrong_value", "tools[0].on_error")]),
        ({"on_error": False}, "tell", [("error", "wrong_type", "tools[0].on_error")]),
        # No model made this call, so no model gets the error.
        (
            {"on_error": "tell", "bind_to_agent": False, "auto_invoke": True},
            "tell",
            [("warning", "not_executed", "tools[0].on_error")],
        ),
        ({"on_error": "fail", "bind_to_agent": False, "auto_invoke": True}, "fail", []),
    ],
)
def test_what_a_failed_call_does(tmp_path: Path, given: dict[str, Any], on_error: str, expected: FindingKey) -> None:
    [found], _, findings = read(tmp_path, {"tools": [tool(**given)]})

    assert found.on_error == on_error
    assert finding_keys(findings) == expected
