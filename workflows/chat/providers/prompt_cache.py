"""Prompt cache keys: each request names its conversation for the provider's cache.

One client with one set of options serves all runs of a process. The key belongs to the run of the current turn, so it
is added when the options are read.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ag2.config import LLMClient

from workflows.chat.chat_state import live_turn

CacheOption = Callable[[str], Mapping[str, Any]]
"""Returns the request option that carries this key."""


def cache_key_parameter(key: str) -> Mapping[str, Any]:
    return {"prompt_cache_key": key}


def add_cache_key(client: LLMClient, option: CacheOption) -> LLMClient:
    """Adds the key by replacing the options, since AG2 has none for a single request."""
    vars(client)["_create_options"] = _OptionsWithCacheKey(vars(client)["_create_options"], option)
    return client


class _OptionsWithCacheKey(Mapping[str, Any]):
    def __init__(self, options: Mapping[str, Any], option: CacheOption) -> None:
        self._options, self._option = options, option

    def _current_options(self) -> Mapping[str, Any]:
        key = _cache_key()
        return self._options if key is None else {**self._options, **self._option(key)}

    def copy(self) -> dict[str, Any]:
        """Returns the options of one request for the client of the Responses API."""
        return dict(self._current_options())

    def __getitem__(self, name: str) -> Any:
        return self._current_options()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current_options())

    def __len__(self) -> int:
        return len(self._current_options())


def _cache_key() -> str | None:
    """Returns None outside of a run, as when a model is tried by itself."""
    try:
        seed = live_turn().chat.fixed_values.get("cache_seed")
    except LookupError:
        return None
    return None if seed is None else str(seed)
