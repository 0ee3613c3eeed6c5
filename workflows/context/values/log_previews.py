"""Previews: values for a log, shortened and without what looks like a secret."""

import json
import re
from collections.abc import Mapping
from typing import Any

from workflows.context.values.value_text import shorten

MAX_PREVIEW = 120
_SECRET_NAME = re.compile(r"secret|token|password|passwd|api_?key|credential|authorization", re.IGNORECASE)


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
