"""The working directory: one of the whole process, so no package may move it for good.

Paths of ours are absolute, but a package's are not, and what it opens by a relative name is meant to be where the
process was started. Where it stands is compared before and after each call of a package's code, and put back.
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
    """One call of a package's code. `moved` says what became of the working directory meanwhile."""

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
        """Put back at both ends of a call: calls overlap, and each of those under way may be the one that moved it."""
        visit = DirectoryVisit()
        with self._lock:
            if not self._pinned and not self._visits:  # outside of a worker it may move in between, as in tests
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
        # The path may come from the call of another app, which this run's owner must not see.
        words = f"it changed the working directory to {here}" if alone else "it, or a call beside it, changed it"
        for each in self._visits:
            each.changes.append(f"{words}; it was put back to {self._home}")

    def pin(self) -> None:
        """From now on home is where the process stands, before any code of a package has run."""
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
