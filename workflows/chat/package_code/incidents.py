"""Incidents: errors of package code in a run's record, with the author's own line."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from workflows.chat.package_code.module_finder import PACKAGE_MODULE_PREFIX
from workflows.context.values.storable_values import storable_text

MAX_TRACEBACK = 8_000
MAX_MESSAGE = 500
MAX_INCIDENTS = 50  # of a turn, or of a run outside of its turns
DIRECTORY_CHANGED = "WorkingDirectoryChanged"
SHARED_FOLDER = "_shared"  # shared code, beside the packages
MAX_CAUSES = 10  # an error's causes may form a circle
_MAX_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Incident:
    """An error in package code.

    `where` names the step: `tool lookup`, `after_chat report.py:send`. `place` is the author's own line:
    `tools/mail.py:12, in send`; None if no frame is in the package's files, and in records of older versions."""

    where: str
    type: str
    message: str
    traceback: str
    agent: str | None = None
    turn: int | None = None
    place: str | None = None

    def redacted(self, redact: Callable[[str], str]) -> "Incident":
        """Returns the form that a record holds: redacted, shortened, of whole characters."""
        lines = storable_text(redact(self.traceback))
        shown = lines if len(lines) <= MAX_TRACEBACK else f"… {lines[-MAX_TRACEBACK:]}"  # the last lines name the error
        message = storable_text(redact(self.message))[:MAX_MESSAGE]
        place = None if self.place is None else storable_text(redact(self.place))[:MAX_MESSAGE]
        name = storable_text(redact(self.type))
        return replace(self, where=redact(self.where), type=name, message=message, traceback=shown, place=place)

    @property
    def is_failure(self) -> bool:
        """Excludes a side effect that was only noted: the call itself has not failed."""
        return self.type != DIRECTORY_CHANGED

    @property
    def summary(self) -> str:
        place = "" if self.place is None else f" ({self.place})"
        return f"{self.type}: {self.message}{place}"

    def as_document(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> "Incident":
        return Incident(**{name: document.get(name) for name in Incident.__slots__})  # type: ignore[arg-type]  # as stored


def make_incident(error: BaseException, *, where: str, agent: str | None = None, turn: int | None = None) -> Incident:
    """Describes an error at nearly full length: redaction comes before any cut."""
    lines = "".join(traceback.format_exception(error))
    message = error_text(error)
    kind, place = type(error).__name__, find_own_line(error)
    return Incident(where, kind, message[:_MAX_CHARACTERS], lines[-_MAX_CHARACTERS:], agent, turn, place)


def find_own_line(error: BaseException) -> str | None:
    """Returns the innermost line in the package's own files, of the error or a cause.

    Frames below it are of libraries and help the author little: `<frozen os>:679` for a missing variable."""
    cause: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if cause is None:
            return None
        frames = traceback.walk_tb(cause.__traceback__)
        own = [shown for frame, line in frames if (shown := _describe_own_frame(frame, line)) is not None]
        if own:
            return own[-1]
        cause = cause.__cause__ or cause.__context__
    return None


def append_own_line(text: str, error: BaseException) -> str:
    place = find_own_line(error)
    return text if place is None else f"{text} ({place})"


def _describe_own_frame(frame: FrameType, line: int) -> str | None:
    """Recognises package code by the name of its module, which no other module has.

    After the prefix come the names of folders and files, beginning with the package or `_shared`."""
    module, file = frame.f_globals.get("__name__"), Path(frame.f_code.co_filename)
    if type(module) is not str or not module.startswith(PACKAGE_MODULE_PREFIX) or file.suffix != ".py":
        return None  # the package's code may have put anything there
    names = module.split(".")[1:]
    if file.name == "__init__.py":
        names.append(file.stem)
    if not 0 < len(names) < len(file.parts):
        return None
    inside = file.parts[-len(names) :]
    shown = "/".join(inside if inside[0] == SHARED_FOLDER else inside[1:])
    function = "" if frame.f_code.co_name == "<module>" else f", in {frame.f_code.co_name}"
    return f"{shown}:{line}{function}"


def error_text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 -- the package's error may be broken itself, and raise anything
        return "(its text cannot be read)"
