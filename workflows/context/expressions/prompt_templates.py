"""Templates: `{name}`, `{{name}}` and `${name}` in a text for a model, filled with what its agent may see.

Values are data: one line each, and nothing in a value is looked up again. A brace around anything else stays.
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
# A line that begins with three backticks or tildes, whatever stands before it in a list; then a language.
_FENCE = re.compile(r"^[ \t]*+(?P<mark>`{3,}+(?=[^`\n]*+$)|~{3,}+)(?P<language>.*+)$", re.MULTILINE)


def fill_prompt(prompt: str, names: Collection[str], values: Mapping[str, Any]) -> str:
    """Fills the names that an agent sees, outside of fenced code. A name without a value leaves nothing behind."""
    if "{" not in prompt or not names:
        return prompt
    parts = split_fenced(prompt)
    return "".join(part if is_code else _fill(part, names, values) for part, is_code in parts)


def split_fenced(text: str) -> list[tuple[str, bool]]:
    """Returns the parts of a text in order, and whether each is fenced code. A fence without an end goes to the end."""
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
    """Fills `${name}` in the text of a rule that a model judges. `limit`: of one value, in characters."""
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
