"""Rendering: the variables an agent may see, as a section of its system prompt, anew every turn."""

import json
from collections.abc import Collection, Mapping
from typing import Any

MAX_RENDERED = 8_000


def render_exposed(names: Collection[str], values: Mapping[str, Any]) -> str:
    """Empty when nothing is exposed. Names without a value are left out: absent is not the word None."""
    lines = [f"{name}: {_shown(values[name])}" for name in names if values.get(name) is not None]
    return "\n".join(["[CONTEXT VARIABLES]", *lines]) if lines else ""


def _shown(value: Any) -> str:
    text = as_text(value)
    return text if len(text) <= MAX_RENDERED else f"{text[:MAX_RENDERED]}… (cut)"


def as_text(value: Any) -> str:
    """Text for a model. Tools return and store anything, so what JSON cannot say is shown as Python does."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # odd keys, cycles, endless nesting
        return repr(value)
