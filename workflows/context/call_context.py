"""The context of one tool call: the context as the model's reply found it, plus the call's own writes.

Calls of one reply run side by side. Each works on a view, so that what a call changed, also inside a list or a
mapping, is known as its own, applied when it completes, and dropped when it has to be made again.
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
    """`written`: every name that the call wrote, also with the value that it had."""

    values: Mapping[str, Any]
    removed_names: tuple[str, ...]
    written_names: frozenset[str]


class CallContext(ContextVariables):
    """Copies plain data that can change inside when it is first read, and compares it when the call is over."""

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
    """None for what is not plain data, such as an object of the package's own: whether it has changed cannot be seen,
    so that calls share it, as it was made to be. When the turn is over it becomes plain data too."""
    try:
        return json.dumps(value)
    except Exception:  # noqa: BLE001 -- cycles, depth, and a container of the package's own that may raise anything
        return None
