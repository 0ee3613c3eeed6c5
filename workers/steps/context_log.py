"""The context in the log: the names of loaded values; with CONTEXT_VERBOSE_DEBUG=1 values and changes too.

Values are shortened, and those that look like a secret are hidden.
"""

import json
import logging
import re
from collections.abc import Mapping
from typing import Any

from workers.steps.run_execution import RunExecution
from workflows.context.values.value_text import shorten

log = logging.getLogger(__name__)

MAX_PREVIEW = 120
_SECRET_NAME = re.compile(r"secret|token|password|passwd|api_?key|credential|authorization", re.IGNORECASE)


def log_loaded_context(run: RunExecution, values: Mapping[str, Any]) -> None:
    # The log handlers of a worker redact as well. Those of a package test do not.
    hidden, verbose = run.services.redactor.redact_data, run.services.verbose_debug
    shown = {"values": preview_values(hidden(dict(values)))} if verbose else {}
    log.info("context_loaded", extra={**run.labels, "names": sorted(values), **shown})


class ContextChangeLog:
    """Logs the changes of each turn, with the values before and after."""

    def __init__(self, run: RunExecution) -> None:
        self._run = run
        self._is_verbose = run.services.verbose_debug
        self._shown = ContextPreview(run.open_chat.context if self._is_verbose else {})

    def log_changes(self, number: int, changes: Mapping[str, Any]) -> None:
        if self._is_verbose and changes:
            changed = self._shown.describe_changes(changes)
            log.info("context_changed", extra={**self._run.labels, "turn": number, "changes": changed})


def preview_values(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: preview_value(name, value) for name, value in values.items()}


class ContextPreview:
    """The previews of a context, for logging a change with its old and new values."""

    def __init__(self, context: Mapping[str, Any]) -> None:
        self._previews = preview_values(context)

    def describe_changes(self, changes: Mapping[str, Any]) -> dict[str, str]:
        now = preview_values(changes)
        descriptions = {name: f"{self._previews.get(name, 'absent')} -> {text}" for name, text in now.items()}
        self._previews |= now
        return descriptions


def preview_value(name: str, value: Any) -> str:
    if _SECRET_NAME.search(name):
        return "(hidden)"
    try:
        text = value if isinstance(value, str) else json.dumps(_without_secrets(value), default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return shorten(text, MAX_PREVIEW, f"… ({len(text)} characters)")


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            str(key): "(hidden)" if _SECRET_NAME.search(str(key)) else _without_secrets(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(item) for item in value]
    return value
