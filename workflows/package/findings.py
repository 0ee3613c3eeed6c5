"""Findings: what a package's author should know, from a note to the reason why it is refused."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Level = Literal["info", "warning", "error"]
_MAX_SUGGESTIONS = 50  # looking for near names takes time; the first ones teach enough
_MAX_NAME_CHARACTERS = 100

MAX_FINDINGS = 1_000
MAX_MESSAGE_CHARACTERS = 600  # characters; messages repeat what an author wrote
MAX_PATH_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Finding:
    """`path` is where in the file, as agents[2].name; `message` says what is wrong and what to do.

    `blocks`: the package is read, but not started, since a run would leave out what the author counts on.
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
    """A package that cannot be used at all; the text names file and place."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


class Findings:
    """Collects while one file is read; errors are collected too, so that an author sees all of them at once."""

    def __init__(self) -> None:
        self._all: list[Finding] = []
        self._suggestions_left = _MAX_SUGGESTIONS

    def add(self, level: Level, code: str, file: str, path: str, message: str) -> None:
        self._all.append(Finding(level, code, file, path, message))

    def add_finding(self, finding: Finding) -> None:
        self._all.append(finding)

    def add_ignored(self, file: str, path: str, why: str) -> None:
        """A field that is accepted but not executed: always said, never dropped in silence."""
        self.add("warning", "not_executed", file, path, why)

    def add_blocking(self, code: str, file: str, path: str, message: str) -> None:
        """What is read but would be missing from a run so much that none is started."""
        self._all.append(
            Finding("warning", code, file, path, f"{message}; runs of it are not started", is_blocking=True)
        )

    def has_errors_in(self, *files: str) -> bool:
        """Whether a file has an error. Its unread parts would look missing to other checks."""
        return any(finding.level == "error" and finding.file in files for finding in self._all)

    def suggest_name(self, name: str, known: Iterable[str]) -> str | None:
        """The known name that an author may have meant."""
        if self._suggestions_left == 0 or len(name) > _MAX_NAME_CHARACTERS:
            return None
        self._suggestions_left -= 1
        by_word = {str(candidate).lower(): str(candidate) for candidate in known}  # YAML has keys that are no text
        close = difflib.get_close_matches(name.lower(), by_word, n=1, cutoff=0.75)
        return by_word[close[0]] if close else None

    @property
    def all(self) -> tuple[Finding, ...]:
        return tuple(self._all)


def limit_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Errors are kept before all else; what is left out is counted."""
    kept = findings
    if len(findings) > MAX_FINDINGS:
        by_weight = sorted(findings, key=_severity_rank)[:MAX_FINDINGS]
        rest = len(findings) - MAX_FINDINGS
        message = f"{rest} more findings are left out; correct these first"
        kept = [*by_weight, Finding("warning", "more_findings", by_weight[0].file, "", message)]
    return tuple(_shorten(finding) for finding in kept)


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
