"""Context variables as tools and routing see them: one live object per run."""

from collections.abc import ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any


class ContextVariables(MutableMapping[str, Any]):
    """A mapping with the methods of AG2's own class, as existing tools call them.

    They are get, set, update, remove, contains, to_dict and data. A tool's thread may continue to write after its turn,
    so each iteration uses a snapshot."""

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        self._data: dict[str, Any] = dict(data or {})

    @property
    def data(self) -> dict[str, Any]:
        return self._data

    @data.setter
    def data(self, data: Mapping[str, Any]) -> None:
        self._data = dict(data)

    def set(self, key: str, value: Any) -> None:
        self._data[key] = value

    def remove(self, key: str) -> bool:
        return self._data.pop(key, _ABSENT) is not _ABSENT

    def contains(self, key: str) -> bool:
        return key in self._data

    def to_dict(self) -> dict[str, Any]:
        return self._data.copy()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ContextVariables":
        return cls(data)

    def copy(self) -> "ContextVariables":
        """Copies; what is set in the copy is not set in the run."""
        return ContextVariables(self._data)

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._data[key] = value

    def __delitem__(self, key: str) -> None:
        del self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data.copy())

    def items(self) -> ItemsView[str, Any]:
        return self._data.copy().items()

    def values(self) -> ValuesView[Any]:
        return self._data.copy().values()

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"ContextVariables({sorted(self._data)})"  # names only: values may be confidential


_ABSENT = object()
