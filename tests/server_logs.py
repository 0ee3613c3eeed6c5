"""The ends of the logs of servers that died, shown with a test that fails.

An embedded server logs `embedded_server_died` before it is started again. Other servers are watched: they are looked at
when a test fails.
"""

import logging
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

LINES, CHARACTERS = 60, 400


@dataclass(frozen=True, eq=False)
class WatchedServer:
    """Watched for as long as its starter keeps it."""

    name: str
    log: Path
    exit_code: Callable[[], int | None]

    def __post_init__(self) -> None:
        WATCHED.add(self)


@dataclass(frozen=True, slots=True)
class Death:
    name: str
    exit_code: int | None
    log: Path
    last_lines: str

    @property
    def section(self) -> tuple[str, str]:
        return f"{self.name} ended with code {self.exit_code}; the end of {self.log}", self.last_lines


class Deaths(logging.Handler):
    """Of the test that runs now; and of the servers that the whole session shares, which later tests miss, too."""

    def __init__(self) -> None:
        super().__init__()
        self._deaths: list[Death] = []
        self._shared: list[Path] = []
        self._ended_before: set[WatchedServer] = set()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if record.msg == "embedded_server_died":
            of = vars(record)
            self._deaths.append(_death(str(of["server"]), of["exit_code"], Path(of["log"])))

    def share(self, folder: Path) -> None:
        """Servers that log somewhere in `folder` are those of all tests."""
        self._shared.append(folder)

    def begin_test(self) -> None:
        self._deaths = [each for each in self._deaths if any(map(each.log.is_relative_to, self._shared))]
        self._ended_before = {each for each in WATCHED if each.exit_code() is not None}

    def sections(self) -> list[tuple[str, str]]:
        ended = [(each, code) for each in WATCHED - self._ended_before if (code := each.exit_code()) is not None]
        watched = [_death(each.name, code, each.log) for each, code in ended]
        return [each.section for each in (*self._deaths[-4:], *watched)]


def _death(name: str, exit_code: int | None, log: Path) -> Death:
    return Death(name, exit_code, log, end_of(log))


def end_of(log: Path) -> str:
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    # A mongod that ends itself describes each frame of its stack in a line.
    lines = [line for line in text.splitlines() if '"msg":"Frame"' not in line][-LINES:]
    return "\n".join(line if len(line) <= CHARACTERS else f"{line[:CHARACTERS]}…" for line in lines)


WATCHED: weakref.WeakSet[WatchedServer] = weakref.WeakSet()
DEATHS = Deaths()
