"""The meter: reserves, counts, times and records every model call of a run, before its answer is used."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ag2.config import LLMClient
from ag2.context import ConversationContext
from ag2.events import BaseEvent, ModelRequest, ModelResponse, TextInput, ToolResultsEvent, Usage

from accounting.budgets.asking import BudgetExhaustedError, PlannedCall, Reserve, Settle, unlimited
from accounting.prices import PriceTable
from accounting.uninterrupted import to_its_end
from accounting.usage import ModelCall, Tokens
from workflows.chat.checkpoint import Counters
from workflows.chat.errors import BudgetExhausted, BudgetUnknown, ModelError
from workflows.chat.guards import before_call
from workflows.chat.live import LiveTurn, live_turn

log = logging.getLogger(__name__)

BUDGET_ANSWERS_WITHIN_S = 10.0

RecordUsage = Callable[[ModelCall], Awaitable[None]]
ExplainError = Callable[[Exception], ModelError | None]
Normalise = Callable[[Usage], Tokens]
FindFault = Callable[[ModelResponse], ModelError | None]


@dataclass(slots=True)
class RunMeter:
    """Shared by all turns of one run under one lease: call numbers never repeat within a lease token. `reserving` are
    calls that may be made and are not yet: sub-tasks of one turn ask for money at the same time."""

    record: RecordUsage
    counters: Counters = field(default_factory=Counters)
    prices: PriceTable = field(default_factory=PriceTable)
    reserve: Reserve = unlimited
    calls: int = 0
    reserving: int = 0
    unpriced: set[tuple[str, str]] = field(default_factory=set)


class MeteredClient(LLMClient):
    """Wraps a provider's client. Every call passes here exactly once, also those that fail or are cancelled."""

    def __init__(
        self,
        inner: LLMClient,
        *,
        provider: str,
        model: str,
        explain: ExplainError,
        normalise: Normalise,
        fault: FindFault = lambda _: None,
    ) -> None:
        self._inner = inner
        self._labels = (provider, model)
        self._explain = explain
        self._normalise = normalise
        self._fault = fault

    async def __call__(
        self, messages: Sequence[BaseEvent], context: ConversationContext, **request: Any
    ) -> ModelResponse:
        live = live_turn()
        call = await _OpenCall.begin(live, self._labels, self._normalise, context.prompt, messages)
        try:
            response = await self._inner(messages, context, **request)
        except asyncio.CancelledError as error:
            await call.end(None, error="Cancelled")
            if _is_cancelled():
                raise
            raise ModelError("the model's library gave the call up", transient=True) from error
        except Exception as error:
            _count_failed(live)
            await call.end(None, error=type(error).__name__)
            raise self._as_model_error(error) from error
        fault = self._fault(response)
        if fault is not None:
            _count_failed(live)
            await call.end(response, error=type(fault).__name__)
            raise fault
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
        """Raises when the call must not be made; then nothing of it is counted, and its number is not used again."""
        meter = live.chat.meter
        before_call(live, on_the_way=meter.reserving)
        meter.calls += 1
        planned = PlannedCall(meter.calls, live.asker, *labels, prompt_characters=_characters(prompt, messages))
        meter.reserving += 1
        try:
            settle = await _reserved(live, planned)
        finally:
            meter.reserving -= 1
        meter.counters.model_calls += 1
        return _OpenCall(live, planned.number, labels, normalise, settle)

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
            await self._settled(call)

    async def _settled(self, call: ModelCall) -> None:
        """Once for each reservation. One that cannot be settled expires; the answer is paid for and used."""
        try:
            async with asyncio.timeout(BUDGET_ANSWERS_WITHIN_S):
                await self.settle(call)
        except Exception as error:  # noqa: BLE001 -- whatever a budget is kept in may be away
            log.warning("budget_not_settled", extra={"call": call.number, "error": type(error).__name__})

    def _count(self, call: ModelCall) -> None:
        meter = self.live.chat.meter
        self.live.tokens["input"] += call.tokens.input
        self.live.tokens["output"] += call.tokens.output
        meter.counters.tokens += call.tokens.input + call.tokens.output
        cost = meter.prices.cost(call.tokens, provider=call.provider, model=call.model, at=call.started_at)
        meter.counters.cost_nano_usd += cost or 0
        limited = self.live.chat.package.orchestrator.limits.usd is not None
        if cost is None and limited and self.labels not in meter.unpriced:
            meter.unpriced.add(self.labels)  # said once a run: this limit cannot stop what it asks this model
            log.warning("price_unknown", extra={"provider": call.provider, "model": call.model, "agent": call.agent})


async def _reserved(live: LiveTurn, planned: PlannedCall) -> Settle:
    asked = f"for {live.asker} in turn {live.number}"
    try:
        async with asyncio.timeout(BUDGET_ANSWERS_WITHIN_S):
            return await live.chat.meter.reserve(planned)
    except BudgetExhaustedError as error:
        raise BudgetExhausted(f"{error}; nothing was reserved {asked}") from None
    except Exception as error:
        raise BudgetUnknown(f"the budget cannot be asked {asked}: {type(error).__name__}") from error


def _is_cancelled() -> bool:
    """A library may raise what looks like a cancellation of the run, and is its own."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _count_failed(live: LiveTurn) -> None:
    failed = live.chat.counters.failed
    failed[live.asker] = failed.get(live.asker, 0) + 1


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
