"""The working directory is restored around package code, and changes are noted."""

import os
from pathlib import Path

import pytest

from workflows.chat.package_code.working_directory import WorkingDirectory


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkingDirectory:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    directory = WorkingDirectory()
    directory.pin()
    return directory


def test_a_call_that_moves_it_alone_is_named_with_the_place(directory: WorkingDirectory, tmp_path: Path) -> None:
    visit = directory.enter()
    os.chdir(tmp_path)
    directory.leave(visit)

    incident = visit.incident(where="act", agent="A", turn=2)
    assert incident is not None
    assert (incident.where, incident.type, incident.agent, incident.turn) == ("act", "WorkingDirectoryChanged", "A", 2)
    assert incident.message == f"it changed the working directory to {tmp_path}; it was restored to {directory.home}"
    assert Path.cwd() == directory.home


def test_concurrent_calls_are_reported_without_directory_later_ones_not(
    directory: WorkingDirectory, tmp_path: Path
) -> None:
    before = directory.enter()
    directory.leave(before)
    one, other = directory.enter(), directory.enter()
    os.chdir(tmp_path)
    after = directory.enter()
    for each in (one, other, after):
        directory.leave(each)

    told = [visit.incident(where="act") for visit in (before, one, other, after)]
    assert [incident is not None for incident in told] == [False, True, True, False]
    assert str(tmp_path) + ";" not in str(told[1])
    assert Path.cwd() == directory.home


def test_a_late_directory_change_of_abandoned_code_is_undone_unnamed(
    directory: WorkingDirectory, tmp_path: Path
) -> None:
    os.chdir(tmp_path)
    visit = directory.enter()
    assert Path.cwd() == directory.home
    directory.leave(visit)
    assert visit.incident(where="act") is None


def test_without_a_worker_home_is_where_each_call_begins(directory: WorkingDirectory, tmp_path: Path) -> None:
    directory.unpin()
    os.chdir(tmp_path)
    visit = directory.enter()
    os.chdir("/")
    directory.leave(visit)

    assert visit.incident(where="act") is not None
    assert Path.cwd() == tmp_path


def test_a_deleted_directory_is_restored_and_a_deleted_home_does_no_harm(
    directory: WorkingDirectory, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    visit = directory.enter()
    os.chdir(gone)
    gone.rmdir()
    directory.leave(visit)
    assert Path.cwd() == directory.home

    home = Path.cwd()
    os.chdir(tmp_path)
    home.rmdir()
    directory.leave(directory.enter())
    assert Path.cwd() == tmp_path
