"""Value text: variables as text for a model, and as a section of a system prompt.

Values are data, whatever their source: nothing in one is formatted or looked up, and each is one line, so that none can
imitate another variable or a section of the prompt.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

MAX_RENDERED_CHARACTERS = 8_000
# Every line end that str.splitlines recognises.
_LINE_ENDS = re.compile("[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")


def render_exposed(names: Collection[str], values: Mapping[str, Any]) -> str:
    """Renders variables for a prompt; empty without any.

    A variable without a value is left out, as the word None would be a value."""
    lines = [f"{name}: {render_value(values[name])}" for name in names if values.get(name) is not None]
    return "\n".join(["[CONTEXT VARIABLES]", *lines]) if lines else ""


def shorten(text: str, limit: int, mark: str = "…", *, counts_mark: bool = False) -> str:
    """Cuts a text longer than `limit` and appends the mark.

    With `counts_mark`, the result has at most `limit` characters including the mark."""
    return text if len(text) <= limit else text[: limit - len(mark) if counts_mark else limit] + mark


def render_value(value: Any, *, limit: int = MAX_RENDERED_CHARACTERS) -> str:
    """Renders a value as one line of at most `limit` characters and a mark of the cut."""
    text = to_text(value)
    if isinstance(value, str) and _LINE_ENDS.search(text):
        text = json.dumps(text, ensure_ascii=False)  # quoted, as in code
    # JSON and Python leave some line ends unescaped.
    text = _LINE_ENDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return shorten(text, limit, "… (cut)")


def to_text(value: Any) -> str:
    """Writes a value as text for a model: JSON if possible, else Python's repr."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=_to_data)
    except (TypeError, ValueError, RecursionError):  # odd keys, cycles, endless nesting
        return repr(value)


def _to_data(value: Any) -> Any:
    """Returns a model's fields, which derived variables read; else the object's text."""
    return value.model_dump() if isinstance(value, BaseModel) else str(value)
