"""Finds the names in a prompt that look like those of variables, outside of fenced code."""

import re
from collections.abc import Iterator

from workflows.context.templates import split_fenced

_PLACEHOLDER = re.compile(
    r"\$\{\s*+([A-Za-z_]\w*+)\s*+\}"
    r"|\{\{\s*+(?:(?:runtime|context|context_variables)\.)?([A-Za-z_]\w*+)\s*+\}\}"
)
_BRACED_NAME = re.compile(r"(?<![^\s(])\{([a-z][a-z0-9_]*+)\}(?![^\s.,;:!?)])")
_QUOTED_TEXT = re.compile(r""""[^"\n]*+"|`[^`\n]*+`|“[^“”\n]*+”|(?<!\w)'[^'\n]*+'(?!\w)""")
_JSON_KEY = re.compile(r'""\s*+:')
_MEMBER = re.compile(r"(?<![\w./$])context_variables\.([A-Za-z_]\w*+)(?!\s*+\()")
# What follows `context_variables.` where no variable is meant: its file, the parts of that, and its live data.
_NON_VARIABLES = frozenset({"json", "yaml", "yml", "definitions", "variables", "agents", "data"})


def find_placeholder_names(prompt: str) -> list[str]:
    """`${name}` and `{{name}}`; UPPER_CASE ones are not ours: hooks fill them."""
    found = (match[1] or match[2] for text in _unfenced_parts(prompt) for match in _PLACEHOLDER.finditer(text))
    return [name for name in dict.fromkeys(found) if not name.isupper()]


def find_member_names(prompt: str) -> list[str]:
    """`context_variables.name`, which is no call."""
    found = dict.fromkeys(name for text in _unfenced_parts(prompt) for name in _MEMBER.findall(text))
    return [name for name in found if name not in _NON_VARIABLES]


def find_braced_names(prompt: str) -> list[str]:
    """`{name}` of early packages, as a word of its own that is neither quoted nor part of what looks like JSON."""
    return list(dict.fromkeys(name for text in _unfenced_parts(prompt) for name in _find_braced(text)))


def _unfenced_parts(prompt: str) -> list[str]:
    return [text for text, is_code in split_fenced(prompt) if not is_code]


def _find_braced(text: str) -> Iterator[str]:
    depth = 0  # of JSON over several lines
    for line in _QUOTED_TEXT.sub('""', _PLACEHOLDER.sub("x", text)).splitlines():
        rest = _BRACED_NAME.sub("", line)
        braces = rest.count("{"), rest.count("}")
        if not depth and braces == (0, 0) and not _JSON_KEY.search(line):
            yield from _BRACED_NAME.findall(line)
        depth = max(0, depth + braces[0] - braces[1])
