"""Storable values: plain JSON that a store takes, and what becomes of everything else that tools put into a context.

A tool finds in the next turn what another worker would find after a crash: what was kept, not the object it put there.
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

log = logging.getLogger(__name__)

MAX_TEXT = 100_000  # of a value that is too large to be kept as it is
MAX_DEPTH = 60  # MongoDB refuses documents nested deeper than 100; a run adds levels of its own
MAX_INTEGER = 2**63 - 1
MAX_BYTES = 4 * 1024 * 1024  # a run document may have 16 MB, and context and outcome need room too
UNREADABLE = "(cannot be read)"
CIRCLE = "(refers back to itself)"

Show = Callable[[Any], Any]  # a redactor's `data`


def _as_it_is(value: Any) -> Any:
    return value


class _TooLargeError(Exception):
    """Nothing that is kept whole."""


def make_plain(context: ContextVariables, show: Show) -> None:
    """Replaces what is not plain by what is kept of it. Plain values stay the very objects that tools hold."""
    seen: set[int] = set()
    for name, value in context.items():
        kept_name = as_key(name, show)
        if type(name) is str and kept_name == name and _weight(value, 0, seen) <= MAX_BYTES:
            continue
        if kept_name != name:
            context.remove(name)
        context.set(kept_name, plain_copy(value, show))
        log.warning("context_value_made_plain", extra={"variable": kept_name, "type": type(value).__name__})


def plain_copy(value: Any, show: Show = _as_it_is) -> Any:
    """As it can be kept. `show` sees the whole, and whatever is made into text before anything of it is cut off."""
    try:
        if _weight(value, 0, set()) <= MAX_BYTES:
            # Of plain values four times as fast, and in one step that no thread of a tool gets between.
            return show(json.loads(json.dumps(value)) if type(value) in (dict, list) else value)
    except (TypeError, ValueError):
        pass  # a tool's own thread has just put something into it
    try:
        return show(_Copy(show).of(value, 0))
    except _TooLargeError:
        return _beginning(value, show)


def as_key(name: Any, show: Show = _as_it_is) -> str:
    if type(name) is str and name.isascii() and "\x00" not in name and len(name) <= MAX_TEXT:
        return name
    return storable(_text(name, show)).replace("\x00", "%00")


def _weight(value: Any, depth: int, seen: set[int]) -> float:
    """Roughly the bytes of a value; infinite when it is not plain. Nor is what stands in two places: written down,
    a change in one of them no longer shows in the other."""
    if value is None or type(value) is bool:
        return 8
    if type(value) in (int, float):
        return (
            8
            if -MAX_INTEGER - 1 <= value <= MAX_INTEGER or (type(value) is float and math.isfinite(value))
            else math.inf
        )
    if type(value) is str:
        return _bytes(value)
    if type(value) not in (dict, list) or depth >= MAX_DEPTH or id(value) in seen:
        return math.inf
    seen.add(id(value))
    return _weight_inside(value.copy(), depth + 1, seen)  # copied in one step, which no thread of a tool gets between


def _weight_inside(held: Any, depth: int, seen: set[int]) -> float:
    total = 8.0
    if type(held) is dict:
        if not all(type(key) is str and "\x00" not in key for key in held):
            return math.inf
        total += sum(map(_bytes, held))
        held = held.values()
    for item in held:
        total += 8 + _weight(item, depth, seen)
        if total > MAX_BYTES:
            return math.inf
    return total


def _bytes(text: str) -> float:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:  # half of a character
        return math.inf


class _Copy:
    """One walk over a value. What weighs too much ends it: a few shared lists can stand for more than memory holds."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._left: float = MAX_BYTES
        self._above: set[int] = set()

    def of(self, value: Any, depth: int) -> Any:
        plain = value if value is None or type(value) is bool else self._leaf(value)
        if plain is not NotImplemented:
            self._spend(_weight(plain, 0, set()))
            return plain
        if id(value) in self._above:
            return CIRCLE
        if depth >= MAX_DEPTH:
            return _beginning(value, self._show)
        self._above.add(id(value))
        self._spend(8)
        try:
            return self._container(value, depth + 1)
        finally:
            self._above.discard(id(value))

    def _spend(self, weight: float) -> None:
        """As `_weight` counts, so that what is plain by its measure is so by this one."""
        self._left -= weight
        if self._left < 0:
            raise _TooLargeError

    def _leaf(self, value: Any) -> Any:
        """NotImplemented for what holds others. Subclasses become what they look like: an enum's value, a number."""
        if type(value) in (dict, list):
            return NotImplemented
        if isinstance(value, str):
            return storable(str.__str__(value))
        if isinstance(value, int):
            exact = int.__add__(value, 0)
            return exact if -MAX_INTEGER - 1 <= exact <= MAX_INTEGER else self._shown(exact)
        if isinstance(value, float):
            return float.__add__(value, 0.0) if math.isfinite(value) else json.dumps(float.__add__(value, 0.0))
        if isinstance(value, bytes | bytearray):
            return storable(bytes(value).decode("utf-8", "replace"))
        if isinstance(value, Enum) and isinstance(value.value, str | int | float):
            return self._leaf(value.value)
        return NotImplemented if _is_container(value) else self._shown(value)

    def _container(self, value: Any, depth: int) -> Any:
        try:
            pairs, items = _held(value)
        except Exception:  # noqa: BLE001 -- a package's own container may be broken
            return UNREADABLE
        self._spend(8 * len(items if pairs is None else pairs))
        if pairs is None:
            return [self.of(item, depth) for item in items]
        copied = {}
        for key, item in pairs:
            copied[self.of(as_key(key, self._show), depth)] = self.of(item, depth)
        return copied

    def _shown(self, value: Any) -> str:
        return storable(_text(value, self._show))


