"""Templates: `{name}`, `{{name}}` and `${name}` in a text for a model, filled with what its agent may see.

Values are data: one line each, and nothing in a value is looked up again. A brace around anything else stays.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from workflows.context.rendering import MAX_RENDERED, render_value

_NAME = r"[A-Za-z_][\w-]*+"
_PLACEHOLDER = re.compile(
    rf"\$\{{\s*+(?P<dollar>{_NAME})\s*+\}}|\{{\{{\s*+(?P<double>{_NAME})\s*+\}}\}}|\{{(?P<single>{_NAME})\}}", re.ASCII
)
_DOLLAR = re.compile(rf"\$\{{\s*+({_NAME})\s*+\}}", re.ASCII)
FENCE = "```"


def fill_prompt(prompt: str, names: Collection[str], values: Mapping[str, Any]) -> str:
    """Fills the names that an agent sees, outside of fenced code. A name without a value leaves nothing behind."""
    if "{" not in prompt or not names:
        return prompt
    parts = prompt.split(FENCE)
    return FENCE.join(part if index % 2 else _fill(part, names, values) for index, part in enumerate(parts))


def fill_judged(text: str, names: Collection[str], values: Mapping[str, Any], *, limit: int) -> str:
    """Fills `${name}` in the text of a rule that a model judges. `limit`: of one value, in characters."""
    return _DOLLAR.sub(lambda match: _fill_name(match[0], match[1], names, values, limit), text)


def dollar_names(text: str) -> list[str]:
    """Returns each name of `${name}` once, in order."""
    return list(dict.fromkeys(_DOLLAR.findall(text)))


def _fill(text: str, names: Collection[str], values: Mapping[str, Any]) -> str:
    return _PLACEHOLDER.sub(
        lambda match: _fill_name(match[0], match[match.lastgroup or 0], names, values, MAX_RENDERED), text
    )


def _fill_name(written: str, name: str, names: Collection[str], values: Mapping[str, Any], limit: int) -> str:
    if name not in names:
        return written
    value = values.get(name)
    return "" if value is None else render_value(value, limit=limit)
