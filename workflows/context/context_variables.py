"""Context variables as tools and routing see them: one live object per run."""

from collections.abc import ItemsView, Iterator, Mapping, MutableMapping
from typing import Any

MAX_COPIED_DEPTH = 100


class ContextVariables(MutableMapping[str, Any]):
    """A mapping with the methods that tools of existing packages call: get, set, update, remove, data.

    A tool may have started a thread that goes on writing after its turn: whoever iterates sees one moment.
    """

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
        return iter(self._data.copy())

    def items(self) -> ItemsView[str, Any]:
        return self._data.copy().items()

    def kept(self) -> dict[str, Any]:
        """As it is now, for good: what a tool's own thread changes later, at any depth, does not show."""
        copies: dict[int, tuple[Any, Any]] = {}
        return {name: _copied(value, copies, MAX_COPIED_DEPTH) for name, value in self.items()}

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"ContextVariables({sorted(self._data)})"  # names only: values may be anybody's data


def _copied(value: Any, copies: dict[int, tuple[Any, Any]], depth: int) -> Any:
    """Plain mappings and lists only, each once: a tool may put any object into a context."""
    if type(value) not in (dict, list) or depth == 0:
        return value
    if id(value) in copies:
        return copies[id(value)][1]
    copied = value.copy()  # one step, which no other thread gets between
    copies[id(value)] = value, copied  # with the original, so that nothing else takes its id
    for key, item in copied.items() if isinstance(copied, dict) else enumerate(copied):
        copied[key] = _copied(item, copies, depth - 1)
    return copied


_ABSENT = object()