def _is_container(value: Any) -> bool:
    return isinstance(value, Mapping | Sequence | Set | BaseModel) or (
        is_dataclass(value) and not isinstance(value, type)
    )


def _held(value: Any) -> tuple[list[tuple[Any, Any]] | None, list[Any]]:
    if type(value) is list:
        return None, value.copy()
    if isinstance(value, BaseModel) or is_dataclass(value):
        names = type(value).model_fields if isinstance(value, BaseModel) else (each.name for each in fields(value))
        return [(name, getattr(value, name)) for name in names], []
    if isinstance(value, Mapping):
        return list(value.copy().items() if type(value) is dict else value.items()), []
    if isinstance(value, Set):
        return None, sorted(value, key=repr)  # the same order in every process
    return None, list(value)


def _beginning(value: Any, show: Show) -> str:
    """What is too large, or nested too deeply, is kept as text, and of that the beginning."""
    if isinstance(value, str):
        return _cut(show(value))
    parts: list[str] = []
    length = 0
    try:
        for part in json.JSONEncoder(default=str).iterencode(value):
            parts.append(part)
            length += len(part)
            if length > 2 * MAX_TEXT:
                break
    except Exception:  # noqa: BLE001 -- circles, keys that are no text, and a package's own objects
        parts.append(UNREADABLE)
    return _cut(show("".join(parts)))


def _cut(text: str) -> str:
    return storable(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… (cut)")


def _text(value: Any, show: Show) -> str:
    try:
        return _cut(show(str(value)))
    except Exception:  # noqa: BLE001 -- a package's own object, or a number of more digits than Python writes
        return UNREADABLE


def storable(text: str) -> str:
    """Models and tools may give half of a character (a lone surrogate), which no store and no wire takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def plain_values(values: Iterable[tuple[Any, Any]], show: Show = _as_it_is) -> dict[str, Any]:
    """A copy of a whole context as it can be kept, whatever is done to the original meanwhile."""
    return {as_key(name, show): plain_copy(value, show) for name, value in values}


def weight_of(value: Any) -> float:
    """Roughly in bytes; infinite for what is not plain."""
    return _weight(value, 0, set())
