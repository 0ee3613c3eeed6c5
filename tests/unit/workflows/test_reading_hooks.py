"""Hooks and prompt middleware: every form in which authors write them, and what is said about it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.workflows.packages import TOOL, write_tool
from workflows.package.findings import Finding, Findings
from workflows.package.models import Hook
from workflows.package.reading.hooks import read_hooks
from workflows.package.reading.section import Section

AGENTS = frozenset({"A", "B"})
Said = list[tuple[str, str, str]]


def read(tmp_path: Path, body: Any) -> tuple[tuple[Hook, ...], tuple[Finding, ...]]:
    folder = tmp_path / "P"
    if not folder.exists():
        write_tool(folder, "greet.py", TOOL)
        (folder / "hooks").mkdir()
        (folder / "hooks" / "own.py").write_text(TOOL)
    findings = Findings()
    section = Section(body, file="hooks.yaml", path="", findings=findings)
    return read_hooks(section, folder=folder, agents=AGENTS), findings.all


def said(findings: tuple[Finding, ...]) -> Said:
    return [(each.level, each.code, each.path) for each in findings]


def hook(**given: Any) -> dict[str, Any]:
    return {
        "hook_type": "update_agent_state",
        "hook_agent": "A",
        "filename": "greet.py",
        "function": "greet",
        **given,
    }


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

    assert [each.file for each in hooks] == [tmp_path / "P" / "hooks" / "own.py", tmp_path / "_shared" / "both.py"]
    assert findings == ()


ONE = "hooks[0]"
FAULTS: list[tuple[dict[str, Any], Said]] = [
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
def test_a_fault_of_a_hook_is_found_where_it_is(tmp_path: Path, entry: Any, expected: Said) -> None:
    findings = read(tmp_path, {"hooks": [entry]})[1]

    assert said(findings) == expected


def test_a_function_without_a_file_is_one_of_another_runtime(tmp_path: Path) -> None:
    hooks, findings = read(tmp_path, {"prompt_middleware": [{"agent": "A", "function": "other.runtime.inject"}]})

    assert hooks == ()
    assert said(findings) == [
        ("warning", "foreign_import", "prompt_middleware[0].function"),
    ]
    assert all(each.blocks for each in findings)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"hooks": 5}, [("error", "wrong_type", "hooks")]),
        ({"hooks": ["x"]}, [("error", "wrong_type", "hooks[0]")]),
        ({"hooks": [], "prompt_middleware": None}, []),
        (
            {"hook_files": [{"filename": "hooks/a.py", "content": ""}]},
            [("warning", "hooks_not_executed", "hook_files")],
        ),
        ({"hook_files": []}, []),
        ({"reply_middleware": [1]}, [("warning", "not_executed", "reply_middleware")]),
        ([1], [("error", "wrong_type", "")]),
    ],
)
def test_a_file_of_another_shape_is_a_finding(tmp_path: Path, body: Any, expected: Said) -> None:
    assert said(read(tmp_path, body)[1]) == expected


def test_hooks_and_middleware_in_one_file_are_all_read(tmp_path: Path) -> None:
    middleware = {"agent": "A", "filename": "greet.py", "function": "greet"}

    hooks, findings = read(tmp_path, {"hooks": [hook(), hook()], "prompt_middleware": [middleware]})

    assert len(hooks) == 3
    assert findings == ()


def test_code_in_the_file_itself_keeps_the_package_from_starting(tmp_path: Path) -> None:
    _, [finding] = read(tmp_path, {"hooks": [hook()], "hook_files": [{"filename": "a.py", "content": "x"}]})

    assert (finding.code, finding.blocks) == ("hooks_not_executed", True)
    assert "name them under hooks" in finding.message


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.text(max_size=4) | st.sampled_from(["A", "greet.py", "a.b.c", "a:b", ":", "."]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["agent", "hook_agent", "filename", "function", "files", "hook_type"]) | st.booleans(), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk)
def test_anything_in_the_file_is_a_finding_and_never_an_exception(tmp_path: Path, body: Any) -> None:
    read(tmp_path, {"hooks": body, "prompt_middleware": [body]})
    read(tmp_path, body)
