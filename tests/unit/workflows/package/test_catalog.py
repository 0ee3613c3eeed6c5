"""The catalog: it loads edits, reports broken ones and keeps working versions."""

import logging
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.packages import ORCHESTRATOR, TOOL, write_package, write_tool
from workflows.package import catalog as catalog_module
from workflows.package.catalog import LIBRARY, Catalog, list_package_folders, package_directories
from workflows.package.normal_form.package_model import Package


@pytest.fixture(autouse=True)
def _no_edit_is_young(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_module, "_is_young", lambda *_: False)


def looking(directories: Sequence[Path], *, check_interval_s: float = 0.0, settle_s: float = 0.0) -> Catalog:
    return Catalog(directories, check_interval_s=check_interval_s, settle_s=settle_s)


edits: Iterator[int] = iter(range(1, 10_000))


def edit(folder: Path, **changed: Any) -> None:
    """Edits a file with a later time, also on file systems that count whole seconds."""
    write_package(folder, **changed)
    for path in folder.rglob("*.*"):
        os.utime(path, (2_000_000_000 + next(edits), 2_000_000_000 + next(edits)))


def find_package(catalog: Catalog) -> Package:
    package = catalog.get("Small")
    assert package is not None
    return package


def turns(package: Package) -> int:
    return package.orchestrator.limits.max_turns


