"""Redaction: hidden values taken out of text and data, whatever carried them there.

A value is found as it is and as JSON or Python writes it between quotes. Not further: what code encoded (base64,
URL), cut up or turned around on purpose is not found, nor is a value of fewer than 6 characters, or
of one ordinary word.
"""

import json
import re
import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from workflows.context.context_variables import ContextVariables

HIDDEN = "(hidden)"
SHORTEST = 6
MAX_DEPTH = 100
# A single word such as europe or warning is a setting rather than a secret: hidden, it would tear holes into
# ordinary sentences.
_WORD = re.compile(r"[a-z]{1,9}|production|development", re.IGNORECASE)


class Redactor:
    """One per process, shared by its runs and its log: values are added as packages come, and never removed."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: frozenset[str] = frozenset()
        self._forms: tuple[str, ...] = ()
        self._pattern = re.compile(r"(?!)")
        self._adding = threading.Lock()
        self.hide(values)

    def hide(self, values: Iterable[str]) -> None:
        wanted = frozenset(part for value in values for part in _parts(value))
        with self._adding:
            if wanted <= self._values:
                return
            self._values |= wanted
            forms = sorted({form for value in self._values for form in _forms(value)}, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(_bounded, forms)))
            self._forms = tuple(forms)

    def text(self, text: str) -> str:
        # Looking for each is many times faster than the pattern, and nearly always the end of it.
        if not any(form in text for form in self._forms):
            return text
        redacted = self._pattern.sub(HIDDEN, text)
        return text if redacted == text else redacted

    def data(self, value: Any) -> Any:
        """The same object when nothing in it is hidden, so that whoever holds a live one keeps it."""
        return self._data(value, 0) if self._forms else value

    def _data(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(value)
        if depth < MAX_DEPTH:
            if isinstance(value, Mapping):
                return self._mapping(value, depth + 1)
            if isinstance(value, list | tuple):
                items = [self._data(item, depth + 1) for item in value]
                if _same(items, value):
                    return value
                return items if isinstance(value, list) else tuple(items)
        return self._other(value)

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> Any:
        try:
            pairs = list(value.items())
        except Exception:  # noqa: BLE001 -- a tool's own mapping may be broken; what cannot be read is not shown
            return HIDDEN
        keys = [self._data(key, depth) for key, _ in pairs]
        items = [self._data(item, depth) for _, item in pairs]
        if _same(keys, [key for key, _ in pairs]) and _same(items, [item for _, item in pairs]):
            return value
        return dict(zip(keys, items, strict=True))

    def _other(self, value: Any) -> Any:
        """Numbers, and objects that a log or the store would show as text."""
        try:
            shown, written = str(value), repr(value)
        except Exception:  # noqa: BLE001 -- a tool's own object may be broken; what cannot be read is not shown
            return HIDDEN
        if self.text(shown) != shown:
            return self.text(shown)
        return value if self.text(written) == written else HIDDEN


def take_out(
    context: ContextVariables, suppressed: Collection[str], redactor: Redactor, *, fixed: Collection[str] = ()
) -> list[str]:
    """What a tool put into a context and may not stay there; returns the names. Changed in place: tools hold it."""
    found = []
    for name, value in context.data.copy().items():
        if name in fixed:
            continue
        shown_name, shown = redactor.data(name), redactor.data(value)
        if name in suppressed or shown_name is not name:
            context.remove(name)
        elif shown is not value:
            context.set(name, shown)
        else:
            continue
        found.append(str(shown_name))
    return sorted(found)


def _parts(value: str) -> Iterable[str]:
    """The value, and what a tool gets that reads it as JSON."""
    text = value.strip()
    if _worth_hiding(text):
        yield text
    if text[:1] in ("{", "["):
        try:
            yield from (leaf.strip() for leaf in _leaves(json.loads(text)) if _worth_hiding(leaf.strip()))
        except (ValueError, RecursionError):
            return


def _leaves(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)


def _worth_hiding(text: str) -> bool:
    return len(text) >= SHORTEST and not _WORD.fullmatch(text) and text not in HIDDEN


def _forms(value: str) -> set[str]:
    return {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}


def _bounded(form: str) -> str:
    """A number is not looked for inside a longer one."""
    return rf"(?<!\d){form}(?!\d)" if form.isascii() and form.isdigit() else re.escape(form)


def _same(one: Collection[Any], other: Collection[Any]) -> bool:
    return all(left is right for left, right in zip(one, other, strict=True))
