"""Findings: remarks about a package for its author, from info to error."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Level = Literal["info", "warning", "error"]

MAX_FINDINGS = 1_000
MAX_MESSAGE_CHARACTERS = 600  # messages quote what an author wrote
MAX_PATH_CHARACTERS = 300
_MAX_SUGGESTIONS = 50  # searching similar names is slow
_MAX_NAME_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark about a place in a package file.

    `path` is the place, as agents[2].name; `message` has the problem and the remedy. `is_blocking`: the package is read
    but starts no runs, since a run would lack something that its author expects.
    """

    level: Level
    code: str
    file: str
    path: str
    message: str
    line: int | None = None
    is_blocking: bool = False

    def __str__(self) -> str:
        file = f"{self.file}:{self.line}" if self.line else self.file
        place = f"{file}: {self.path}" if self.path else file
        return f"{self.level}: {place}: {self.message} [{self.code}]"


class PackageError(Exception):
    """The package cannot be used; the text names file and place."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


class Findings:
    """Collects findings, errors too, so that an author sees all of them at once."""

    def __init__(self) -> None:
        self._all: list[Finding] = []
        self._suggestions_left = _MAX_SUGGESTIONS

    def add(self, level: Level, code: str, file: str, path: str, message: str) -> None:
        self._all.append(Finding(level, code, file, path, message))

    def add_finding(self, finding: Finding) -> None:
        self._all.append(finding)

    def add_ignored(self, file: str, path: str, why: str) -> None:
        """Reports a field that is read without effect. No such field is dropped silently."""
        self.add("warning", "not_executed", file, path, why)

    def add_blocking(self, code: str, file: str, path: str, message: str) -> None:
        """Reports a part that runs depend on and that is not executed.

        The package starts no runs.
        """
        self._all.append(
            Finding("warning", code, file, path, f"{message}; the package starts no runs", is_blocking=True)
        )

    def has_errors_in(self, *files: str) -> bool:
        """Returns whether a file has an error.

        Its unread parts would look missing to other checks.
        """
        return any(finding.level == "error" and finding.file in files for finding in self._all)

    def suggest_name(self, name: str, known: Iterable[str]) -> str | None:
        """Returns the known name that is most similar, or None."""
        if self._suggestions_left == 0 or len(name) > _MAX_NAME_CHARACTERS:
            return None
        self._suggestions_left -= 1
        by_word = {
            str(candidate).lower(): str(candidate) for candidate in known
        }  # YAML keys may be other values than text
        close = difflib.get_close_matches(name.lower(), by_word, n=1, cutoff=0.75)
        return by_word[close[0]] if close else None

    @property
    def all(self) -> tuple[Finding, ...]:
        return tuple(self._all)


def limit_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Keeps the most severe findings up to the limit.

    Adds a count of the others, and cuts long texts.
    """
    limited = findings
    if len(findings) > MAX_FINDINGS:
        by_weight = sorted(findings, key=_severity_rank)[:MAX_FINDINGS]
        rest = len(findings) - MAX_FINDINGS
        message = f"{rest} more findings are not shown; correct these first"
        limited = [*by_weight, Finding("warning", "more_findings", by_weight[0].file, "", message)]
    return tuple(_shorten(finding) for finding in limited)


def _severity_rank(finding: Finding) -> int:
    return 0 if finding.level == "error" else 1 if finding.is_blocking else 2 if finding.level == "warning" else 3


def _shorten(finding: Finding) -> Finding:
    if len(finding.message) <= MAX_MESSAGE_CHARACTERS and len(finding.path) <= MAX_PATH_CHARACTERS:
        return finding
    return replace(
        finding,
        message=_truncate(finding.message, MAX_MESSAGE_CHARACTERS),
        path=_truncate(finding.path, MAX_PATH_CHARACTERS),
    )


def _truncate(text: str, max_characters: int) -> str:
    return text if len(text) <= max_characters else f"{text[:max_characters]}…"
