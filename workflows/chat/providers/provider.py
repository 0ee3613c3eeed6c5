"""A provider: opens a model and reads its errors, answers and numbers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from ag2.config import LLMClient, ModelConfig
from ag2.context import ConversationContext
from ag2.events import BaseEvent, ModelResponse, Usage

from accounting.usage import Tokens
from workflows.chat.chat_errors import ModelError
from workflows.chat.providers.connections import CONNECT_TIMEOUT_S, IDLE_TIMEOUT_S, MAX_IDLE_CONNECTIONS
from workflows.chat.providers.prompt_cache import CacheOption
from workflows.models_file import HostedModel

MAX_CONNECTIONS = 1000  # the concurrency of runs is the limit; httpx's default would be 100
ANSWER_TIMEOUT_S = 120.0  # the libraries' defaults are three times ten minutes, or no timeout


@dataclass(frozen=True, slots=True)
class OpenModel:
    """One model in this process.

    `config` makes AG2's client, once; `close` closes its sockets. `cache_option` adds the key of the provider's prompt
    cache to a request."""

    config: ModelConfig
    close: Callable[[], Awaitable[None]]
    answer_timeout_s: float | None = None
    is_streamed: bool = False
    cache_option: CacheOption | None = None


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider's functions.

    `explain` returns None for an error that is not the model's. `is_whole` checks streamed answers only. `is_paid`: an
    answer without usage costs something, so its usage is estimated."""

    open: Callable[[Any, str | None], OpenModel]
    explain: Callable[[Exception], ModelError | None]
    normalize: Callable[[Usage], Tokens]
    is_whole: Callable[[ModelResponse], bool] = lambda answer: answer.finish_reason is not None
    is_paid: bool = True


class DeadlineClient(LLMClient):
    """Bounds the whole answer: libraries bound each read only.

    A server may send one byte a minute."""

    def __init__(self, inner: LLMClient, *, provider: str, timeout_s: float) -> None:
        self._inner = inner
        self._provider = provider
        self._timeout_s = timeout_s

    async def __call__(
        self, messages: Sequence[BaseEvent], context: ConversationContext, **request: Any
    ) -> ModelResponse:
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await self._inner(messages, context, **request)
        except TimeoutError:
            if not limit.expired():
                raise  # the library's own, with a more precise text
            message = f"{self._provider} sent no complete answer within {self._timeout_s:g} s"
            raise ModelError(message, transient=True) from None


def answer_timeout_s(spec: HostedModel) -> float:
    return ANSWER_TIMEOUT_S if spec.timeout is None else spec.timeout.total_seconds()


def httpx_options(spec: HostedModel) -> dict[str, Any]:
    """Returns options for libraries that do not use the pooled client's httpx2."""
    timeout_s = answer_timeout_s(spec)
    return {
        "timeout": httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S)),
        "limits": httpx.Limits(
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_TIMEOUT_S,
        ),
        "follow_redirects": True,
    }
