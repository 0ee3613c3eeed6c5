"""Storable values: plain JSON that the store takes, made of whatever tools wrote.

In the next turn a tool finds what another worker would find after a crash: the stored value, not the object it wrote.
"""

import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel

from workflows.context.context_variables import ContextVariables
from workflows.context.values.value_sizes import MAX_DEPTH, MAX_INTEGER, estimate_bytes
from workflows.context.values.value_text import shorten

log = logging.getLogger(__name__)

MAX_TEXT_CHARACTERS = 100_000  # of a value that is too large to be stored whole
MAX_BYTES = 4 * 1024 * 1024  # a run document may have 16 MB, and context and outcome need room too
UNREADABLE = "(cannot be read)"
CIRCLE = "(refers back to itself)"

Redact = Callable[[Any], Any]  # a redactor's `redact_data`


def _unchanged(value: Any) -> Any:
    return value


class _TooLargeError(Exception):
    """The value is too large to be stored whole."""


def make_plain(context: ContextVariables, redact: Redact) -> None:
    """Replaces values that are not plain by storable ones, in place.

    Plain values stay the same objects, since tools hold them."""
    seen: set[int] = set()
    for name, value in context.items():
        plain_name = storable_key(name, redact)
        if (
            type(name) is str
            and plain_name == name
            and estimate_bytes(value, max_bytes=MAX_BYTES, seen=seen) <= MAX_BYTES
        ):
            continue
        if plain_name != name:
            context.remove(name)
        context.set(plain_name, plain_copy(value, redact))
        log.warning("context_value_made_plain", extra={"variable": plain_name, "type": type(value).__name__})


def plain_copy(value: Any, redact: Redact = _unchanged, *, max_bytes: int = MAX_BYTES) -> Any:
    """Copies a value in storable form.

    `redact` gets whole values and whole texts, before anything is cut."""
    try:
        if estimate_bytes(value, max_bytes=max_bytes) <= max_bytes:
            # Four times as fast for plain values, and in one step that no thread of a tool can interrupt.
            return redact(json.loads(json.dumps(value)) if type(value) in (dict, list) else value)
    except (TypeError, ValueError):
        pass  # a tool's own thread has just changed it
    try:
        return redact(_PlainCopier(redact, max_bytes).copy_value(value, 0))
    except _TooLargeError:
        return _shortened_text(value, redact)


def storable_key(name: Any, redact: Redact = _unchanged) -> str:
    if type(name) is str and name.isascii() and "\x00" not in name and len(name) <= MAX_TEXT_CHARACTERS:
        return name
    return storable_text(_redacted_text(name, redact)).replace("\x00", "%00")


class _PlainCopier:
    """Copies one value. A size limit stops it: shared lists can expand beyond memory."""

    def __init__(self, redact: Redact, max_bytes: int) -> None:
        self._redact = redact
        self._max_bytes = max_bytes
        self._remaining_bytes: float = max_bytes
        self._open_containers: set[int] = set()

    def copy_value(self, value: Any, depth: int) -> Any:
        plain = value if value is None or type(value) is bool else self._copy_leaf(value)
        if plain is not NotImplemented:
            self._spend(estimate_bytes(plain, max_bytes=self._max_bytes))
            return plain
        if id(value) in self._open_containers:
            return CIRCLE
        if depth >= MAX_DEPTH:
            return _shortened_text(value, self._redact)
        self._open_containers.add(id(value))
        self._spend(8)
        try:
            return self._copy_container(value, depth + 1)
        finally:
            self._open_containers.discard(id(value))

    def _spend(self, weight: float) -> None:
        """Counts as `estimate_bytes` does, so both agree on what is plain."""
        self._remaining_bytes -= weight
        if self._remaining_bytes < 0:
            raise _TooLargeError

    def _copy_leaf(self, value: Any) -> Any:
        """Copies a leaf; NotImplemented for a container.

        Subclasses become their basic type: an enum's value, a number."""
        if type(value) in (dict, list):
            return NotImplemented
        if isinstance(value, str):
            return storable_text(str.__str__(value))
        if isinstance(value, int):
            exact = int.__add__(value, 0)
            return exact if -MAX_INTEGER - 1 <= exact <= MAX_INTEGER else self._object_text(exact)
        if isinstance(value, float):
            return float.__add__(value, 0.0) if math.isfinite(value) else json.dumps(float.__add__(value, 0.0))
        if isinstance(value, bytes | bytearray):
            return storable_text(bytes(value).decode("utf-8", "replace"))
        if isinstance(value, Enum) and isinstance(value.value, str | int | float):
            return self._copy_leaf(value.value)
        return NotImplemented if _is_container(value) else self._object_text(value)

    def _copy_container(self, value: Any, depth: int) -> Any:
        try:
            pairs, items = _container_items(value)
        except Exception:  # noqa: BLE001 -- a package's own container may be broken
            return UNREADABLE
        self._spend(8 * len(items if pairs is None else pairs))
        if pairs is None:
            return [self.copy_value(item, depth) for item in items]
        copied = {}
        for key, item in pairs:
            copied[self.copy_value(storable_key(key, self._redact), depth)] = self.copy_value(item, depth)
        return copied

    def _object_text(self, value: Any) -> str:
        return storable_text(_redacted_text(value, self._redact))


def _is_container(value: Any) -> bool:
    return isinstance(value, Mapping | Sequence | Set | BaseModel) or (
        is_dataclass(value) and not isinstance(value, type)
    )


def _container_items(value: Any) -> tuple[list[tuple[Any, Any]] | None, list[Any]]:
    if type(value) is list:
        return None, value.copy()
    if isinstance(value, BaseModel) or is_dataclass(value):
        names = type(value).model_fields if isinstance(value, BaseModel) else (field.name for field in fields(value))
        return [(name, getattr(value, name)) for name in names], []
    if isinstance(value, Mapping):
        return list(value.copy().items() if type(value) is dict else value.items()), []
    if isinstance(value, Set):
        return None, sorted(value, key=repr)  # in the same order in every process
    return None, list(value)


def _shortened_text(value: Any, redact: Redact) -> str:
    """Returns the beginning of a too large or too deeply nested value as text."""
    if isinstance(value, str):
        return _shorten(redact(value))
    parts: list[str] = []
    length = 0
    try:
        for part in json.JSONEncoder(default=str).iterencode(value):
            parts.append(part)
            length += len(part)
            if length > 2 * MAX_TEXT_CHARACTERS:
                break
    except Exception:  # noqa: BLE001 -- cycles, keys that are no text, and a package's own objects
        parts.append(UNREADABLE)
    return _shorten(redact("".join(parts)))


def _shorten(text: str) -> str:
    return storable_text(shorten(text, MAX_TEXT_CHARACTERS, "… (cut)"))


def _redacted_text(value: Any, redact: Redact) -> str:
    try:
        return _shorten(redact(str(value)))
    except Exception:  # noqa: BLE001 -- a package's own object, or a number with too many digits for Python
        return UNREADABLE


def storable_text(text: str) -> str:
    """Replaces lone surrogates, which models and tools may send and no store takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def plain_context(values: Iterable[tuple[Any, Any]], redact: Redact = _unchanged) -> dict[str, Any]:
    """Copies a whole context in storable form, whatever changes in it meanwhile."""
    return {storable_key(name, redact): plain_copy(value, redact) for name, value in values}
