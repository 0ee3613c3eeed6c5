"""Logging: one event per line, with a snake_case name and fields."""

import json
import logging
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from types import MappingProxyType
from typing import Any, TextIO, cast

from workflows.context.redaction import Redactor

log = logging.getLogger(__name__)

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}
_PREVIEW_LENGTH = 300
_MAX_FIELD_CHARACTERS = 2_000
_as_json = json.JSONEncoder(default=str, ensure_ascii=False).encode


_context_fields: ContextVar[Mapping[str, Any]] = ContextVar("unattended_log_about", default=MappingProxyType({}))


@contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Adds fields to all lines that are logged inside, also to those of package tools.

    The own fields of a line win.
    """
    token = _context_fields.set({**_context_fields.get(), **fields})
    try:
        yield
    finally:
        with suppress(ValueError):  # an abandoned generator is closed by the garbage collector, in another context
            _context_fields.reset(token)


def event_fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _preview(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if len(text) > _PREVIEW_LENGTH:
        text = f"{text[:_PREVIEW_LENGTH]}… ({len(text)} characters)"
    if not text.isprintable():  # line ends of all kinds, and control sequences
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False) if " " in text else text


class EventFormatter(logging.Formatter):
    """Redacts hidden values piece by piece.

    That comes before anything is cut, quoted or put on one line.
    """

    def __init__(self, role: str) -> None:
        super().__init__()
        self._role = role
        self.redactor = Redactor()

    def _event(self, record: logging.LogRecord) -> str:
        return self.redactor.redact_text(record.getMessage())

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        fields = {**_context_fields.get(), **event_fields(record)}
        return {name: self.redactor.redact_data(value) for name, value in fields.items()}

    def _traceback(self, record: logging.LogRecord) -> str:
        return self.redactor.redact_text(self.formatException(record.exc_info)) if record.exc_info else ""


class ConsoleFormatter(EventFormatter):
    def format(self, record: logging.LogRecord) -> str:
        clock = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        shown = " ".join(f"{name}={_preview(value)}" for name, value in self._fields(record).items())
        event = " ".join(self._event(record).split())  # events of libraries are sentences, some with line ends
        line = f"{clock} {self._role:<9} {record.levelname.lower():<7} {event} {shown}".rstrip()
        return f"{line}\n{self._traceback(record)}" if record.exc_info else line


def _truncate(value: Any) -> Any:
    """Cuts a long value: a log line is no place for a payload."""
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return value if len(text) <= _MAX_FIELD_CHARACTERS else f"{text[:_MAX_FIELD_CHARACTERS]}… ({len(text)} characters)"


class JsonFormatter(EventFormatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "role": self._role,
            "event": self._event(record),
            **{name: _truncate(value) for name, value in self._fields(record).items()},
        }
        if record.exc_info:
            line["exception"] = self._traceback(record)
        return _as_json(line)


def redact_logs(redactor: Redactor) -> None:
    """Makes all log lines of this process hide what the redactor hides, now or later."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, EventFormatter):
            handler.formatter.redactor = redactor


class _RedactingStream:
    """Redacts what is written to a standard stream.

    Everything else is passed on to the stream.
    """

    def __init__(self, stream: TextIO, redactor: Redactor) -> None:
        self._stream = stream
        self._redactor = redactor

    def write(self, text: str) -> int:
        self._stream.write(self._redactor.redact_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def redact_streams(redactor: Redactor) -> Iterator[None]:
    """Redacts what tools of packages print: in a container that is the log as well."""
    out, err = sys.stdout, sys.stderr
    sys.stdout = cast("TextIO", _RedactingStream(out, redactor))
    sys.stderr = cast("TextIO", _RedactingStream(err, redactor))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


def _log_thread_error(arguments: threading.ExceptHookArgs) -> None:
    """Logs an error that ended a thread, also a thread of a package.

    Python itself would print it to standard error without redaction.
    """
    error = arguments.exc_value
    if error is not None and not isinstance(error, SystemExit):
        name = arguments.thread.name if arguments.thread else None
        log.error("thread_failed", extra={"thread_name": name}, exc_info=error)


def _skip_unused_record_fields() -> None:
    """Skips record fields that no line contains: source line, thread, process.

    They are a quarter of the cost of logging, and a gateway logs each accepted run.
    """
    logging._srcfile = None  # as the documentation of `logging` recommends
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False


def configure_logging(*, role: str, log_format: str, log_level: str, log_file: str | None = None) -> None:
    to_stderr = logging.StreamHandler(sys.stderr)
    handler: logging.Handler = WatchedFileHandler(log_file, encoding="utf-8") if log_file else to_stderr
    handler.setFormatter(JsonFormatter(role) if log_format == "json" else ConsoleFormatter(role))
    logging.basicConfig(level=log_level.upper(), handlers=[handler], force=True)
    threading.excepthook = _log_thread_error
    _skip_unused_record_fields()
    # Their info lines are sentences about themselves; their warnings are still shown.
    for library in (
        "celery",
        "kombu",
        "amqp",
        "pymongo",
        "httpx",
        "httpcore",
        "httpx2",
        "openai",
        "uvicorn",
        "asyncio",
        "ag2",
    ):
        logging.getLogger(library).setLevel(logging.WARNING)
