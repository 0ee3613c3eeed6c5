"""Prompt templates: `{name}`, `{{name}}` and `${name}` with exposed variables.

Values are data: one line each, and nothing in a value is looked up again. Braces around anything else stay.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from workflows.context.values.value_text import MAX_RENDERED_CHARACTERS, render_value

_NAME = r"[A-Za-z_][\w-]*+"
_PLACEHOLDER = re.compile(
    rf"\$\{{\s*+(?P<dollar>{_NAME})\s*+\}}|\{{\{{\s*+(?P<double>{_NAME})\s*+\}}\}}|\{{(?P<single>{_NAME})\}}", re.ASCII
)
_DOLLAR = re.compile(rf"\$\{{\s*+({_NAME})\s*+\}}", re.ASCII)
# A line that begins with three backticks or tildes, also inside a list item; then a language.
_FENCE = re.compile(r"^[ \t]*+(?P<mark>`{3,}+(?=[^`\n]*+$)|~{3,}+)(?P<language>.*+)$", re.MULTILINE)


def fill_prompt(prompt: str, names: Collection[str], values: Mapping[str, Any]) -> str:
    """Fills the names that an agent sees, outside of fenced code.

    A name without a value becomes empty."""
    if "{" not in prompt or not names:
        return prompt
    parts = split_fenced(prompt)
    return "".join(part if is_code else _fill(part, names, values) for part, is_code in parts)


def split_fenced(text: str) -> list[tuple[str, bool]]:
    """Splits a text into parts, each with whether it is fenced code.

    A fence without an end reaches to the end of the text."""
    parts: list[tuple[str, bool]] = []
    opening, start = "", 0
    for fence in _FENCE.finditer(text):
        mark = fence["mark"]
        if not opening:
            parts.append((text[start : fence.start()], False))
            opening, start = mark, fence.start()
        elif mark.startswith(opening) and not fence["language"].strip():
            parts.append((text[start : fence.end()], True))
            opening, start = "", fence.end()
    return [*parts, (text[start:], bool(opening))]


def fill_judged(text: str, names: Collection[str], values: Mapping[str, Any], *, limit: int) -> str:
    """Fills `${name}` in a judged rule's text, each value up to `limit` characters."""
    return _DOLLAR.sub(lambda match: _fill_name(match[0], match[1], names, values, limit), text)


def find_dollar_names(text: str) -> list[str]:
    """Returns each name of `${name}` once, in order."""
    return list(dict.fromkeys(_DOLLAR.findall(text)))


def _fill(text: str, names: Collection[str], values: Mapping[str, Any]) -> str:
    return _PLACEHOLDER.sub(
        lambda match: _fill_name(match[0], match[match.lastgroup or 0], names, values, MAX_RENDERED_CHARACTERS), text
    )


def _fill_name(placeholder: str, name: str, names: Collection[str], values: Mapping[str, Any], limit: int) -> str:
    if name not in names:
        return placeholder
    value = values.get(name)
    return "" if value is None else render_value(value, limit=limit)
