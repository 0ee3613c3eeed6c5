"""Loggers under the names of the other runtime.

Their lines go to the log of the process.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any

LOGGER = "unattended_packages"
_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SENSITIVE_WORDS = ("api_key", "apikey", "authorization", "auth", "secret", "password", "token")
_OPTIONS = ("exc_info", "stack_info", "stacklevel")


class ContextLogger:
    """Takes fields as keyword arguments and adds its own fields to each line."""

    def __init__(self, base: logging.Logger, ctx: Mapping[str, Any]) -> None:
        self._base = base
        self._fields = dict(ctx)

    def log(self, level: int, msg: object, *args: Any, **fields: Any) -> None:
        options = {name: fields.pop(name) for name in _OPTIONS if fields.get(name) is not None}
        extra_fields = fields.pop("extra", None)
        extra = extra_fields if isinstance(extra_fields, Mapping) else {}
        self._base.log(level, msg, *args, extra=log_fields({**self._fields, **fields, **extra}), **options)

    def debug(self, msg: object, *args: Any, **fields: Any) -> None:
        self.log(logging.DEBUG, msg, *args, **fields)

    def info(self, msg: object, *args: Any, **fields: Any) -> None:
        self.log(logging.INFO, msg, *args, **fields)

    def warning(self, msg: object, *args: Any, **fields: Any) -> None:
        self.log(logging.WARNING, msg, *args, **fields)

    def error(self, msg: object, *args: Any, **fields: Any) -> None:
        self.log(logging.ERROR, msg, *args, **fields)

    def critical(self, msg: object, *args: Any, **fields: Any) -> None:
        self.log(logging.CRITICAL, msg, *args, **fields)

    def exception(self, msg: object, *args: Any, **fields: Any) -> None:
        self.log(logging.ERROR, msg, *args, **{"exc_info": True, **fields})

    def with_context(self, **fields: Any) -> "ContextLogger":
        return ContextLogger(self._base, {**self._fields, **fields})


def log_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Drops reserved names, and masks fields with names of secrets."""
    return {
        str(name): "***" if any(word in str(name).lower() for word in _SENSITIVE_WORDS) else value
        for name, value in fields.items()
        if str(name) not in _STANDARD_FIELDS
    }


def get_workflow_logger(
    workflow_name: str | None = None,
    chat_id: str | None = None,
    app_id: str | None = None,
    *,
    base_logger: logging.Logger | None = None,
    **context: Any,
) -> ContextLogger:
    named = {"workflow_name": workflow_name, "chat_id": chat_id, "app_id": app_id}
    fields = {name: value for name, value in named.items() if value} | context
    return ContextLogger(base_logger or logging.getLogger(LOGGER), fields)


def get_workflow_session_logger(workflow_name: str, chat_id: str | None = None) -> ContextLogger:
    return get_workflow_logger(workflow_name, chat_id)


def get_core_logger(module_name: str) -> logging.Logger:
    return logging.getLogger(f"{LOGGER}.{module_name}")


def get_data_logger(name: str = "data") -> logging.Logger:
    return get_core_logger(name)


def get_events_logger(name: str = "events") -> logging.Logger:
    return get_core_logger(name)


def get_observability_logger(name: str = "observability") -> logging.Logger:
    return get_core_logger(name)


def get_transport_logger(name: str = "transport") -> logging.Logger:
    return get_core_logger(name)


def get_workflow_logger_detailed(name: str = "workflow") -> logging.Logger:
    return get_core_logger(name)


def get_core_config_logger() -> logging.Logger:
    return get_core_logger("core_config")


@contextmanager
def log_operation(
    logger: ContextLogger | logging.Logger, operation_name: str, **context: Any
) -> Iterator[ContextLogger | logging.Logger]:
    """Logs start, end and failure of an operation, with its duration."""
    lines = logger if isinstance(logger, ContextLogger) else ContextLogger(logger, {})
    lines = lines.with_context(operation=operation_name, **context)
    begun = perf_counter()
    lines.info("operation_started")
    try:
        yield logger
    except Exception as error:
        lines.error("operation_failed", duration_s=perf_counter() - begun, error_type=type(error).__name__)
        raise
    lines.info("operation_completed", duration_s=perf_counter() - begun)
