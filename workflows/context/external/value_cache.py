"""Cache of external values, bounded per process; concurrent misses share one call."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass

MAX_ENTRIES = 256
MAX_BYTES = 16 * 1024 * 1024

Fetch = Callable[[], Coroutine[None, None, str]]


@dataclass(frozen=True, slots=True)
class _CachedValue:
    text: str
    fetched_at: float


class ValueCache:
    """Caches values as text, so each run parses its own copy.

    Keys begin with the app, so no app reads another's values."""

    def __init__(
        self, clock: Callable[[], float], *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES
    ) -> None:
        self._clock = clock
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, _CachedValue] = OrderedDict()  # the least recently used first
        self._bytes = 0
        self._calls: dict[Hashable, asyncio.Task[str]] = {}

    async def get(self, key: Hashable, fetch: Fetch, *, ttl_s: float) -> str:
        entry = self._entries.get(key)
        if entry is not None and self._clock() - entry.fetched_at < ttl_s:
            self._entries.move_to_end(key)
            return entry.text
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = asyncio.create_task(self._fetch(key, fetch))
            call.add_done_callback(lambda done: self._remove_call(key, done))
        # Shielded: a cancelled run does not cancel the call for the others.
        return await asyncio.shield(call)

    async def close(self) -> None:
        calls = list(self._calls.values())
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def _fetch(self, key: Hashable, fetch: Fetch) -> str:
        text = await fetch()
        self._forget(key)
        self._entries[key] = _CachedValue(text, self._clock())
        self._bytes += len(text)
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            self._forget(next(iter(self._entries)))
        return text

    def _remove_call(self, key: Hashable, call: asyncio.Task[str]) -> None:
        self._calls.pop(key, None)
        if not call.cancelled():
            call.exception()  # marks the exception as retrieved, even without a waiting run

    def _forget(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= len(entry.text)
