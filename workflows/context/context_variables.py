"""Context variables as tools and routing see them: one live object per run."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any


class ContextVariables(MutableMapping[str, Any]):
    """A mapping with the methods that tools of existing packages call: get, set, update, remove, data."""

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        self._data: dict[str, Any] = dict(data or {})

    @property
    def data(self) -> dict[str, Any]:
        return self._data

    def set(self, key: str, value: Any) -> None:
        self._data[key] = value

    def remove(self, key: str) -> bool:
        return self._data.pop(key, _ABSENT) is not _ABSENT

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._data[key] = value

    def __delitem__(self, key: str) -> None:
        del self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"ContextVariables({sorted(self._data)})"  # names only: values may be anybody's data


_ABSENT = object()
