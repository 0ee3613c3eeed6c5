"""The meter: reserves, counts, times and records every model call of a run, before its answer is used."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ag2.config import LLMClient
from ag2.context import ConversationContext
from ag2.events import BaseEvent, ModelRequest, ModelResponse, TextInput, ToolResultsEvent, Usage

from accounting.budget import BudgetExhaustedError, PlannedCall, Reserve, Settle, unlimited
from accounting.prices import PriceTable
from accounting.uninterrupted import to_its_end
from accounting.usage import ModelCall, Tokens
from workflows.chat.checkpoint import Counters
from workflows.chat.errors import BudgetExhausted, ModelError
from workflows.chat.guards import before_call
from workflows.chat.live import LiveTurn, live_turn

RecordUsage = Callable[[ModelCall], Awaitable[None]]
ExplainError = Callable[[Exception], ModelError | None]
Normalise = Callable[[Usage], Tokens]


@dataclass(slots=True)
class RunMeter:
    """Shared by all turns of one run under one lease: call numbers never repeat within a lease token."""

    record: RecordUsage
    counters: Counters = field(default_factory=Counters)
    prices: PriceTable = field(default_factory=PriceTable)
    reserve: Reserve = unlimited
    calls: int = 0


class MeteredClient(LLMClient):
    """Wraps a provider's client. Every call passes here exactly once, also those that fail or are cancelled."""

    def __init__(
        self, inner: LLMClient, *, provider: str, model: str, explain: ExplainError, normalise: Normalise
    ) -> None:
        self._inner = inner
        self._labels = (provider, model)
        self._explain = explain
        self._normalise = normalise

    async def __call__(
        self, messages: Sequence[BaseEvent], context: ConversationContext, **request: Any
    ) -> ModelResponse:
        live = live_turn()
        before_call(live)
        call = await _OpenCall.begin(live, self._labels, self._normalise, context.prompt, messages)
        try:
            response = await self._inner(messages, context, **request)
        except asyncio.CancelledError:
            await call.end(None, error="Cancelled")
            raise
        except Exception as error:
            failed = live.chat.counters.failed
            failed[live.asker] = failed.get(live.asker, 0) + 1
            await call.end(None, error=type(error).__name__)
            raise self._as_model_error(error) from error
        live.answers[live.asker] += 1
        await call.end(response, error=None)
        return response

    def _as_model_error(self, error: Exception) -> ModelError:
        """Whatever goes wrong between the request and a readable answer is the model's failure, not the package's."""
        if isinstance(error, ModelError):
            return error
        unexplained = ModelError(f"the model's answer cannot be used: {type(error).__name__}", transient=False)
        return self._explain(error) or unexplained


@dataclass(slots=True)
class _OpenCall:
    live: LiveTurn
    number: int
    labels: tuple[str, str]
    normalise: Normalise
    settle: Settle
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started: float = field(default_factory=time.perf_counter)

    @staticmethod
    async def begin(
        live: LiveTurn,
        labels: tuple[str, str],
        normalise: Normalise,
        prompt: Iterable[str],
        messages: Iterable[BaseEvent],
    ) -> "_OpenCall":
        meter = live.chat.meter
        meter.calls += 1  # before anything is awaited: sub-tasks of one turn call at the same time
        meter.counters.model_calls += 1
        number = meter.calls
        planned = PlannedCall(number, live.asker, *labels, prompt_characters=_characters(prompt, messages))
        try:
            settle = await meter.reserve(planned)
        except BudgetExhaustedError as error:
            raise BudgetExhausted(str(error)) from None
        return _OpenCall(live, number, labels, normalise, settle)

    async def end(self, response: ModelResponse | None, *, error: str | None) -> None:
        usage = response.usage if response is not None else Usage()
        provider, model = self.labels
        call = ModelCall(
            number=self.number,
            agent=self.live.asker,
            provider=provider,
            model=model,
            tokens=self.normalise(usage),
            status="reported" if usage else "missing",
            ok=error is None,
            error=error,
            started_at=self.started_at,
            duration_s=time.perf_counter() - self.started,
        )
        self._count(call)
        # What was served is owed, also by a run that is cancelled.
        await to_its_end(self._keep(call))

    async def _keep(self, call: ModelCall) -> None:
        try:
            await self.live.chat.meter.record(call)
        finally:
            await self.settle(call)

    def _count(self, call: ModelCall) -> None:
        meter = self.live.chat.meter
        self.live.tokens["input"] += call.tokens.input
        self.live.tokens["output"] += call.tokens.output
        meter.counters.tokens += call.tokens.input + call.tokens.output
        cost = meter.prices.cost(call.tokens, provider=call.provider, model=call.model, at=call.started_at)
        meter.counters.cost_nano_usd += cost or 0


def _characters(prompt: Iterable[str], messages: Iterable[BaseEvent]) -> int:
    return sum(map(len, prompt)) + sum(len(text) for event in messages for text in _texts(event))


def _texts(event: BaseEvent) -> Iterable[str]:
    if isinstance(event, ModelRequest):
        return (part.content for part in event.parts if isinstance(part, TextInput))
    if isinstance(event, ModelResponse):
        return (event.content or "", *(call.arguments or "" for call in event.tool_calls.calls))
    if isinstance(event, ToolResultsEvent):
        parts = (part for result in event.results for part in result.result.parts)
        return (part.content for part in parts if isinstance(part, TextInput))
    return ()


def normalised(usage: Usage) -> Tokens:
    """OpenAI's meaning, which `script` shares: prompt includes cached, completion includes reasoning."""
    return Tokens(
        input=int(usage.prompt_tokens or 0),
        cached_input=int(usage.cache_read_input_tokens or 0),
        cache_write=int(usage.cache_creation_input_tokens or 0),
        output=int(usage.completion_tokens or 0),
        reasoning=int(usage.thinking_tokens or 0),
    )
