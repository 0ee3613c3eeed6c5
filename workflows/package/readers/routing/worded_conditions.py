"""Conditions in words, translated to expressions.

An example is "When stage is done AND paid is true".
"""

import re
from collections.abc import Mapping
from typing import Any

from workflows.context.expressions.routing_conditions import MAX_LENGTH, name_prefixes
from workflows.context.values.type_coercion import coerce_or_keep
from workflows.context.values.value_types import ValueType

DeclaredTypes = Mapping[str, ValueType | None]
"""The type of each name that a condition may use: variables, inputs and base facts; None for an untyped name."""

_NAME = r"[A-Za-z_]\w*+(?:\.\w++)*+"
_VALUE = r"""'[^'\\]*+'|"[^"\\]*+"|[\w+-]++(?:\.\w++)*+"""
_CLAUSE = rf"(?P<name>{_NAME})(?:\s*+==?\s*+|\s++[iI][sS]\s++)(?P<value>{_VALUE})"
_ANONYMOUS_CLAUSE = _CLAUSE.replace("?P<name>", "?:").replace("?P<value>", "?:")
_WORDED_CONDITION = re.compile(
    rf"\s*+(?:when\s++)?+({_ANONYMOUS_CLAUSE}(?:\s++and\s++{_ANONYMOUS_CLAUSE})*+)\s*+\.?\s*+", re.IGNORECASE
)
_CLAUSE_PATTERN = re.compile(_CLAUSE)
_UNKNOWN = object()
_NUMBER = re.compile(r"-?(?:[1-9]\d{0,17}|0)(?:\.\d{1,17})?", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
_NULL_WORDS = ("null", "none")
_CONVERTED_TYPES = ("boolean", "integer", "number")
_NON_VALUES = frozenset({"not", "a", "an", "the"})  # words that begin a longer sentence


def translate_condition(text: str, declared_types: DeclaredTypes) -> str | None:
    """Returns the expression for a text in words.

    Returns None for any other text, and for unknown names.
    """
    clauses = _split_clauses(text)
    if not clauses or any(_find_type(name, declared_types) is _UNKNOWN for name, _ in clauses):
        return None
    expression = " and ".join(
        _make_comparison(name, value, _find_type(name, declared_types)) for name, value in clauses
    )
    return expression if len(expression) <= MAX_LENGTH else None


def find_unknown_names(text: str, declared_types: DeclaredTypes) -> list[str]:
    """Returns the unknown names that keep a text from being an expression.

    Only names that look like variables count.
    """
    clauses = _split_clauses(text)
    return [
        name for name, _ in clauses if _find_type(name, declared_types) is _UNKNOWN and ("_" in name or "=" in text)
    ]


def find_misfits(text: str, declared_types: DeclaredTypes) -> list[tuple[str, str, ValueType]]:
    """Returns comparisons with a value that the declared type never has.

    Each is a tuple of name, value and type.
    """
    typed = [(name, value.strip("'\""), _find_type(name, declared_types)) for name, value in _split_clauses(text)]
    return [
        (name, value, declared)
        for name, value, declared in typed
        if declared in _CONVERTED_TYPES
        and value.lower() not in _NULL_WORDS
        and coerce_or_keep(value, declared) == value
    ]


def _split_clauses(text: str) -> list[tuple[str, str]]:
    whole = _WORDED_CONDITION.fullmatch(text) if len(text) <= MAX_LENGTH else None  # longer texts are not conditions
    if whole is None:
        return []
    clauses = [(found["name"], found["value"]) for found in _CLAUSE_PATTERN.finditer(whole[1])]
    return [] if any(value.lower() in _NON_VALUES for _, value in clauses) else clauses


def _find_type(name: str, declared_types: DeclaredTypes) -> Any:
    """Returns the declared type.

    Returns None for a key inside a declared object, whose type is unknown.
    """
    if name in declared_types:
        return declared_types[name]
    return None if any(prefix in declared_types for prefix in name_prefixes(name)) else _UNKNOWN


def _make_comparison(name: str, value: str, declared_type: ValueType | None) -> str:
    """Writes a comparison with the value in its variable's type.

    Conditions do not convert values.
    """
    is_quoted = value[0] in "'\""
    text = value[1:-1] if is_quoted else value
    if declared_type == "string" and text.lower() == "none" and not is_quoted:
        return f"${{{name}}} in [null, {text!r}]"  # null, or the text "none", which is often a default
    return f"${{{name}}} == {_make_literal(text, declared_type, is_quoted=is_quoted)}"


def _make_literal(text: str, declared_type: ValueType | None, *, is_quoted: bool) -> str:
    if not is_quoted and text.lower() in _NULL_WORDS:
        return "null"
    if declared_type in _CONVERTED_TYPES and coerce_or_keep(text, declared_type) != text:
        return repr(coerce_or_keep(text, declared_type))
    if is_quoted or declared_type == "string":
        return repr(text)
    if text.lower() in _BOOLEANS:
        return repr(_BOOLEANS[text.lower()])
    return text if _NUMBER.fullmatch(text) else repr(text)
