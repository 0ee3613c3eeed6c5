"""The catalog: edits are picked up, broken ones reported, and what works stays."""

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.packages import ORCHESTRATOR, TOOL, write_package, write_tool
from workflows.package import catalog as catalog_module
from workflows.package.catalog import LIBRARY, Catalog, package_directories, package_folders
from workflows.package.models import Package


@pytest.fixture(autouse=True)
def _look_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_module, "CHECK_INTERVAL_S", 0.0)


edits: Iterator[int] = iter(range(1, 10_000))


def edit(folder: Path, **changed: Any) -> None:
    """A later edit has a later time, also on a file system that counts whole seconds."""
    write_package(folder, **changed)
    for path in folder.rglob("*.*"):
        os.utime(path, (2_000_000_000 + next(edits), 2_000_000_000 + next(edits)))


def small(catalog: Catalog) -> Package:
    package = catalog.get("Small")
    assert package is not None
    return package


def turns(package: Package) -> int:
    return package.orchestrator.limits.max_turns


def test_an_edit_is_used_by_whoever_asks_next_and_the_old_version_is_kept(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P")
    catalog = Catalog([tmp_path])
    before = small(catalog)

    edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": 7})

    after = small(catalog)
    assert turns(after) == 7
    assert after.version != before.version
    assert catalog.get("Small", version=before.version) is before
    assert catalog.refused == {}


def test_an_edit_in_a_relative_or_linked_directory_is_picked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_package(tmp_path / "real" / "P")
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    catalogs = [Catalog([Path("real")]), Catalog([Path("link")]), Catalog([Path("real/P")])]
    assert [turns(small(catalog)) for catalog in catalogs] == [50] * 3

    edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": 7})

    assert [turns(small(catalog)) for catalog in catalogs] == [7] * 3
    assert [catalog.refused for catalog in catalogs] == [{}] * 3


def test_an_edit_of_a_tool_is_a_new_version(tmp_path: Path) -> None:
    tool = write_tool(write_package(tmp_path / "P"), "greet.py", TOOL)
    catalog = Catalog([tmp_path])
    before = small(catalog)

    tool.write_text(TOOL + "# longer\n")

    assert small(catalog).version != before.version


@pytest.mark.parametrize("broken", ["- [", "workflow_name: Small\n"])
def test_a_broken_edit_keeps_the_last_good_version_and_is_reported_once(
    tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_package(tmp_path / "P")
    catalog = Catalog([tmp_path])
    before = small(catalog)

    edit(folder, orchestrator=broken)

    assert small(catalog) is before
    assert small(catalog) is before
    assert list(catalog.refused) == [str(folder)]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == ["package_refused"]


def test_a_mended_edit_is_used_and_no_longer_reported(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P")
    catalog = Catalog([tmp_path])
    edit(folder, orchestrator="- [")
    assert catalog.refused

    edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": 7})

    assert turns(small(catalog)) == 7
    assert catalog.refused == {}


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_a_package_does_not_vanish_when_one_of_its_files_is_none(tmp_path: Path, kind: str) -> None:
    folder = write_package(tmp_path / "P", agents=None)
    agents = folder / "agents.yaml"
    agents.mkdir() if kind == "directory" else os.mkfifo(agents)
    catalog = Catalog([tmp_path])

    assert package_folders([tmp_path]) == [folder]
    assert [(each.code, each.file) for each in catalog.refused[str(folder)]] == [("unreadable", "agents.yaml")]

    agents.rmdir() if kind == "directory" else agents.unlink()
    edit(folder)

    assert small(catalog).folder == folder
    assert catalog.refused == {}


def test_a_folder_that_may_not_be_read_is_refused_once_and_used_when_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_package(tmp_path / "P")
    tool = write_tool(folder, "greet.py", TOOL)
    is_file = Path.is_file

    def denied(self: Path) -> bool:
        if self == tool:
            raise PermissionError(13, "Permission denied", str(self))
        return is_file(self)

    catalog = Catalog([tmp_path])
    with monkeypatch.context() as patched:
        patched.setattr(Path, "is_file", denied)
        assert [each.message for each in catalog.refused[str(folder)]] == ["cannot be read: Permission denied"]
        assert catalog.packages() == {}

    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == ["package_refused"]
    assert small(catalog).folder == folder
    assert catalog.refused == {}


def test_a_file_that_becomes_readable_is_an_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_package(tmp_path / "P")
    catalog = Catalog([tmp_path])

    def denied(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", denied)
        assert [each.code for each in catalog.refused[str(folder)]] == ["unreadable"]

    def is_used_after_chmod() -> bool:  # again while the clock of the file system stands still
        (folder / "agents.yaml").chmod(0o640)
        return catalog.get("Small") is not None

    assert any(is_used_after_chmod() for _ in range(100_000))
    assert catalog.refused == {}


def test_of_two_packages_with_one_name_the_first_is_used(tmp_path: Path) -> None:
    write_package(tmp_path / "A")
    second = write_package(tmp_path / "B")

    catalog = Catalog([tmp_path])

    assert small(catalog).folder == tmp_path / "A"
    assert [each.code for each in catalog.refused[str(second)]] == ["name_taken"]


def test_a_name_that_becomes_free_goes_to_who_wanted_it(tmp_path: Path) -> None:
    first, second = write_package(tmp_path / "A"), write_package(tmp_path / "B")
    catalog = Catalog([tmp_path])
    assert small(catalog).folder == first

    edit(first, orchestrator={**ORCHESTRATOR, "workflow_name": "Other"})

    assert small(catalog).folder == second
    assert set(catalog.packages()) == {"Small", "Other"}
    assert catalog.refused == {}


def test_a_waiting_name_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_package(tmp_path / "A")
    write_package(tmp_path / "B")
    catalog = Catalog([tmp_path])

    for _ in range(3):
        catalog.packages()

    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == ["package_refused"]


def test_a_removed_package_is_gone_but_its_runs_can_finish(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P")
    catalog = Catalog([tmp_path])
    version = small(catalog).version

    (folder / "agents.yaml").unlink()

    assert catalog.get("Small") is None
    assert catalog.get("Small", version=version) is not None
    assert catalog.get("Small", version="another") is None


def test_a_new_package_appears(tmp_path: Path) -> None:
    catalog = Catalog([tmp_path / "later"])
    assert catalog.packages() == {}

    write_package(tmp_path / "later" / "P")

    assert set(catalog.packages()) == {"Small"}


def test_threads_that_ask_a_cold_catalog_at_once_all_see_the_packages(tmp_path: Path) -> None:
    write_package(tmp_path / "P")
    catalog, barrier, seen = Catalog([tmp_path]), threading.Barrier(8), []

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
    monkeypatch.setattr(catalog_module, "CHECK_INTERVAL_S", 1.0)
    now = [100.0]
    monkeypatch.setattr("workflows.package.catalog.time.monotonic", lambda: now[0])
    folder = write_package(tmp_path / "P")
    catalog = Catalog([tmp_path])
    catalog.packages()
    edit(folder, orchestrator={**ORCHESTRATOR, "max_turns": 7})

    now[0] += 0.9
    assert turns(small(catalog)) == 50

    now[0] += 0.1
    assert turns(small(catalog)) == 7


def test_packages_come_from_what_is_configured_else_here_else_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert package_directories([Path("x"), Path("y")]) == (Path("x"), Path("y"))
    assert package_directories([]) == (LIBRARY,)

    (tmp_path / "workflows" / "empty").mkdir(parents=True)
    assert package_directories([]) == (LIBRARY,)

    write_package(tmp_path / "workflows" / "P")
    assert package_directories([]) == (Path("workflows"),)


def test_standing_in_our_own_repository_the_library_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(LIBRARY.parent.parent)
    assert package_directories([]) == (LIBRARY,)


def test_a_folder_named_twice_counts_once(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P")
    assert package_folders([tmp_path, folder, tmp_path / "absent"]) == [folder]
