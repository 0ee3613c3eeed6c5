"""Package files: found, read within bounds, and reported if unreadable."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.packages import (
    AGENTS,
    ORCHESTRATOR,
    TOOL,
    finding_keys,
    load,
    rule,
    write_package,
    write_tool,
)
from workflows.package.files.data_files import MAX_FILE_BYTES, read_data_file
from workflows.package.files.package_tree import compute_content_version
from workflows.package.files.yaml_reader import read_yaml
from workflows.package.findings import Finding, PackageError
from workflows.package.loader import inspect_package, load_package
from workflows.package.normal_form.package_model import EntryCounts

ALONE = {"agents": [{"name": "A", "system_message": "You are A."}]}
BOMB = "a0: &a0 x\n" + "".join(f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 10)}]\n" for i in range(8))


def refusal_of(folder: Path) -> Finding:
    inspection = inspect_package(folder)
    assert inspection.verdict == "refused"
    return next(finding for finding in inspection.findings if finding.level == "error")


def place(folder: Path) -> tuple[str, str]:
    finding = refusal_of(folder)
    return finding.code, finding.file


@pytest.mark.design("D4-70")
@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_yaml_and_json_are_read_with_and_without_a_byte_order_mark(tmp_path: Path, suffix: str, mark: str) -> None:
    for stem, body in (("orchestrator", ORCHESTRATOR), ("agents", AGENTS)):
        (tmp_path / f"{stem}{suffix}").write_text(mark + json.dumps(body), encoding="utf-8")

    package = load_package(tmp_path)

    assert (package.name, list(package.agents), package.is_refused) == ("Small", ["A", "B"], False)


@pytest.mark.parametrize("missing", ["orchestrator", "agents"])
def test_a_package_without_one_of_its_two_files_names_the_missing_one(tmp_path: Path, missing: str) -> None:
    write_package(tmp_path / "P", **{missing: None})

    assert place(tmp_path / "P") == ("missing_file", missing)
    assert load_package(tmp_path / "P").is_refused


def test_a_folder_with_neither_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text("[]")
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(PackageError) as caught:
            load_package(folder)
        assert (caught.value.finding.code, caught.value.finding.file) == ("not_a_package", str(folder))


@pytest.mark.parametrize("files", [["workflow.json"], ["workflow.json", "agents.py", "tools.yaml"]])
def test_a_package_of_the_first_era_is_recognised_and_refused(tmp_path: Path, files: list[str]) -> None:
    for name in files:
        (tmp_path / name).write_text("{}")

    assert place(tmp_path) == ("unsupported_era", "workflow.json")
    with pytest.raises(PackageError, match="first format"):
        load_package(tmp_path)


def test_every_file_is_read_alone_so_that_all_faults_are_reported_at_once(tmp_path: Path) -> None:
    folder = write_package(
        tmp_path / "P",
        agents="agents: [",
        tools="tools: [a: b: c]",
        context_variables={"definitions": {"v": {"type": "nothing"}, "w": {}}},
        handoffs={"handoff_rules": [rule("A", "B"), rule("B", "terminate")]},
    )

    inspection = inspect_package(folder)

    # Unknown agents are not reported if the agents file is unreadable.
    found = [finding for finding in inspection.findings if finding.level == "error"]
    assert [(finding.code, finding.file, finding.path) for finding in found] == [
        ("unreadable", "agents.yaml", ""),
        ("unreadable", "tools.yaml", ""),
        ("wrong_value", "context_variables.yaml", "definitions.v.type"),
    ]
    assert [(str(finding).count("line"), str(finding).count(":2")) for finding in found[:2]] == [(1, 0), (1, 0)]
    assert inspection.counts == EntryCounts(variables=2, handoffs=2)
    assert inspection.name == "Small"


def test_a_package_whose_orchestrator_cannot_be_read_has_its_folders_name(tmp_path: Path) -> None:
    inspection = inspect_package(write_package(tmp_path / "P", orchestrator="- ["))

    assert (inspection.name, inspection.verdict, inspection.counts.agents) == ("P", "refused", 2)
    assert [(finding.code, finding.file) for finding in inspection.findings] == [("unreadable", "orchestrator.yaml")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"visual_agents": ["A"]}, {("info", "ui_only", "ui_config.yaml", "")}),
        ({"theme": {"name": "dark"}, "x": None}, {("info", "ui_only", "ui_config.yaml", "")}),
        ({"schema_version": "v1", "visual_agents": None, "theme": {"name": ""}}, set()),
        ("", set()),
        ("[]", set()),
        ("visual_agents: [", {("error", "unreadable", "ui_config.yaml", "")}),
        (BOMB, {("error", "unreadable", "ui_config.yaml", "")}),
        ("x" * (MAX_FILE_BYTES + 1), {("error", "file_too_large", "ui_config.yaml", "")}),
    ],
    ids=["agents", "theme", "nothing", "empty", "list", "damage", "bomb", "large"],
)
def test_the_user_interface_file_is_read_and_its_content_ignored(tmp_path: Path, body: Any, expected: set[Any]) -> None:
    assert finding_keys(load(tmp_path, agents=ALONE, ui_config=body)) == expected


def test_the_user_interface_stands_once_and_in_the_package(tmp_path: Path) -> None:
    twice = write_package(tmp_path / "Twice", agents=ALONE, ui_config="{}")
    (twice / "ui_config.json").write_text("{}")
    linked = write_package(tmp_path / "Linked", agents=ALONE)
    (tmp_path / "outside.yaml").write_text("{}")
    (linked / "ui_config.yaml").symlink_to(tmp_path / "outside.yaml")

    assert finding_keys(load_package(twice)) == {("error", "two_files", "ui_config.yaml", "")}
    assert finding_keys(load_package(linked)) == {("error", "leaves_package", "ui_config.yaml", "")}


def test_what_is_no_package_file_is_ignored_quietly(tmp_path: Path) -> None:
    folder = write_package(tmp_path, agents=ALONE)
    for name in ("InterviewAgentPrompt.json", "_pack/agents.yaml", "data/rows.json", "__init__.py", "notes.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{")

    assert load_package(folder).findings == ()


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json"])
@pytest.mark.parametrize("root", ["batches", "conveyors"])
def test_task_batches_are_reported_and_keep_runs_from_starting(tmp_path: Path, suffix: str, root: str) -> None:
    folder = write_package(tmp_path, agents=ALONE)
    (folder / "extended_orchestration").mkdir()
    (folder / "extended_orchestration" / f"task_batches{suffix}").write_text(f'{{"{root}": [{{"id": "one"}}]}}')

    package = load_package(folder)

    assert finding_keys(package) == {("warning", "task_batches", f"extended_orchestration/task_batches{suffix}", "")}
    assert not package.is_refused
    assert [finding.code for finding in package.findings if finding.is_blocking] == ["task_batches"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("batches: [{name: x}]", [("warning", "wrong_type", "batches[0]"), ("warning", "task_batches", "")]),
        ("batches: 5", [("warning", "wrong_type", "batches"), ("warning", "task_batches", "")]),
        ("[1, 2]", [("warning", "wrong_type", ""), ("warning", "task_batches", "")]),
        ("batches: [", [("error", "unreadable", "")]),
    ],
)
def test_task_batches_of_any_shape_are_read(tmp_path: Path, text: str, found: list[tuple[str, str, str]]) -> None:
    folder = write_package(tmp_path, agents=ALONE)
    (folder / "extended_orchestration").mkdir()
    (folder / "extended_orchestration" / "task_batches.yaml").write_text(text)

    inspection = inspect_package(folder)

    assert [(finding.level, finding.code, finding.path) for finding in inspection.findings] == found
    assert {finding.file for finding in inspection.findings} <= {"extended_orchestration/task_batches.yaml"}


def test_two_files_for_one_stem_are_refused(tmp_path: Path) -> None:
    write_package(tmp_path)
    (tmp_path / "agents.json").write_text("{}")

    assert place(tmp_path) == ("two_files", "agents.yaml")
    assert "agents.yaml and agents.json both exist" in refusal_of(tmp_path).message


def test_broken_yaml_is_reported_with_file_line_and_column(tmp_path: Path) -> None:
    write_package(tmp_path, agents="agents:\n  - name: A\n   role: x\n")

    assert place(tmp_path) == ("unreadable", "agents.yaml")
    assert refusal_of(tmp_path).message.startswith("line 3, column 4: ")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("agents:\n\t- name: A\n", "does not allow tabs"),
        ("agents: [{name: A, system_message: Hello ${x}.}]\n", "quote text"),
        ("system_message: Note: be brief\n", "quote text"),
        ("system_message: {{x}} is due\n", "quote text"),
        ("system_message: @you\n", "quote text"),
    ],
)
def test_broken_yaml_is_reported_with_its_remedy(tmp_path: Path, text: str, advice: str) -> None:
    write_package(tmp_path, agents=text)

    assert advice in refusal_of(tmp_path).message


@pytest.mark.parametrize(
    ("name", "meant"),
    [("handoff.yaml", "handoffs"), ("context-variables.json", "context_variables"), ("Tools.YML", "tools")],
)
def test_a_file_whose_name_is_misspelt_is_not_left_out_in_silence(tmp_path: Path, name: str, meant: str) -> None:
    for unrelated in ("data.json", "variables.yaml", "notes.txt"):
        (tmp_path / unrelated).write_text("{}")
    (tmp_path / name).write_text("{}")

    (finding,) = load(tmp_path, agents=ALONE).findings

    assert (finding.level, finding.code, finding.file) == ("warning", "unknown_file", name)
    assert finding.message.endswith(f"did you mean {meant}.yaml?")


def test_broken_json_is_reported_with_file_line_and_column(tmp_path: Path) -> None:
    write_package(tmp_path)
    (tmp_path / "tools.json").write_text('{\n  "tools": [,]\n}')

    assert place(tmp_path) == ("unreadable", "tools.json")
    assert refusal_of(tmp_path).message.startswith("line 2, column 13: ")
    assert "no comma before a closing bracket" in refusal_of(tmp_path).message


@pytest.mark.parametrize(
    "text",
    [
        b"a: \xff",
        b"a: \x00",
        b"a: *nowhere",
        b"a: !!python/object/apply:os.system [id]",
        b"a: !!int x",
        b"a: !!bool x",
        b"a: !!timestamp x",
        b"a: " + b"9" * 5000,
        b"[" * 20_000,
        b"? {a: 1}\n: 2",
        b"a: 1\n---\nb: 2",
        b"&a [*a]",
        b"a: &x {b: {c: *x}}",
    ],
)
def test_unreadable_yaml_is_a_package_error(tmp_path: Path, text: bytes) -> None:
    (write_package(tmp_path) / "tools.yaml").write_bytes(text)

    assert place(tmp_path) == ("unreadable", "tools.yaml")
    assert "\n" not in str(refusal_of(tmp_path))


@pytest.mark.parametrize("text", [b"{", b"[" * 20_000, b"9" * 5000, b'{"a": "\xff"}', b"{'a': 1}"])
def test_unreadable_json_is_a_package_error(tmp_path: Path, text: bytes) -> None:
    (write_package(tmp_path) / "tools.json").write_bytes(text)
    assert place(tmp_path) == ("unreadable", "tools.json")


def test_an_alias_bomb_is_refused_before_it_goes_off(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 11)]
    write_package(tmp_path, context_variables="\n".join(lines))

    assert place(tmp_path) == ("unreadable", "context_variables.yaml")
    assert "aliases" in refusal_of(tmp_path).message


def test_a_long_text_repeated_by_aliases_is_refused(tmp_path: Path) -> None:
    write_package(tmp_path, tools=f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 50)}]")
    assert place(tmp_path) == ("unreadable", "tools.yaml")


def test_honest_aliases_and_merges_are_read() -> None:
    text = "base: &base {a: 1}\nlist: [" + "*base, " * 500 + "]\nmerged: {<<: *base, b: 2}"

    data = read_yaml(text).data

    assert data["merged"] == {"a": 1, "b": 2}
    assert len(data["list"]) == 500


def test_a_date_stays_text_since_run_documents_have_none() -> None:
    assert read_yaml("{day: 2026-01-31, odd: 2026-02-30, at: 2026-01-31T10:00:00Z}").data == {
        "day": "2026-01-31",
        "odd": "2026-02-30",
        "at": "2026-01-31T10:00:00Z",
    }


def test_a_file_above_the_bound_is_not_read(tmp_path: Path) -> None:
    write_package(tmp_path)
    with (tmp_path / "tools.yaml").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1024 * 1024)

    assert place(tmp_path) == ("file_too_large", "tools.yaml")


@pytest.mark.parametrize("name", ["empty.yaml", "empty.json"])
@pytest.mark.parametrize("text", ["", "  \n", "\ufeff"])
def test_an_empty_file_is_an_empty_mapping(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_data_file(tmp_path / name) == {}


def test_a_data_file_that_links_out_of_the_package_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_text("tools: []")
    folder = write_package(tmp_path / "P")
    (folder / "tools.yaml").symlink_to(outside)

    assert place(folder) == ("leaves_package", "tools.yaml")


@pytest.mark.parametrize("stem", ["orchestrator", "agents", "tools"])
@pytest.mark.parametrize("kind", ["directory", "pipe", "dangling link"])
def test_what_is_no_file_is_refused_by_name_and_never_waited_for(tmp_path: Path, stem: str, kind: str) -> None:
    folder = write_package(tmp_path, **{stem: None})
    put_in_place(folder / f"{stem}.yaml", kind)

    assert place(folder) == ("unreadable", f"{stem}.yaml")
    assert "is not a regular file" in refusal_of(folder).message


def put_in_place(path: Path, kind: str) -> None:
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere.yaml")


def test_links_inside_the_package_are_fine(tmp_path: Path) -> None:
    """Mounted ConfigMaps have such links."""
    folder = tmp_path / "P"
    write_package(folder / "..2026")
    (folder / "..data").symlink_to("..2026")
    for name in ("agents.yaml", "orchestrator.yaml"):
        (folder / name).symlink_to(f"..data/{name}")

    assert not load_package(folder).is_refused


def test_a_linked_folder_is_the_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(write_package(tmp_path / "P"))
    assert load_package(tmp_path / "link").folder == tmp_path / "P"


def test_a_file_that_cannot_be_opened_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package(tmp_path)

    def deny(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", deny)

    found = [(finding.code, finding.file) for finding in inspect_package(tmp_path).findings]
    assert sorted(found) == [("unreadable", "agents.yaml"), ("unreadable", "orchestrator.yaml")]
    assert "Permission denied" in refusal_of(tmp_path).message


@pytest.mark.design("D4-107")
def test_the_version_follows_every_file_a_run_may_use(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P")
    tool = write_tool(folder, "greet.py", TOOL)
    versions = [compute_content_version(folder)]

    tool.write_text(TOOL.replace("hello", "howdy"))
    versions.append(compute_content_version(folder))
    tool.rename(tool.with_name("other.py"))
    versions.append(compute_content_version(folder))
    shared = tmp_path / "_shared" / "common.py"
    shared.parent.mkdir()
    shared.write_text("x = 1")
    versions.append(compute_content_version(folder))
    shared.write_text("x = 2")
    versions.append(compute_content_version(folder))

    assert len(set(versions)) == len(versions)


def test_the_version_does_not_follow_place_time_or_bytecode(tmp_path: Path) -> None:
    one, other = write_package(tmp_path / "a" / "P"), write_package(tmp_path / "b" / "Q")
    (other / "tools" / "__pycache__").mkdir(parents=True)
    (other / "tools" / "__pycache__" / "x.pyc").write_bytes(b"x")

    assert compute_content_version(one) == compute_content_version(other)


@pytest.mark.parametrize("wrapper", ["context_variables", "ContextVariablesPlan"])
def test_wrapped_bodies_are_unwrapped(tmp_path: Path, wrapper: str) -> None:
    package = load(
        tmp_path,
        orchestrator={"orchestrator": ORCHESTRATOR},
        agents={"agents": {"A": {"system_message": "x"}}, "schema_version": "mozaiks.agents.v1"},
        context_variables={wrapper: {"definitions": {"v": {"source": {"type": "state"}}}}},
        handoffs={"handoffs": {"handoff_rules": [{"source_agent": "A", "target_agent": "terminate"}]}},
    )

    assert not package.is_refused, package.findings
    assert (package.name, list(package.agents), list(package.variables)) == ("Small", ["A"], ["v"])
    assert [(rule.source, rule.target) for rule in package.rules] == [("A", "terminate")]


def test_a_wrapper_that_holds_nothing_is_no_variable(tmp_path: Path) -> None:
    inspection = inspect_package(
        write_package(tmp_path, agents=ALONE, context_variables={"context_variables": None}, tools={"tools": None})
    )

    assert (inspection.verdict, inspection.counts.variables) == ("ready", 0)


def test_descriptive_fields_of_any_file_are_no_findings(tmp_path: Path) -> None:
    about = {"$schema": "../schemas/file.schema.json", "schema_version": "v1", "version": 1}
    folder = write_package(
        tmp_path,
        orchestrator={**ORCHESTRATOR, **about},
        agents={**ALONE, **about},
        context_variables={**about, "definitions": {}},
        handoffs={**about, "handoff_rules": []},
        tools={**about, "tools": []},
        structured_outputs={**about, "models": {}},
        hooks={**about, "hooks": []},
        triggers={**about, "triggers": []},
    )

    assert inspect_package(folder).findings == ()


def test_a_finding_about_an_agent_names_its_place_in_the_list(tmp_path: Path) -> None:
    package = load(tmp_path, agents={"agents": [{"name": "A", "system_message": "Use ${no}."}]})

    assert finding_keys(package) == {("warning", "unknown_in_prompt", "agents.yaml", "agents[0]")}
