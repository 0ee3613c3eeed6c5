"""Value types: what a declared type accepts, and when two values are equal.

Nothing is coerced here.
"""

import json
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Literal

ValueType = Literal["string", "boolean", "integer", "number", "object", "array"]

# A context holds a date or an id as text, as JSON does.
_TEXTS = ("date", "datetime", "timestamp", "time", "uuid", "objectid", "email", "uri", "url", "enum")
_NAMES: Mapping[str, ValueType] = {
    **dict.fromkeys(("string", "str", "text", *_TEXTS), "string"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("integer", "int", "long"), "integer"),
    **dict.fromkeys(("number", "float", "double", "decimal"), "number"),
    **dict.fromkeys(("object", "dict", "json", "document", "map"), "object"),
    **dict.fromkeys(("array", "list", "set", "tuple"), "array"),
}
TYPE_NAMES = tuple(_NAMES)
_PYTHON_TYPES: Mapping[ValueType, tuple[type[Any], ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (Mapping,),
    "array": (list, tuple),
}


def parse_type_name(name: Any) -> ValueType | None:
    """Returns the type for an author's name of it, or None."""
    return _NAMES.get(name.strip().lower()) if isinstance(name, str) else None


def is_of_type(value: Any, value_type: ValueType) -> bool:
    if isinstance(value, bool):  # a bool is an int in Python, and nowhere else
        return value_type == "boolean"
    return isinstance(value, _PYTHON_TYPES[value_type])


def type_name_of(value: Any) -> str:
    """Names the type of a plain JSON value as an author would."""
    return next((name for name in _PYTHON_TYPES if is_of_type(value, name)), "null")


def equals_strictly(left: Any, right: Any) -> bool:
    """Compares strictly: the text "true" is not true, and 1 is not True."""
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def is_same_value(one: Any, other: Any) -> bool:
    """Compares strictly; objects that refuse to be compared differ.

    A tool may put any object into a context."""
    try:
        return equals_strictly(one, other)
    except Exception:  # noqa: BLE001 -- the comparison is a package's own code
        return False


def is_one_of(value: Any, choices: Iterable[Any]) -> bool:
    return any(is_same_value(value, choice) for choice in choices)


def value_key(value: Any) -> Hashable:
    """Returns a key, equal for equal values; true is not 1."""
    try:
        if not isinstance(value, list | dict):
            return isinstance(value, bool), hash(value), value
        return json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):  # keys of several types, numbers of thousands of digits
        return type(value).__name__
