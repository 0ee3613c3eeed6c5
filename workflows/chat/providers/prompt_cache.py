"""Prompt cache keys: each request names its conversation, so that a provider finds the cache of its prompt.

One client serves all runs of a process, and its options stand for all of them. The key is of the run whose turn asks,
so it is added when the options are read.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ag2.config import LLMClient

from workflows.chat.live import live_turn

CacheOption = Callable[[str], Mapping[str, Any]]
"""The option of a request that carries this key."""


def as_parameter(key: str) -> Mapping[str, Any]:
    return {"prompt_cache_key": key}


def add_cache_key(client: LLMClient, option: CacheOption) -> LLMClient:
    """AG2's clients have no option of a single request."""
    vars(client)["_create_options"] = _KeyedOptions(vars(client)["_create_options"], option)
    return client


class _KeyedOptions(Mapping[str, Any]):
    def __init__(self, given: Mapping[str, Any], option: CacheOption) -> None:
        self._given, self._option = given, option

    def _now(self) -> Mapping[str, Any]:
        key = _cache_key()
        return self._given if key is None else {**self._given, **self._option(key)}

    def copy(self) -> dict[str, Any]:
        """Returns the options of one request, as the client of the Responses API takes them."""
        return dict(self._now())

    def __getitem__(self, name: str) -> Any:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


def _cache_key() -> str | None:
    """None outside of a run, as when a model is tried by itself."""
    try:
        seed = live_turn().chat.fixed.get("cache_seed")
    except LookupError:
        return None
    return None if seed is None else str(seed)
