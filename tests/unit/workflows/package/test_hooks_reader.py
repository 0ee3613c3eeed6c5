"""The reader of hooks and prompt middleware: every form, and its findings."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.workflows.packages import TOOL, write_tool
from workflows.package.findings import Finding, Findings
from workflows.package.normal_form.package_model import Hook, LifecycleTool
from workflows.package.readers.section import Section
from workflows.package.readers.tools.hooks_reader import read_hooks

AGENTS = frozenset({"A", "B"})
FindingKey = list[tuple[str, str, str]]


def read(tmp_path: Path, body: Any) -> tuple[tuple[Hook, ...], tuple[Finding, ...]]:
    hooks, _, findings = read_all(tmp_path, body)
    return hooks, findings


def moments(tmp_path: Path, body: Any) -> tuple[tuple[LifecycleTool, ...], tuple[Finding, ...]]:
    _, tools, findings = read_all(tmp_path, body)
    return tools, findings


def read_all(tmp_path: Path, body: Any) -> tuple[tuple[Hook, ...], tuple[LifecycleTool, ...], tuple[Finding, ...]]:
    folder = tmp_path / "P"
    if not folder.exists():
        write_tool(folder, "greet.py", TOOL)
        (folder / "hooks").mkdir()
        (folder / "hooks" / "own.py").write_text(TOOL)
        (folder / "hooks" / "before_chat.py").write_text("def before_chat(context_variables): ...\n")
    findings = Findings()
    section = Section(body, file="hooks.yaml", path="", findings=findings)
    return (*read_hooks(section, folder=folder, agents=AGENTS), findings.all)


def finding_keys(findings: tuple[Finding, ...]) -> FindingKey:
    return [(finding.level, finding.code, finding.path) for finding in findings]


def hook(**fields: Any) -> dict[str, Any]:
    return {
        "hook_type": "update_agent_state",
        "hook_agent": "A",
        "filename": "greet.py",
        "function": "greet",
        **fields,
    }


def moment(**fields: Any) -> dict[str, Any]:
    return {"trigger": "before_chat", "filename": "hooks/before_chat.py", "integration": None, **fields}


@pytest.mark.parametrize(
    "body",
    [
        {"hooks": [hook()]},
        {"hooks": [hook(filename="tools/greet.py", description="Greets.")], "schema_version": "x"},
        {"hooks": [hook(filename=None, file="greet.py")]},
        {
            "hooks": [
                hook(filename=None, files=[{"filename": "greet.py", "filecontent": "..."}], function="greet:greet")
            ]
        },
        {"hooks": [hook(filename=None, function="greet:greet")]},
        {"hooks": [hook(filename=None, function="tools.greet.greet")]},
        {"prompt_middleware": [{"agent": "A", "filename": "greet.py", "function": "greet"}]},
        {"prompt_middleware": [{"agent": "A", "filename": "greet.py", "function": "greet"}], "hooks": []},
    ],
)
def test_every_form_of_a_hook_is_the_same_hook(tmp_path: Path, body: Any) -> None:
    hooks, findings = read(tmp_path, body)

    assert hooks == (Hook("update_agent_state", "A", tmp_path / "P" / "tools" / "greet.py", "greet"),)
    assert findings == ()


@pytest.mark.parametrize(
    "kind",
    [
        "update_agent_state",
        "process_message_before_send",
        "process_last_received_message",
        "process_all_messages_before_reply",
    ],
)
@pytest.mark.parametrize("agent", ["all", "ALL_AGENTS", "B"])
def test_a_hook_has_one_of_four_kinds_and_an_agent_or_all(tmp_path: Path, kind: str, agent: str) -> None:
    [found], _ = read(tmp_path, {"hooks": [hook(hook_type=kind, hook_agent=agent)]})

    assert (found.kind, found.agent) == (kind, "B" if agent == "B" else "all")


def test_a_hook_may_lie_in_the_hooks_folder_or_in_shared(tmp_path: Path) -> None:
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared" / "both.py").write_text(TOOL)

    hooks, findings = read(tmp_path, {"hooks": [hook(filename="own.py"), hook(filename="../_shared/both.py")]})

    assert [hook.file for hook in hooks] == [tmp_path / "P" / "hooks" / "own.py", tmp_path / "_shared" / "both.py"]
    assert findings == ()


ONE = "hooks[0]"
FAULTS: list[tuple[dict[str, Any], FindingKey]] = [
    (hook(hook_type=None), [("error", "missing_field", f"{ONE}.hook_type")]),
    (hook(hook_type="at_noon"), [("error", "wrong_value", f"{ONE}.hook_type")]),
    (hook(hook_agent=None), [("error", "missing_field", f"{ONE}.hook_agent")]),
    (hook(hook_agent="C"), [("error", "unknown_agent", f"{ONE}.hook_agent")]),
    (hook(filename=None), [("error", "missing_field", f"{ONE}.filename")]),
    (hook(filename="no.py"), [("error", "missing_hook_file", f"{ONE}.filename")]),
    (hook(filename="../no.py"), [("error", "leaves_package", f"{ONE}.filename")]),
    (hook(function="no"), [("error", "missing_hook_function", f"{ONE}.function")]),
    (hook(function="greet:no"), [("error", "missing_hook_function", f"{ONE}.function")]),
    (hook(function=None), [("error", "missing_field", f"{ONE}.function")]),
    (hook(filename=None, function="no:greet"), [("error", "missing_hook_file", f"{ONE}.function")]),
    (hook(filename=None, files=[{"filename": "no.py"}]), [("error", "missing_hook_file", f"{ONE}.files[0].filename")]),
    (hook(filename=None, files=[{}]), [("error", "missing_field", f"{ONE}.files[0].filename"), ("error", "missing_field", f"{ONE}.filename")]),
    (hook(filename=None, files=["x"]), [("error", "wrong_type", f"{ONE}.files[0]"), ("error", "missing_field", f"{ONE}.filename")]),
    (hook(filename=None, files=[{"filename": "greet.py"}] * 2), [("warning", "not_executed", f"{ONE}.files")]),
    (hook(priority=3), [("warning", "not_executed", f"{ONE}.priority")]),
]  # fmt: skip
# ruff: noqa: E501 -- one fault a line, however long


@pytest.mark.design("D4-100")
@pytest.mark.parametrize(("entry", "expected"), FAULTS)
def test_a_fault_of_a_hook_is_found_where_it_is(tmp_path: Path, entry: Any, expected: FindingKey) -> None:
    findings = read(tmp_path, {"hooks": [entry]})[1]

    assert finding_keys(findings) == expected


def test_a_function_without_a_file_is_one_of_another_runtime(tmp_path: Path) -> None:
    hooks, findings = read(tmp_path, {"prompt_middleware": [{"agent": "A", "function": "other.runtime.inject"}]})

    assert hooks == ()
    assert finding_keys(findings) == [
        ("warning", "foreign_import", "prompt_middleware[0].function"),
    ]
    assert all(finding.is_blocking for finding in findings)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"hooks": 5}, [("error", "wrong_type", "hooks")]),
        ({"hooks": ["x"]}, [("error", "wrong_type", "hooks[0]")]),
        ({"hooks": [], "prompt_middleware": None}, []),
        (
            {"hook_files": [{"filename": "own.py", "function": "greet"}]},
            [("error", "missing_field", "hook_files[0].trigger")],
        ),
        ({"hook_files": []}, []),
        ({"reply_middleware": [1]}, [("warning", "not_executed", "reply_middleware")]),
        ([1], [("error", "wrong_type", "")]),
    ],
)
def test_a_file_of_another_shape_is_a_finding(tmp_path: Path, body: Any, expected: FindingKey) -> None:
    assert finding_keys(read(tmp_path, body)[1]) == expected


def test_hooks_and_middleware_in_one_file_are_all_read(tmp_path: Path) -> None:
    middleware = {"agent": "A", "filename": "greet.py", "function": "greet"}

    hooks, findings = read(tmp_path, {"hooks": [hook(), hook()], "prompt_middleware": [middleware]})

    assert len(hooks) == 3
    assert findings == ()


@pytest.mark.parametrize("entry", [moment(filename="a.py"), hook(filename="a.py")])
@pytest.mark.parametrize("key", ["hooks", "hook_files"])
def test_code_without_its_file_keeps_the_package_from_starting(tmp_path: Path, key: str, entry: Any) -> None:
    hooks, tools, [finding] = read_all(tmp_path, {key: [{**entry, "content": "def a(): ..."}]})

    assert (hooks, tools) == ((), ())
    assert (finding.code, finding.is_blocking, finding.path) == ("hooks_not_executed", True, f"{key}[0].content")
    assert "write it to a.py" in finding.message


BEFORE_CHAT = ("hooks", "before_chat.py")


@pytest.mark.design("D4-66", "D4-71")
@pytest.mark.parametrize(
    ("entry", "expected", "file"),
    [
        (moment(), ("before_chat", None, "before_chat"), BEFORE_CHAT),
        (moment(filename="before_chat.py"), ("before_chat", None, "before_chat"), BEFORE_CHAT),
        (moment(filename=None, file="before_chat.py"), ("before_chat", None, "before_chat"), BEFORE_CHAT),
        (moment(trigger="workflow_end", function="before_chat"), ("on_complete", None, "before_chat"), BEFORE_CHAT),
        (moment(filename="greet.py"), ("before_chat", None, "greet"), ("tools", "greet.py")),
        (moment(filename=None, function="own:greet"), ("before_chat", None, "greet"), ("hooks", "own.py")),
        (moment(trigger="after_agent", hook_agent="A"), ("after_agent", "A", "before_chat"), BEFORE_CHAT),
        (moment(trigger="before_agent", agent="B"), ("before_agent", "B", "before_chat"), BEFORE_CHAT),
        (moment(trigger="before_agent", hook_agent="all"), ("before_agent", None, "before_chat"), BEFORE_CHAT),
    ],
)
@pytest.mark.parametrize("key", ["hooks", "hook_files"])
def test_an_entry_with_a_trigger_is_a_lifecycle_tool(
    tmp_path: Path, key: str, entry: Any, expected: tuple[str, str | None, str], file: tuple[str, ...]
) -> None:
    [tool], findings = moments(tmp_path, {key: [entry]})

    assert (tool.moment, tool.agent, tool.function) == expected
    assert tool.file == (tmp_path / "P").joinpath(*file)
    assert findings == ()


def test_one_list_may_hold_hooks_and_lifecycle_tools(tmp_path: Path) -> None:
    written = [moment(trigger="on_fail"), hook(), moment(trigger="on_start")]

    hooks, tools, findings = read_all(tmp_path, {"hooks": written, "hook_files": [*written]})

    assert len(hooks) == 2
    assert [tool.moment for tool in tools] == ["on_fail", "on_start"] * 2
    assert findings == ()


FAULTS_OF_MOMENTS: list[tuple[dict[str, Any], FindingKey]] = [
    (moment(content="old code"), [("warning", "not_executed", f"{ONE}.content")]),
    (moment(content=""), []),
    (moment(integration="Stripe"), [("warning", "not_executed", f"{ONE}.integration")]),
    (moment(trigger="at_noon"), [("error", "wrong_value", f"{ONE}.trigger")]),
    (moment(hook_type="update_agent_state"), [("error", "wrong_value", f"{ONE}.trigger")]),
    (moment(hook_agent="A"), [("warning", "not_executed", f"{ONE}.hook_agent")]),
    (moment(agent="A"), [("warning", "not_executed", f"{ONE}.agent")]),
    (moment(trigger="after_agent", agent="C"), [("error", "unknown_agent", f"{ONE}.agent")]),
    (moment(filename="own.py"), [("error", "missing_hook_function", f"{ONE}.filename")]),
    (moment(function="no"), [("error", "missing_hook_function", f"{ONE}.function")]),
    (moment(filename="no.py"), [("error", "missing_hook_file", f"{ONE}.filename")]),
    (moment(filename="no.py", content=""), [("error", "missing_hook_file", f"{ONE}.filename")]),
    (moment(filename=None), [("error", "missing_field", f"{ONE}.filename")]),
    (moment(colour="red"), [("warning", "not_executed", f"{ONE}.colour")]),
]


@pytest.mark.parametrize(("entry", "expected"), FAULTS_OF_MOMENTS)
def test_a_fault_of_a_lifecycle_entry_is_found_where_it_is(tmp_path: Path, entry: Any, expected: FindingKey) -> None:
    assert finding_keys(moments(tmp_path, {"hooks": [entry]})[1]) == expected


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.text(max_size=4) | st.sampled_from(["A", "greet.py", "a.b.c", "a:b", ":", "."]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["agent", "hook_agent", "filename", "function", "files", "hook_type", "trigger", "content"]) | st.booleans(), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk)
def test_anything_in_the_file_is_a_finding_and_never_an_exception(tmp_path: Path, body: Any) -> None:
    read(tmp_path, {"hooks": body, "hook_files": body, "prompt_middleware": [body]})
    read(tmp_path, body)
