"""The context of one tool call: a view of the context, plus the call's own writes.

Calls of one reply run side by side. Each works on a view as of the model's reply, so its changes, also inside a list or
a mapping, are its own: they are applied when it completes, and dropped when it must be repeated.
"""

import copy
import json
from collections.abc import ItemsView, Mapping, ValuesView
from dataclasses import dataclass
from typing import Any

from workflows.context.context_variables import ContextVariables

_IMMUTABLE = frozenset({type(None), bool, int, float, str, bytes})


@dataclass(frozen=True, slots=True)
class ContextChanges:
    """A call's changes. `written_names` also has names set to the value that they had."""

    values: Mapping[str, Any]
    removed_names: tuple[str, ...]
    written_names: frozenset[str]


class CallContext(ContextVariables):
    """Copies mutable plain data on the first read, and compares it after the call."""

    def __init__(self, base: Mapping[str, Any]) -> None:
        super().__init__(base)
        self._base = dict(self._data)
        self._json_texts: dict[str, str] = {}
        self._set_names: set[str] = set()

    def changes(self) -> ContextChanges:
        values = {name: value for name, value in self._data.copy().items() if self._is_changed(name, value)}
        removed = tuple(name for name in self._base if name not in self._data)
        return ContextChanges(values, removed, frozenset((*values, *removed)))

    def _is_changed(self, name: str, value: Any) -> bool:
        if name in self._set_names or name not in self._base:
            return True
        text = self._json_texts.get(name)
        return value is not self._base[name] if text is None else _json_text_or_none(value) != text

    def _copy_on_read(self, name: str) -> None:
        if name in self._json_texts or name in self._set_names or name not in self._data:
            return
        value = self._data[name]
        if type(value) in _IMMUTABLE or value is not self._base.get(name):
            return
        text = _json_text_or_none(value)
        if text is not None:
            self._json_texts[name], self._data[name] = text, copy.deepcopy(value)

    def _copy_all(self) -> None:
        for name in self._data.copy():
            self._copy_on_read(name)

    @property
    def data(self) -> dict[str, Any]:
        self._copy_all()
        return self._data

    @data.setter
    def data(self, data: Mapping[str, Any]) -> None:
        self._data = dict(data)
        self._set_names = set(data)

    def set(self, key: str, value: Any) -> None:
        self._set_names.add(key)
        super().set(key, value)

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    def to_dict(self) -> dict[str, Any]:
        self._copy_all()
        return super().to_dict()

    def copy(self) -> ContextVariables:
        return ContextVariables(self.to_dict())

    def __getitem__(self, key: str) -> Any:
        self._copy_on_read(key)
        return super().__getitem__(key)

    def items(self) -> ItemsView[str, Any]:
        return self.to_dict().items()

    def values(self) -> ValuesView[Any]:
        return self.to_dict().values()


def _json_text_or_none(value: Any) -> str | None:
    """Returns the JSON text; None for anything but plain data.

    A change in a package's own object cannot be seen, so calls share it. After the turn it becomes plain data too."""
    try:
        return json.dumps(value)
    except Exception:  # noqa: BLE001 -- cycles, depth, or a package's own container that raises anything
        return None
