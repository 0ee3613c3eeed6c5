"""Payloads: `=expr` and `when` over an event, by JMESPath, which cannot execute anything."""

import json
from collections.abc import Mapping
from typing import Any

import jmespath
from bson import json_util
from jmespath.exceptions import JMESPathError


class PayloadError(ValueError):
    """An expression that this event does not satisfy; the text names the expression."""


def evaluate(expression: str, event: Any) -> Any:
    try:
        return jmespath.search(expression, event)
    # The library lets through what Python says about mixed types, a zero step or an infinite number.
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise PayloadError(f"expression {expression!r}: {str(error).partition(chr(10))[0]}") from None


def holds(expression: str | None, event: Any) -> bool:
    """Truth as JMESPath has it: false, null, and empty text, lists and objects are false."""
    if expression is None:
        return True
    value = evaluate(expression, event)
    return value is not None and value is not False and value not in ("", [], {})


def resolve(mapped: Any, event: Any) -> Any:
    """A literal as it is; a string that begins with `=` as what it selects from the event."""
    if isinstance(mapped, str) and mapped.startswith("="):
        return evaluate(mapped[1:], event)
    if isinstance(mapped, Mapping):
        return {key: resolve(value, event) for key, value in mapped.items()}
    if isinstance(mapped, list):
        return [resolve(value, event) for value in mapped]
    return mapped


def resolve_text(mapped: Any, event: Any) -> str | None:
    """For names (app, user, message): text stays, numbers become text, structures are refused."""
    value = resolve(mapped, event)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise PayloadError(f"{mapped!r} selects {type(value).__name__}, where text is needed")


def plain_json(document: Any) -> Any:
    """A BSON document as plain JSON: object ids and dates as text, decimals as text, bytes as base64."""
    return _plain(json.loads(json_util.dumps(document, json_options=json_util.RELAXED_JSON_OPTIONS)))


_PLAIN_MARKS = ("$oid", "$date", "$numberDecimal", "$uuid", "$symbol")


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        mark, inner = next(iter(value.items()))
        if mark in _PLAIN_MARKS and isinstance(inner, str):
            return inner
        if mark == "$binary" and isinstance(inner, dict):
            return inner.get("base64")
    return {key: _plain(item) for key, item in value.items()}
