"""What conditions compare variables with: the literals of `${stage} == 'done'` and `${stage} in ['a', 'b']`."""

import ast
import re
from collections.abc import Iterator
from typing import Any

_NAME = r"(?:\$\{\s*+([A-Za-z_]\w*+)\s*+\}|\bcontext_variables\.([A-Za-z_]\w*+))"
_LITERAL = r"""(?:'[^'\\]*+'|"[^"\\]*+"|-?[\w.]++)"""
_COMPARISON = re.compile(rf"{_NAME}\s*+(?:==\s*+({_LITERAL})|in\s*+\[((?:\s*+{_LITERAL}\s*+,?+)++)\])")
_LITERALS = re.compile(_LITERAL)
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def find_comparisons(condition: str) -> Iterator[tuple[str, list[Any]]]:
    """Each variable with all that one comparison would take; null, which every variable may be, is left alone."""
    for match in _COMPARISON.finditer(condition):
        values = [_literal_value(text) for text in _LITERALS.findall(match[3] or match[4])]
        if None not in values:
            yield match[1] or match[2], values


def _literal_value(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):  # a word that the condition's own grammar refuses, or null
        return None
