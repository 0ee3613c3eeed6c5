"""Finds the names in a prompt that look like those of variables, outside of fenced code."""

import re
from collections.abc import Iterator

from workflows.context.templates import split_fenced

_PLACEHOLDER = re.compile(
    r"\$\{\s*+([A-Za-z_]\w*+)\s*+\}"
    r"|\{\{\s*+(?:(?:runtime|context|context_variables)\.)?([A-Za-z_]\w*+)\s*+\}\}"
)
_BRACED = re.compile(r"(?<![^\s(])\{([a-z][a-z0-9_]*+)\}(?![^\s.,;:!?)])")
_QUOTED = re.compile(r""""[^"\n]*+"|`[^`\n]*+`|“[^“”\n]*+”|(?<!\w)'[^'\n]*+'(?!\w)""")
_KEYED = re.compile(r'""\s*+:')
_MEMBER = re.compile(r"(?<![\w./$])context_variables\.([A-Za-z_]\w*+)(?!\s*+\()")
# What follows `context_variables.` where no variable is meant: its file, the parts of that, and its live data.
_NO_MEMBERS = frozenset({"json", "yaml", "yml", "definitions", "variables", "agents", "data"})


def prompt_names(prompt: str) -> list[str]:
    """`${name}` and `{{name}}`; UPPER_CASE ones are not ours: hooks fill them."""
    found = (match[1] or match[2] for text in _unfenced(prompt) for match in _PLACEHOLDER.finditer(text))
    return [name for name in dict.fromkeys(found) if not name.isupper()]


def member_names(prompt: str) -> list[str]:
    """`context_variables.name`, which is no call."""
    found = dict.fromkeys(name for text in _unfenced(prompt) for name in _MEMBER.findall(text))
    return [name for name in found if name not in _NO_MEMBERS]


def braced_names(prompt: str) -> list[str]:
    """`{name}` of early packages, as a word of its own that is neither quoted nor part of what looks like JSON."""
    return list(dict.fromkeys(name for text in _unfenced(prompt) for name in _braced(text)))


def _unfenced(prompt: str) -> list[str]:
    return [text for text, is_code in split_fenced(prompt) if not is_code]


def _braced(text: str) -> Iterator[str]:
    depth = 0  # of JSON over several lines
    for line in _QUOTED.sub('""', _PLACEHOLDER.sub("x", text)).splitlines():
        rest = _BRACED.sub("", line)
        braces = rest.count("{"), rest.count("}")
        if not depth and braces == (0, 0) and not _KEYED.search(line):
            yield from _BRACED.findall(line)
        depth = max(0, depth + braces[0] - braces[1])
