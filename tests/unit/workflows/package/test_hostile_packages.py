"""Hostile packages: refused with a finding, before they cost time, memory or the process."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.packages import TOOL, load, write_package, write_tool
from workflows.package.files.package_files import read_package_files
from workflows.package.files.package_tree import MAX_FOLDER_DEPTH, MAX_TREE_BYTES, compute_content_version, read_tree
from workflows.package.findings import MAX_FINDINGS, MAX_MESSAGE_CHARACTERS, Findings
from workflows.package.loader import Inspection, inspect_package

SECONDS = 1.0
ALONE = {"agents": [{"name": "A", "system_message": "You are A."}]}
BRACKETS = "[" * 100_000 + "]" * 100_000
ALIASES = "\n".join(f"- &a{number} x" for number in range(150_000))
BOMB = "\n".join(["a0: &a0 [x, x, x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40))])
LADDER = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 5_000))])


def package(folder: Path, **files: Any) -> Path:
    return write_package(folder / "P", **{"agents": ALONE, **files})


def inspection_of(folder: Path) -> Inspection:
    began = time.process_time()  # of this process alone: others use the cores too
    inspection = inspect_package(folder)
    assert time.process_time() - began < SECONDS
    return inspection


def tree_codes(folder: Path, *, max_files: int) -> list[tuple[str, str, str]]:
    return [(problem.level, problem.code, problem.file) for problem in read_tree(folder, max_files=max_files).problems]


def finding_codes(folder: Path) -> list[tuple[str, str, str]]:
    return [(finding.level, finding.code, finding.file) for finding in inspection_of(folder).findings]


@pytest.mark.parametrize(
    "text",
    [BRACKETS, "- " * 100_000 + "x", "? " * 100_000 + "x", "{a: " * 100_000 + "}" * 100_000, LADDER],
    ids=["brackets", "dashes", "keys", "braces", "a ladder of aliases"],
)
def test_deep_nesting_in_yaml_is_refused(tmp_path: Path, text: str) -> None:
    folder = package(tmp_path, tools=text)

    assert finding_codes(folder) == [("error", "unreadable", "tools.yaml")]
    assert "nested too deeply" in inspection_of(folder).findings[0].message


@pytest.mark.parametrize("levels", [150, 900, 100_000])
def test_deep_nesting_in_json_is_refused(tmp_path: Path, levels: int) -> None:
    (package(tmp_path) / "tools.json").write_text("[" * levels + "]" * levels)
    assert finding_codes(tmp_path / "P") == [("error", "unreadable", "tools.json")]


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_what_is_nested_as_deep_as_may_be_is_read_by_all_readers(tmp_path: Path, suffix: str) -> None:
    (package(tmp_path) / f"tools.{suffix}").write_text("[" * 99 + "]" * 99)
    assert {finding.code for finding in inspection_of(tmp_path / "P").findings} == {"wrong_type"}


@pytest.mark.parametrize("text", [ALIASES, BOMB, "[" + "x," * 150_000 + "]"], ids=["anchors", "bomb", "entries"])
def test_more_than_a_package_can_mean_is_refused(tmp_path: Path, text: str) -> None:
    folder = package(tmp_path, context_variables=text)

    assert finding_codes(folder) == [("error", "unreadable", "context_variables.yaml")]
    assert "is too large: more than" in inspection_of(folder).findings[0].message


def test_more_json_than_a_package_can_mean_is_refused(tmp_path: Path) -> None:
    (package(tmp_path) / "tools.json").write_text("[" + "0," * 200_000 + "0]")
    assert finding_codes(tmp_path / "P") == [("error", "unreadable", "tools.json")]


@pytest.mark.parametrize("size", [100 * 1024 * 1024, 10 * 1024 * 1024 * 1024])
@pytest.mark.parametrize("stem", ["agents", "tools"])
def test_a_huge_file_is_refused_without_being_read(tmp_path: Path, stem: str, size: int) -> None:
    folder = package(tmp_path)
    os.truncate(write_package(folder, **{stem: "x"}) / f"{stem}.yaml", size)

    codes = {code for _, code, _ in finding_codes(folder)}

    assert ("error", "file_too_large", f"{stem}.yaml") in finding_codes(folder)
    assert codes == ({"file_too_large", "package_too_large"} if size > MAX_TREE_BYTES else {"file_too_large"})


def test_a_sparse_file_beside_the_package_files_is_not_hashed(tmp_path: Path) -> None:
    folder = package(tmp_path)
    (folder / "disk.img").touch()
    os.truncate(folder / "disk.img", 10 * 1024 * 1024 * 1024)

    assert finding_codes(folder) == [("error", "package_too_large", "P")]


def test_a_tree_of_too_many_files_is_not_walked_to_its_end(tmp_path: Path) -> None:
    folder = package(tmp_path)
    for number in range(60):
        (folder / f"{number}.txt").touch()

    assert tree_codes(folder, max_files=50) == [("error", "too_many_files", "P")]


def test_a_tree_of_too_many_folders_is_not_walked_to_its_end(tmp_path: Path) -> None:
    folder = package(tmp_path)
    for number in range(60):
        (folder / "a" / str(number)).mkdir(parents=True)

    assert tree_codes(folder, max_files=50) == [("error", "too_many_files", "P")]


def test_too_much_in_the_shared_folder_counts_too(tmp_path: Path) -> None:
    folder = package(tmp_path)
    (tmp_path / "_shared").mkdir()
    for number in range(50):
        (tmp_path / "_shared" / f"{number}.py").touch()

    assert tree_codes(folder, max_files=50) == [("error", "too_many_files", "P")]


def test_folders_are_not_walked_down_for_ever(tmp_path: Path) -> None:
    folder = package(tmp_path)
    (folder / "/".join("d" * 200)).mkdir(parents=True)

    assert finding_codes(folder) == [("error", "too_many_files", "/".join("d" * (MAX_FOLDER_DEPTH + 1)))]


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "code"), [(make_pipe, "unreadable"), (make_loop, "unreadable"), (make_device, "leaves_package")]
)
@pytest.mark.parametrize("name", ["tools.yaml", "orchestrator.yml"])
def test_what_never_ends_is_never_opened(tmp_path: Path, name: str, make: Callable[[Path], None], code: str) -> None:
    folder = package(tmp_path, **({"orchestrator": None} if name.startswith("orch") else {}))
    make(folder / name)

    assert finding_codes(folder) == [("error", code, name)]


def test_a_link_out_of_the_package_is_not_followed(tmp_path: Path) -> None:
    folder = package(tmp_path)
    outside = tmp_path / "outside"
    write_tool(outside, "secret.py", TOOL)
    (outside / "rows.csv").write_text("1")
    (folder / "linked").symlink_to(outside)
    (folder / "tools").mkdir()
    (folder / "tools" / "secret.py").symlink_to(outside / "tools" / "secret.py")
    (folder / "rows.csv").symlink_to(outside / "rows.csv")

    assert sorted(finding_codes(folder)) == [
        ("error", "leaves_package", "linked"),
        ("error", "leaves_package", "rows.csv"),
        ("error", "leaves_package", "tools/secret.py"),
    ]
    assert [file.name for file in read_tree(folder).files] == ["agents.yaml", "orchestrator.yaml"]


def test_links_inside_and_into_the_shared_folder_are_followed(tmp_path: Path) -> None:
    folder = package(tmp_path)
    shared = write_tool(tmp_path / "_shared", "both.py", TOOL)
    (folder / "tools").symlink_to(shared.parent)
    (folder / "again").symlink_to(folder)
    (folder / "nowhere.py").symlink_to("absent.py")

    tree_now = read_tree(folder)

    assert tree_now.problems == ()
    names = ["../_shared/tools/both.py", "agents.yaml", "orchestrator.yaml", "tools/both.py"]
    assert sorted(file.name for file in tree_now.files) == names


def test_a_link_out_of_the_shared_folder_blames_no_neighbouring_package(tmp_path: Path) -> None:
    folder = package(tmp_path)
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared" / "evil.py").symlink_to("/etc/passwd")

    assert finding_codes(folder) == []
    assert "../_shared/evil.py" not in [file.name for file in read_tree(folder).files]


def test_messages_and_findings_are_bounded(tmp_path: Path) -> None:
    rules = [{"source_agent": "X" * 700, "target_agent": "A"} for _ in range(1_010)]

    package = load(tmp_path, agents=ALONE, handoffs={"handoff_rules": rules})

    assert len(package.findings) == MAX_FINDINGS + 1
    assert package.findings[-1].code == "more_findings"
    assert max(len(finding.message) for finding in package.findings) <= MAX_MESSAGE_CHARACTERS + 1
    assert package.is_refused


def test_errors_are_kept_where_findings_are_left_out(tmp_path: Path) -> None:
    sections = {f"v{number}": {"odd": 1} for number in range(1_010)}

    package = load(tmp_path, agents=ALONE, context_variables={"definitions": sections}, tools="[")

    assert [finding.code for finding in package.findings[:1]] == ["unreadable"]
    assert package.is_refused


def test_a_file_that_grows_hidden_siblings_keeps_its_version(tmp_path: Path) -> None:
    folder = package(tmp_path)
    before = compute_content_version(folder)
    for name in (".git/HEAD", "node_modules/x/index.js", "tools/__pycache__/x.pyc", "..2026/agents.yaml"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("x")

    assert compute_content_version(folder) == before


def test_readers_see_no_file_that_could_not_be_read(tmp_path: Path) -> None:
    folder = package(tmp_path, tools="[", hooks={"hooks": []})

    files = read_package_files(folder, Findings())

    assert {stem: file.is_readable for stem, file in files.items()} == {
        "orchestrator": True,
        "agents": True,
        "tools": False,
        "hooks": True,
    }
