"""Conditions in words: "When stage is done AND paid is true", read as an expression over declared names."""

import re
from collections.abc import Mapping
from typing import Any

from workflows.context.conditions import MAX_LENGTH, prefixes
from workflows.context.fitting import fitted
from workflows.context.value_types import ValueType

Names = Mapping[str, ValueType | None]
"""The type of each name that a condition may be about: variables, inputs and base facts. None where it has none."""

_NAME = r"[A-Za-z_]\w*+(?:\.\w++)*+"
_VALUE = r"""'[^'\\]*+'|"[^"\\]*+"|[\w+-]++(?:\.\w++)*+"""
_CLAUSE = rf"(?P<name>{_NAME})(?:\s*+==?\s*+|\s++[iI][sS]\s++)(?P<value>{_VALUE})"
_ANONYMOUS = _CLAUSE.replace("?P<name>", "?:").replace("?P<value>", "?:")
_WORDED = re.compile(rf"\s*+(?:when\s++)?+({_ANONYMOUS}(?:\s++and\s++{_ANONYMOUS})*+)\s*+\.?\s*+", re.IGNORECASE)
_CLAUSES = re.compile(_CLAUSE)
_UNKNOWN = object()
_NUMBER = re.compile(r"-?(?:[1-9]\d{0,17}|0)(?:\.\d{1,17})?", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
_NULLS = ("null", "none")
_CONVERTED = ("boolean", "integer", "number")
_NO_VALUE = frozenset({"not", "a", "an", "the"})  # the beginning of a sentence that goes on


def as_expression(text: str, names: Names) -> str | None:
    """Returns the expression that a text in words stands for. None for any other text, and for an unknown name."""
    clauses = _clauses(text)
    if not clauses or any(_type_of(name, names) is _UNKNOWN for name, _ in clauses):
        return None
    expression = " and ".join(_comparison(name, value, _type_of(name, names)) for name, value in clauses)
    return expression if len(expression) <= MAX_LENGTH else None


def unknown_names(text: str, names: Names) -> list[str]:
    """Returns the names that keep a text from being an expression, as far as they look like names of variables."""
    clauses = _clauses(text)
    return [name for name, _ in clauses if _type_of(name, names) is _UNKNOWN and ("_" in name or "=" in text)]


def misfits(text: str, names: Names) -> list[tuple[str, str, ValueType]]:
    """Returns each name that is compared with a value which its declared type never has, with value and type."""
    typed = [(name, value.strip("'\""), _type_of(name, names)) for name, value in _clauses(text)]
    return [
        (name, value, declared)
        for name, value, declared in typed
        if declared in _CONVERTED and value.lower() not in _NULLS and fitted(value, declared) == value
    ]


def _clauses(text: str) -> list[tuple[str, str]]:
    whole = _WORDED.fullmatch(text) if len(text) <= MAX_LENGTH else None  # a longer one is no condition
    if whole is None:
        return []
    clauses = [(found["name"], found["value"]) for found in _CLAUSES.finditer(whole[1])]
    return [] if any(value.lower() in _NO_VALUE for _, value in clauses) else clauses


def _type_of(name: str, names: Names) -> Any:
    """The declared type; None for a key inside of a declared object, of which no type is known."""
    if name in names:
        return names[name]
    return None if any(prefix in names for prefix in prefixes(name)) else _UNKNOWN


def _comparison(name: str, written: str, declared: ValueType | None) -> str:
    """A value is compared in the type of its variable, since conditions do not convert."""
    is_quoted = written[0] in "'\""
    text = written[1:-1] if is_quoted else written
    if declared == "string" and text.lower() == "none" and not is_quoted:
        return f"${{{name}}} in [null, {text!r}]"  # nothing, or a text that is often a default
    return f"${{{name}}} == {_literal(text, declared, is_quoted=is_quoted)}"


def _literal(text: str, declared: ValueType | None, *, is_quoted: bool) -> str:
    if not is_quoted and text.lower() in _NULLS:
        return "null"
    if declared in _CONVERTED and fitted(text, declared) != text:
        return repr(fitted(text, declared))
    if is_quoted or declared == "string":
        return repr(text)
    if text.lower() in _BOOLEANS:
        return repr(_BOOLEANS[text.lower()])
    return text if _NUMBER.fullmatch(text) else repr(text)
