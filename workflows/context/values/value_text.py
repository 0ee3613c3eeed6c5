"""Rendering: the variables an agent may see, as a section of its system prompt, anew every turn.

Values are data, whoever sent them: nothing in one is formatted or looked up, and one value is one line, so that
none can look like another variable or like a section of the prompt.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

MAX_RENDERED_CHARACTERS = 8_000
# All that str.splitlines takes for the end of a line.
_LINE_ENDS = re.compile("[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")


def render_exposed(names: Collection[str], values: Mapping[str, Any]) -> str:
    """Empty when nothing is exposed. Names without a value are left out: absent is not the word None."""
    lines = [f"{name}: {render_value(values[name])}" for name in names if values.get(name) is not None]
    return "\n".join(["[CONTEXT VARIABLES]", *lines]) if lines else ""


def render_value(value: Any, *, limit: int = MAX_RENDERED_CHARACTERS) -> str:
    """Returns a value as one line of at most `limit` characters and a mark of the cut."""
    text = to_text(value)
    if isinstance(value, str) and _LINE_ENDS.search(text):
        text = json.dumps(text, ensure_ascii=False)  # in quotes, as a reader of code knows it
    text = _LINE_ENDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)  # what JSON and Python leave as it is
    return text if len(text) <= limit else f"{text[:limit]}… (cut)"


def to_text(value: Any) -> str:
    """Text for a model. Tools return and store anything, so what JSON cannot say is shown as Python does."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=_to_data)
    except (TypeError, ValueError, RecursionError):  # odd keys, cycles, endless nesting
        return repr(value)


def _to_data(value: Any) -> Any:
    """A model that a tool returned is its fields, so that derived variables find them; anything else is its text."""
    return value.model_dump() if isinstance(value, BaseModel) else str(value)
