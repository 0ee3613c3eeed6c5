"""A cache of bounded size, for values by a key that callers choose."""

from collections import OrderedDict
from typing import Generic, TypeVar

ValueT = TypeVar("ValueT")


class BoundedCache(Generic[ValueT]):
    """Drops the entry that was written longest ago when it is full."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[str, ValueT] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> ValueT | None:
        return self._entries.get(key)

    def put(self, key: str, value: ValueT) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def remove(self, key: str) -> None:
        self._entries.pop(key, None)
