"""Type coercion: values in their declared type, as conditions compare them."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from workflows.context.values.size_limits import MAX_VALUE_BYTES, is_smaller_than
from workflows.context.values.value_types import ValueType

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
_MAX_INTEGER = 2**63
_BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(TRUE_WORDS, True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


class MisfitError(ValueError):
    """A value has no unambiguous meaning in the declared type."""


def coerce(value: Any, value_type: ValueType) -> Any:
    """Converts a value: `"5"` is 5 for an integer, and None fits every type.

    MisfitError when the meaning is ambiguous."""
    return None if value is None else _COERCERS[value_type](value)


def coerce_text(text: str, value_type: ValueType) -> Any:
    """Converts text from the environment, where only 1, true, yes and on are true."""
    if value_type == "boolean":
        return text.strip().lower() in TRUE_WORDS
    return coerce(text, value_type)


def coerce_or_keep(value: Any, value_type: ValueType) -> Any:
    """Converts a value, or returns it unchanged if it does not fit."""
    try:
        return coerce(value, value_type)
    except MisfitError:
        return value


def find_unstorable(value: Any) -> str | None:
    """Returns why a run document could not hold this value, or None."""
    too_large = f"is larger than {MAX_VALUE_BYTES // 1024} KB"
    if not is_smaller_than(MAX_VALUE_BYTES, value):  # checked first: a few shared lists can expand to very much text
        return too_large
    problem = _find_unstorable_part(value)
    return too_large if problem is None and len(json.dumps(value)) > MAX_VALUE_BYTES else problem


def _find_unstorable_part(value: Any) -> str | None:
    if isinstance(value, str):
        return None if _is_encodable(value) else "holds half of a character (a lone surrogate)"
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) and _is_encodable(key) and "\0" not in key for key in value):
            return "has a key that is not text; put it in quotes"
        return next((problem for item in value.values() if (problem := _find_unstorable_part(item))), None)
    if isinstance(value, list):
        return next((problem for item in value if (problem := _find_unstorable_part(item))), None)
    if isinstance(value, int | float) and not -_MAX_INTEGER <= value < _MAX_INTEGER:  # NaN and infinity too
        return "holds a number beyond 64 bit"
    if value is not None and not isinstance(value, int | float):
        return f"holds {type(value).__name__}, which JSON cannot say; write it as text"
    return None


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _to_string(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_INTEGER:
        return str(value)
    raise MisfitError


def _to_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else value
    if isinstance(word, int) and word in (0, 1):
        return word == 1
    if isinstance(word, str) and word in _BOOLEANS:
        return _BOOLEANS[word]
    raise MisfitError


def _to_integer(value: Any) -> Any:
    number = _to_number(value)
    if isinstance(number, float):
        if not number.is_integer():
            raise MisfitError
        return int(number)
    return number


def _to_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise MisfitError
    if not isinstance(value, str):
        number: int | float = value
    else:
        try:
            number = int(value) if value.strip().lstrip("+-").isdecimal() else float(value)
        except ValueError:
            raise MisfitError from None
    if isinstance(number, float) and not math.isfinite(number):
        raise MisfitError
    return number


def _to_container(kind: type[Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        if not isinstance(value, str):
            raise MisfitError
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            raise MisfitError from None
        if not isinstance(parsed, kind):
            raise MisfitError
        return parsed

    return read


_COERCERS: Mapping[ValueType, Callable[[Any], Any]] = {
    "string": _to_string,
    "boolean": _to_boolean,
    "integer": _to_integer,
    "number": _to_number,
    "object": _to_container(dict),
    "array": _to_container(list),
}