@pytest.mark.design("D4-107")
def test_an_edit_is_used_by_the_next_caller_and_the_old_version_is_kept(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P")
    catalog = looking([tmp_path])
    before = find_package(catalog)

    edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": 7})

    after = find_package(catalog)
    assert turns(after) == 7
    assert after.version != before.version
    assert catalog.get("Small", version=before.version) is before
    assert catalog.refusals == {}


def test_an_edit_in_a_relative_or_linked_directory_is_picked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_package(tmp_path / "real" / "P")
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    catalogs = [looking([Path("real")]), looking([Path("link")]), looking([Path("real/P")])]
    assert [turns(find_package(catalog)) for catalog in catalogs] == [50] * 3

    edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": 7})

    assert [turns(find_package(catalog)) for catalog in catalogs] == [7] * 3
    assert [catalog.refusals for catalog in catalogs] == [{}] * 3


def test_an_edit_of_a_tool_is_a_new_version(tmp_path: Path) -> None:
    tool = write_tool(write_package(tmp_path / "P"), "greet.py", TOOL)
    catalog = looking([tmp_path])
    before = find_package(catalog)

    tool.write_text(TOOL + "# longer\n")

    assert find_package(catalog).version != before.version


@pytest.mark.design("D1-1")
@pytest.mark.parametrize("broken", ["- [", "workflow_name: Small\n"])
def test_a_broken_edit_keeps_the_last_good_version_and_is_reported_once(
    tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_package(tmp_path / "P")
    catalog = looking([tmp_path])
    before = find_package(catalog)

    edit(folder, orchestrator=broken)

    assert find_package(catalog) is before
    assert find_package(catalog) is before
    assert list(catalog.refusals) == [str(folder)]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == ["package_refused"]


def test_a_mended_edit_is_used_and_no_longer_reported(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P")
    catalog = looking([tmp_path])
    edit(folder, orchestrator="- [")
    assert catalog.refusals

    edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": 7})

    assert turns(find_package(catalog)) == 7
    assert catalog.refusals == {}


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_a_package_does_not_vanish_when_one_of_its_files_is_none(tmp_path: Path, kind: str) -> None:
    folder = write_package(tmp_path / "P", agents=None)
    agents = folder / "agents.yaml"
    agents.mkdir() if kind == "directory" else os.mkfifo(agents)
    catalog = looking([tmp_path])

    assert list_package_folders([tmp_path]) == [folder]
    assert [(refusal.code, refusal.file) for refusal in catalog.refusals[str(folder)]] == [
        ("unreadable", "agents.yaml")
    ]

    agents.rmdir() if kind == "directory" else agents.unlink()
    edit(folder)

    assert find_package(catalog).folder == folder
    assert catalog.refusals == {}


def test_an_unreadable_folder_is_refused_once_and_used_when_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_package(tmp_path / "P")
    tools = write_tool(folder, "greet.py", TOOL).parent
    scandir = os.scandir

    def deny(path: Path) -> Any:
        if path == tools:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    catalog = looking([tmp_path])
    with monkeypatch.context() as patched:
        patched.setattr("workflows.package.files.package_tree.os.scandir", deny)
        found = [(refusal.file, refusal.message) for refusal in catalog.refusals[str(folder)]]
        assert found == [("tools", "cannot be read: Permission denied")]
        assert catalog.packages() == {}

    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == ["package_refused"]
    assert find_package(catalog).folder == folder
    assert catalog.refusals == {}


def test_a_file_that_becomes_readable_is_an_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_package(tmp_path / "P")
    catalog = looking([tmp_path])

    def deny(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", deny)
        assert {refusal.code for refusal in catalog.refusals[str(folder)]} == {"unreadable"}

    def is_used_after_chmod() -> bool:  # again within one tick of the file system's clock
        (folder / "agents.yaml").chmod(0o640)
        return catalog.get("Small") is not None

    assert any(is_used_after_chmod() for _ in range(100_000))
    assert catalog.refusals == {}


def test_of_two_packages_with_one_name_the_first_is_used(tmp_path: Path) -> None:
    write_package(tmp_path / "A")
    second = write_package(tmp_path / "B")

    catalog = looking([tmp_path])

    assert find_package(catalog).folder == tmp_path / "A"
    assert [refusal.code for refusal in catalog.refusals[str(second)]] == ["name_taken"]


def test_a_freed_name_goes_to_the_package_that_wanted_it(tmp_path: Path) -> None:
    first, second = write_package(tmp_path / "A"), write_package(tmp_path / "B")
    catalog = looking([tmp_path])
    assert find_package(catalog).folder == first

    edit(first, orchestrator={**ORCHESTRATOR, "workflow_name": "Other"})

    assert find_package(catalog).folder == second
    assert set(catalog.packages()) == {"Small", "Other"}
    assert catalog.refusals == {}


def test_a_waiting_name_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_package(tmp_path / "A")
    write_package(tmp_path / "B")
    catalog = looking([tmp_path])

    for _ in range(3):
        catalog.packages()

    refusals = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [(finding.getMessage(), finding.__dict__["workflow"]) for finding in refusals] == [
        ("package_not_started", "Small")
    ]


def test_a_removed_package_is_gone_but_its_runs_can_finish(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P")
    catalog = looking([tmp_path])
    version = find_package(catalog).version

    shutil.rmtree(folder)

    assert catalog.get("Small") is None
    assert catalog.get("Small", version=version) is not None
    assert catalog.get("Small", version="another") is None


@pytest.mark.design("D4-93")
def test_a_new_package_appears(tmp_path: Path) -> None:
    catalog = looking([tmp_path / "later"])
    assert catalog.packages() == {}

    write_package(tmp_path / "later" / "P")

    assert set(catalog.packages()) == {"Small"}


def test_threads_that_ask_a_cold_catalog_at_once_all_see_the_packages(tmp_path: Path) -> None:
    write_package(tmp_path / "P")
    catalog, barrier, seen = looking([tmp_path]), threading.Barrier(8), []

    def ask() -> None:
        barrier.wait()
        seen.append(catalog.get("Small"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(seen) == 8
    assert None not in seen


def test_a_directory_is_not_looked_at_more_than_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("workflows.package.catalog.time.monotonic", lambda: now[0])
    folder = write_package(tmp_path / "P")
    catalog = looking([tmp_path], check_interval_s=1.0)
    catalog.packages()
    edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": 7})

    now[0] += 0.9
    assert turns(find_package(catalog)) == 50

    now[0] += 0.1
    assert turns(find_package(catalog)) == 7


def test_packages_come_from_what_is_configured_else_here_else_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert package_directories([Path("x"), Path("y")]) == (tmp_path / "x", tmp_path / "y")
    assert package_directories([]) == (LIBRARY,)

    (tmp_path / "workflows" / "empty").mkdir(parents=True)
    assert package_directories([]) == (LIBRARY,)

    write_package(tmp_path / "workflows" / "P")
    assert package_directories([]) == (tmp_path / "workflows",)


def test_standing_in_our_own_repository_the_library_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(LIBRARY.parent.parent)
    assert package_directories([]) == (LIBRARY,)


def test_a_folder_named_twice_counts_once(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P")
    assert list_package_folders([tmp_path, folder, tmp_path / "absent"]) == [folder]


HOOKS = {"hook_files": [{"filename": "hooks/greet.py", "content": "def greet(): ...", "trigger": "before_chat"}]}


def test_a_readable_package_with_unsupported_needs_is_not_offered(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P", hooks=HOOKS)

    catalog = looking([tmp_path])

    assert catalog.packages() == {}
    assert [(refusal.level, refusal.is_blocking) for refusal in catalog.refusals[str(folder)]] == [("warning", True)]
    assert [(inspection.name, inspection.verdict) for inspection in catalog.inspections()] == [("Small", "findings")]


def test_a_request_for_a_package_that_is_not_started_gets_the_reason(tmp_path: Path) -> None:
    broken = write_package(tmp_path / "B", orchestrator={"workflow_name": "Broken", "initial_agent": "C"})
    write_package(tmp_path / "P", orchestrator={"workflow_name": "Good", "initial_agent": "A"})
    catalog = looking([tmp_path])

    assert catalog.explain_refusal("Broken") == (
        "Broken is not started: error: orchestrator.yaml: initial_agent: C is not an agent of this package;"
        f" name one [unknown_agent]; see `unattended validate {broken}`"
    )
    assert catalog.explain_refusal("Good") is None
    assert catalog.explain_refusal("Absent") is None


def test_a_package_with_a_part_missing_is_reported_not_skipped(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P", agents=None)
    (tmp_path / "Old").mkdir()
    (tmp_path / "Old" / "workflow.json").write_text("{}")
    for name in ("_shared", ".git", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tools.yaml").write_text("[]")
    (tmp_path / "_shared" / "agents.yaml").write_text("[]")

    catalog = looking([tmp_path])

    codes = {folder: [finding.code for finding in found] for folder, found in catalog.refusals.items()}
    assert codes == {str(tmp_path / "Old"): ["unsupported_era"], str(folder): ["missing_file"]}


def test_an_edit_in_the_shared_folder_renews_every_package_beside_it(tmp_path: Path) -> None:
    shared = write_tool(tmp_path / "_shared", "greet.py", TOOL)
    write_package(tmp_path / "A", orchestrator={"workflow_name": "A", "initial_agent": "A"})
    write_package(tmp_path / "B", orchestrator={"workflow_name": "B", "initial_agent": "A"})
    catalog = looking([tmp_path])
    before = {name: package.version for name, package in catalog.packages().items()}

    shared.write_text(TOOL + "# longer")

    after = {name: package.version for name, package in catalog.packages().items()}
    assert set(after) == set(before) == {"A", "B"}
    assert all(after[name] != before[name] for name in before)


def test_a_run_in_progress_keeps_its_version_through_package_edits(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P")
    catalog = looking([tmp_path])
    held = [find_package(catalog)]

    for number in range(1, 4):
        edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": number})
        held.append(find_package(catalog))

    assert [turns(package) for package in held] == [50, 1, 2, 3]
    assert [catalog.get("Small", version=package.version) for package in held] == held


class FakeFileClock:
    """Sets the age of files, and lets the catalog check at every call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_young = False
        monkeypatch.setattr(catalog_module, "_is_young", lambda *_: self.is_young)


def test_an_edit_that_is_half_written_is_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty file is valid: only its age shows that the author is done."""
    variables = {"definitions": {"v": {"source": {"type": "state"}}}}
    folder = write_package(tmp_path / "P", context_variables=variables)
    clock = FakeFileClock(monkeypatch)
    catalog = looking([tmp_path])
    before = find_package(catalog)

    os.truncate(folder / "context_variables.yaml", 0)
    clock.is_young = True
    assert find_package(catalog) is before

    edit(folder, context_variables={"definitions": {**variables["definitions"], "w": {"source": {"type": "state"}}}})
    assert list(find_package(catalog).variables) == ["v", "w"]
    assert catalog.refusals == {}


def test_a_folder_that_is_written_constantly_is_read_every_second_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_package(tmp_path / "P")
    clock = FakeFileClock(monkeypatch)
    catalog = looking([tmp_path])
    assert turns(find_package(catalog)) == 50
    clock.is_young = True

    seen = []
    for number in range(1, 5):
        edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": number})
        seen.append(turns(find_package(catalog)))

    assert seen == [50, 2, 2, 4]


def test_a_caller_that_cannot_wait_sees_a_recent_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_package(tmp_path / "P")
    clock = FakeFileClock(monkeypatch)
    catalog = looking([tmp_path])
    before = find_package(catalog)
    clock.is_young = True
    edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": 7})
    assert find_package(catalog) is before

    catalog.invalidate()

    assert turns(find_package(catalog)) == 7


def test_a_file_is_young_for_half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("workflows.package.catalog.time.time_ns", lambda: 10_000_000_000)

    assert [catalog_module._is_young(at) for at in (9_400_000_000, 9_600_000_000, 11_000_000_000)] == [
        False,
        True,
        True,
    ]
    assert catalog_module.CHECK_INTERVAL_S + catalog_module.SETTLE_S <= 1.5  # the maximum wait of an author


def test_a_young_edit_is_looked_at_again_before_the_next_regular_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("workflows.package.catalog.time.monotonic", lambda: now[0])
    clock = FakeFileClock(monkeypatch)
    folder = write_package(tmp_path / "P")
    catalog = looking([tmp_path], check_interval_s=1.0, settle_s=0.5)
    catalog.packages()
    edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": 7})
    clock.is_young = True

    now[0] += 1.0
    assert turns(find_package(catalog)) == 50

    now[0] += 0.5
    assert turns(find_package(catalog)) == 7


def test_threads_see_whole_packages_while_files_change(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P", orchestrator={**ORCHESTRATOR, "max_turns": 7, "initial_message": "7"})
    catalog = looking([tmp_path])
    find_package(catalog)
    odd: list[object] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            package = catalog.get("Small")
            if package is None or str(turns(package)) != package.orchestrator.initial_message:
                odd.append(package)
            catalog.explain_refusal("Small")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1, 16):
        edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": number, "initial_message": str(number)})
        edit(folder, orchestrator="- [")
    done.set()
    for thread in threads:
        thread.join()

    assert odd == []
