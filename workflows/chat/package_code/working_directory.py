"""The working directory: restored after package code, since all runs share it.

Our paths are absolute. A package's relative paths mean the directory in which the process was started, so the directory
is compared and restored before and after each call of package code.
"""

import logging
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from workflows.chat.package_code.incidents import DIRECTORY_CHANGED, Incident

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class DirectoryVisit:
    """One call of package code, with the changes of the directory during it."""

    changes: list[str] = field(default_factory=list)

    def incident(self, *, where: str, agent: str | None = None, turn: int | None = None) -> Incident | None:
        if not self.changes:
            return None
        return Incident(where, DIRECTORY_CHANGED, "; ".join(self.changes), "", agent, turn)


class WorkingDirectory:
    def __init__(self) -> None:
        self._home: str | None = None
        self._pinned = False
        self._lock = threading.Lock()
        self._visits: set[DirectoryVisit] = set()

    def enter(self) -> DirectoryVisit:
        """Restores the directory and begins a visit.

        It is restored at both ends: calls overlap, and any of those under way may have changed it."""
        visit = DirectoryVisit()
        with self._lock:
            if not self._pinned and not self._visits:  # outside of a worker it may change between calls, as in tests
                self._home = _current_directory()
            self._restore()
            self._visits.add(visit)
        return visit

    def leave(self, visit: DirectoryVisit) -> None:
        with self._lock:
            self._restore()
            self._visits.discard(visit)

    def _restore(self) -> None:
        here = _current_directory()
        if self._home is None or here == self._home:
            return
        try:
            os.chdir(self._home)
        except OSError as error:
            log.warning("working_directory_lost", extra={"directory": self._home, "error": str(error)})
            return
        log.warning("working_directory_put_back", extra={"from": here, "to": self._home, "calls": len(self._visits)})
        alone = len(self._visits) == 1
        # Another app's call may have chosen the path, which this run's owner must not see.
        change = f"it changed the working directory to {here}" if alone else "it, or a call beside it, changed it"
        for visit in self._visits:
            visit.changes.append(f"{change}; it was restored to {self._home}")

    def pin(self) -> None:
        """Fixes the process's current directory as home, before any package code runs."""
        with self._lock:
            self._home, self._pinned = _current_directory(), True

    def unpin(self) -> None:
        with self._lock:
            self._pinned = False

    @property
    def home(self) -> Path | None:
        return None if self._home is None else Path(self._home)


def _current_directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 -- called around every tool, and compared as text
    except OSError:  # it was deleted
        return None


WORKING_DIRECTORY = WorkingDirectory()
