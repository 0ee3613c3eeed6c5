"""A failing test shows the ends of the logs of servers that died."""

import logging
from pathlib import Path

import pytest

from tests.server_logs import CHARACTERS, LINES, Deaths, WatchedServer, end_of


@pytest.fixture
def deaths() -> Deaths:
    return Deaths()


def died(deaths: Deaths, log: Path) -> None:
    record = logging.LogRecord("ops.embedded.embedded_server", logging.ERROR, "", 0, "embedded_server_died", (), None)
    vars(record).update(server="mongodb", exit_code=-6, log=str(log))
    deaths.handle(record)


def test_an_embedded_server_that_died_is_shown_with_its_code(deaths: Deaths, tmp_path: Path) -> None:
    log = tmp_path / "mongodb.log"
    log.write_text("out of memory\n")

    died(deaths, log)
    log.write_text("it was started again\n")

    assert deaths.sections() == [(f"mongodb ended with code -6; the end of {log}", "out of memory")]


def test_a_later_test_sees_the_death_of_a_shared_server_only(deaths: Deaths, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    deaths.share(shared)
    died(deaths, shared / "logs" / "mongodb.log")
    died(deaths, tmp_path / "own" / "mongodb.log")
    assert len(deaths.sections()) == 2

    deaths.begin_test()

    assert [title for title, _ in deaths.sections()] == [
        f"mongodb ended with code -6; the end of {shared / 'logs' / 'mongodb.log'}"
    ]


def test_other_servers_are_looked_at_when_a_test_fails(deaths: Deaths, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("bye\n")
    codes: list[int | None] = [None, 1]

    watched = WatchedServer("prometheus", log, lambda: codes.pop(0))

    assert deaths.sections() == []
    assert deaths.sections() == [(f"prometheus ended with code 1; the end of {log}", "bye")]
    del watched


def test_the_end_of_a_log_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\n" + "x" * 10_000 + "\n" * LINES)

    lines = end_of(log).split("\n")

    assert "first" not in lines
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= CHARACTERS + 1
    assert end_of(tmp_path / "absent") == "cannot be read: No such file or directory"
