"""Loggers of single tools.

Each line carries the tool's name and further fields of the call.
"""

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

from workflows.compat.logging_config import LOGGER, log_fields


class ToolLoggerAdapter(logging.LoggerAdapter[logging.Logger]):
    """Adds the tool's fields to the fields of a line."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        extra = kwargs.get("extra")
        fields = {**(self.extra or {}), **(extra if isinstance(extra, Mapping) else {})}
        return msg, {**kwargs, "extra": log_fields(fields)}


def get_tool_logger(*, tool_name: str, base_logger: logging.Logger | None = None, **fields: Any) -> ToolLoggerAdapter:
    logger = base_logger or logging.getLogger(f"{LOGGER}.{tool_name}")
    known = {"tool_name": tool_name, **fields}
    return ToolLoggerAdapter(logger, {name: value for name, value in known.items() if value is not None})


def log_tool_event(
    logger: logging.Logger | logging.LoggerAdapter[logging.Logger],
    *,
    action: str,
    status: str = "info",
    message: str | None = None,
    level: int = logging.INFO,
    **fields: Any,
) -> None:
    extra = log_fields({"action": action, "status": status, **fields})
    logger.log(level, "%s", message or "tool_event", extra=extra)
