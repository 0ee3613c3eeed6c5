"""Frozen values: deep copies that share nothing with the context."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

_PLAIN = (str, int, float, bool, bytes, type(None))


def detach(value: Any) -> Any:
    """Copies a value deeply as plain data.

    Mappings become dicts; lists, tuples and sets become lists. Raises ValueError for a value that contains itself, and
    TypeError for a mutable object that is neither a Pydantic model nor a dataclass.
    """
    return _detach(value, ())


def _detach(value: Any, ancestors: tuple[int, ...]) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if id(value) in ancestors:
        raise ValueError("context value contains a recursive cycle")
    parts, ancestors = _value_parts(value), (*ancestors, id(value))
    if isinstance(parts, Mapping):
        return {key: _detach(item, ancestors) for key, item in parts.items()}
    return value if parts is None else [_detach(item, ancestors) for item in parts]


def _value_parts(value: Any) -> Mapping[Any, Any] | list[Any] | None:
    """Returns the parts of a value; None for an immutable one."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return value
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=_sort_key)
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return None
    raise TypeError(
        f"detach: {type(value).__name__} is not plain data; keep dicts, lists, dataclasses or Pydantic models"
    )


def _sort_key(value: Any) -> str:
    return f"{type(value).__name__}:{value!r}"
