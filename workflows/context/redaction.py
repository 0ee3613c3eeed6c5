"""Redaction: removes hidden values from text and data.

A value is found as it is, and as JSON or Python writes it between quotes. Not found are values that code encoded
(base64, URL), cut or reversed, and values of fewer than 6 characters.
"""

import json
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from workflows.context.context_variables import ContextVariables

HIDDEN = "(hidden)"
MIN_HIDDEN_CHARACTERS = 6
MAX_DEPTH = 100
# Settings rather than secrets: hiding them would tear holes into ordinary sentences.
_ORDINARY_WORDS = frozenset(
    {"production", "development", "staging", "testing", "sandbox", "enabled", "disabled", "default"}
)
# Pydantic quotes a refused input and cuts a long one in the middle, and half of a value is not found.
_CUT_INPUT = re.compile(r"input_value=.{1,60}\.\.\..{1,60}, input_type=")


class Redactor:
    """Hides values in one process, for its runs and its log.

    Values are added as packages are loaded, and never removed."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: frozenset[str] = frozenset()
        self._forms: tuple[str, ...] = ()
        self._pattern = re.compile(r"(?!)")
        self._lock = threading.Lock()
        self.hide(values)

    def hide(self, values: Iterable[str]) -> None:
        hidden = frozenset(part for value in values for part in _hidden_texts(value))
        with self._lock:
            if hidden <= self._values:
                return
            self._values |= hidden
            forms = sorted({form for value in self._values for form in _written_forms(value)}, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(_form_pattern, forms)))
            self._forms = tuple(forms)

    def redact_text(self, text: str) -> str:
        if len(text) < MIN_HIDDEN_CHARACTERS or not self._forms:
            return text
        if "input_value=" in text:
            text = _CUT_INPUT.sub(f"input_value={HIDDEN}, input_type=", text)
        # Searching for each form is many times faster than the pattern, and nearly always enough.
        for form in self._forms:
            if form in text:
                redacted = self._pattern.sub(HIDDEN, text)
                return text if redacted == text else redacted
        return text

    def redact_data(self, value: Any) -> Any:
        """Returns the same object when nothing is hidden, so live references stay valid."""
        if not self._forms:
            return value
        if type(value) is str:
            return self.redact_text(value)  # most values are text, and a walk is not needed
        walk = _VisitedContainers()
        shown = self._redact_data(value, 0, walk)
        # A cycle cannot be copied: the copy would still lead to the original.
        return HIDDEN if walk.has_cycle and shown is not value else shown

    def _redact_data(self, value: Any, depth: int, walk: "_VisitedContainers") -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.redact_text(value)
        if depth < MAX_DEPTH and isinstance(value, Mapping | list | tuple):
            return walk.visit_once(value, lambda: self._redact_container(value, depth + 1, walk))
        return self._redact_object(value)

    def _redact_container(
        self, value: Mapping[Any, Any] | Sequence[Any], depth: int, walk: "_VisitedContainers"
    ) -> Any:
        if isinstance(value, Mapping):
            return self._redact_mapping(value, depth, walk)
        current = list(value)  # copied, since a tool's own thread may change it meanwhile
        items = [self._redact_data(item, depth, walk) for item in current]
        if _are_identical(items, current):
            return value
        return tuple(items) if isinstance(value, tuple) else items

    def _redact_mapping(self, value: Mapping[Any, Any], depth: int, walk: "_VisitedContainers") -> Any:
        try:
            pairs = list(value.items())
        except Exception:  # noqa: BLE001 -- a tool's own mapping may be broken; an unreadable value is hidden
            return HIDDEN
        keys = [self._redact_data(key, depth, walk) for key, _ in pairs]
        items = [self._redact_data(item, depth, walk) for _, item in pairs]
        if _are_identical(keys, [key for key, _ in pairs]) and _are_identical(items, [item for _, item in pairs]):
            return value
        return dict(zip(keys, items, strict=True))

    def _redact_object(self, value: Any) -> Any:
        """Redacts numbers, and objects that a log or the store would write as text."""
        try:
            shown = str(value)
            written = shown if type(value) in (int, float) else repr(value)
        except Exception:  # noqa: BLE001 -- a tool's own object may be broken; an unreadable value is hidden
            return HIDDEN
        if self.redact_text(shown) != shown:
            return self.redact_text(shown)
        return value if self.redact_text(written) == written else HIDDEN


class _VisitedContainers:
    """Visits each container once.

    Otherwise shared containers, and trees whose nodes refer to their parents, would be walked along every path."""

    def __init__(self) -> None:
        self.has_cycle = False
        self._results: dict[int, list[Any]] = {}  # with the container itself, so that its id stays taken

    def visit_once(self, container: Any, redact: Callable[[], Any]) -> Any:
        known = self._results.get(id(container))
        if known is not None:
            self.has_cycle |= len(known) == 1  # its visit has not finished
            return known[-1]
        entry = self._results[id(container)] = [container]
        entry.append(redact())
        return entry[-1]


def remove_hidden(
    context: ContextVariables, suppressed: Collection[str], redactor: Redactor, *, fixed: Collection[str] = ()
) -> list[str]:
    """Hides, in place, what a tool put into a context. Returns the names."""
    found = []
    for name, value in context.data.copy().items():
        if name in fixed:
            continue
        shown_name, shown = redactor.redact_data(name), redactor.redact_data(value)
        if name in suppressed or shown_name is not name:
            context.remove(name)
        elif shown is not value:
            context.set(name, shown)
        else:
            continue
        found.append(str(shown_name))
    return sorted(found)


def _hidden_texts(value: str) -> Iterable[str]:
    """Yields the value, and its parts where it is JSON that a tool may parse."""
    text = value.strip()
    if _is_hideable(text):
        yield text
    if text[:1] in ("{", "["):
        try:
            yield from (leaf.strip() for leaf in _leaves(json.loads(text)) if _is_hideable(leaf.strip()))
        except (ValueError, RecursionError):
            return


def _leaves(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)


def _is_hideable(text: str) -> bool:
    return len(text) >= MIN_HIDDEN_CHARACTERS and text.lower() not in _ORDINARY_WORDS and text not in HIDDEN


def _written_forms(value: str) -> set[str]:
    return {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}


def _form_pattern(form: str) -> str:
    """Makes a pattern; a number is not found inside a longer one."""
    return rf"(?<!\d){form}(?!\d)" if form.isascii() and form.isdigit() else re.escape(form)


def _are_identical(one: Collection[Any], other: Collection[Any]) -> bool:
    return all(left is right for left, right in zip(one, other, strict=True))
