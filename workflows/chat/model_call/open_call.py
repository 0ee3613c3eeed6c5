"""An open call: one model call, from the limits check to its settled record."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ag2.events import BaseEvent, ModelRequest, ModelResponse, TextInput, ToolResultsEvent, Usage

from accounting.budgets.reservation_types import (
    BudgetBusyError,
    BudgetExhaustedError,
    BudgetHoldError,
    PlannedCall,
    Settle,
)
from accounting.infra.aio import run_shielded
from accounting.token_normalization import estimate_tokens
from accounting.usage import BegunCall, ModelCall, Tokens, UsageStatus
from workflows.chat.chat_errors import BudgetBusy, BudgetExhausted, BudgetHeld, BudgetUnknown
from workflows.chat.chat_state import LiveTurn
from workflows.chat.limits.guards import check_model_call
from workflows.spans import NO_SPANS, CallSpan, Messages

log = logging.getLogger(__name__)

MessagePart = Mapping[str, Any]


async def reserve_budget(live: LiveTurn, planned: PlannedCall) -> Settle:
    """Reserves room for the call; in a worker by `accounting.budgets.run_reservations.RunBudgets.reserve`."""
    target = f"for {live.asker} in turn {live.number}"
    try:
        async with asyncio.timeout(live.chat.timeouts.budget_s):
            return await live.chat.meter.reserve(planned)
    except BudgetExhaustedError as error:
        raise BudgetExhausted(f"{error}; nothing was reserved {target}") from None
    except BudgetHoldError as error:
        raise BudgetHeld(f"{error}; nothing was reserved {target}", held_by=error.held_by, until=error.until) from None
    except BudgetBusyError as error:
        raise BudgetBusy(f"{error}; nothing was reserved {target}") from None
    except Exception as error:
        raise BudgetUnknown(f"the budget cannot be checked {target}: {type(error).__name__}") from error


@dataclass(frozen=True, slots=True)
class MeteredModel:
    """A model and how its calls are metered.

    `timeout_s` is the time after which a call has failed; None without a limit. `is_paid`: usage is estimated for an
    answer that reports none; a script's answers cost nothing."""

    provider: str
    model: str
    normalize: Callable[[Usage], Tokens]
    timeout_s: float | None = None
    is_paid: bool = True


@dataclass(slots=True)
class OpenCall:
    live: LiveTurn
    planned_call: PlannedCall
    model: MeteredModel
    settle: Settle
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started_monotonic: float = field(default_factory=time.perf_counter)
    span: CallSpan = NO_SPANS

    @staticmethod
    async def begin(
        live: LiveTurn, model: MeteredModel, prompt: Sequence[str], messages: Sequence[BaseEvent]
    ) -> "OpenCall":
        """Begins a call, or raises when it must not be made.

        A refused call is not counted, and its number is not used again."""
        meter = live.chat.meter
        check_model_call(live, pending_calls=meter.pending_calls)
        meter.call_number += 1
        characters = sum(map(len, prompt)) + sum(map(_count_characters, messages))
        planned = PlannedCall(meter.call_number, live.asker, model.provider, model.model, prompt_characters=characters)
        meter.pending_calls += 1
        try:
            call = OpenCall(live, planned, model, await reserve_budget(live, planned))
            await call._begin_usage()
        finally:
            meter.pending_calls -= 1
        meter.counters.model_calls += 1
        call.span = live.chat.spans.model_call(planned, partial(request_messages, prompt, messages))
        return call

    async def _begin_usage(self) -> None:
        planned = self.planned_call
        begun = BegunCall(
            planned.number, planned.agent, planned.provider, planned.model, self.started_at, self.model.timeout_s
        )
        try:
            await self.live.chat.meter.begin(begun)
        except BaseException:
            # The model was not called, so nothing is owed: the reservation is released.
            await run_shielded(self._settle(self._to_model_call(None, error="NotMade")))
            raise
        self.started_monotonic = time.perf_counter()

    async def end(self, response: ModelResponse | None, *, error: str | None) -> None:
        call = self._to_model_call(response, error=error)
        self._count_usage(call)
        model = None if response is None else response.model
        self.span.end(call, model=model, reply=partial(response_messages, response))
        # What was served is owed, even if the run is cancelled.
        await run_shielded(self._record_and_settle(call))

    def _to_model_call(self, response: ModelResponse | None, *, error: str | None) -> ModelCall:
        tokens, status = self._read_usage(response)
        return ModelCall(
            number=self.planned_call.number,
            agent=self.planned_call.agent,
            provider=self.planned_call.provider,
            model=self.planned_call.model,
            tokens=tokens,
            status=status,
            ok=error is None,
            error=error,
            started_at=self.started_at,
            duration_s=time.perf_counter() - self.started_monotonic,
        )

    def _read_usage(self, response: ModelResponse | None) -> tuple[Tokens, UsageStatus]:
        """Reads the usage.

        An answer without reported usage is estimated, as it was not free; a call without an answer is missing."""
        reported = Tokens() if response is None else self.model.normalize(response.usage)
        if reported != Tokens():
            return reported, "reported"
        characters = _count_characters(response) if response is not None and self.model.is_paid else 0
        return (
            (estimate_tokens(self.planned_call.prompt_characters, characters), "estimated")
            if characters
            else (Tokens(), "missing")
        )

    async def _record_and_settle(self, call: ModelCall) -> None:
        try:
            await self.live.chat.meter.record(call)
        finally:
            await self._settle(call)

    async def _settle(self, call: ModelCall) -> None:
        """Settles the reservation once. On failure it expires; the answer is paid and used."""
        try:
            async with asyncio.timeout(self.live.chat.timeouts.budget_s):
                await self.settle(call)
        except Exception as error:  # noqa: BLE001 -- the budgets' store may be unavailable
            log.warning("budget_not_settled", extra={"call": call.number, "error": type(error).__name__})

    def _count_usage(self, call: ModelCall) -> None:
        meter = self.live.chat.meter
        self.live.tokens["input"] += call.tokens.input
        self.live.tokens["output"] += call.tokens.output
        meter.counters.tokens += call.tokens.input + call.tokens.output
        cost = meter.prices.cost(call.tokens, provider=call.provider, model=call.model, at=call.started_at)
        meter.counters.cost_nano_usd += cost or 0
        limited = self.live.chat.package.orchestrator.limits.usd is not None
        labels = (call.provider, call.model)
        if cost is None and limited and labels not in meter.unpriced_models:
            meter.unpriced_models.add(labels)  # logged once a run: the limit cannot stop calls of this model
            log.warning("price_unknown", extra={"provider": call.provider, "model": call.model, "agent": call.agent})


def _count_characters(event: BaseEvent) -> int:
    return sum(map(len, _texts(event)))


def _texts(event: BaseEvent) -> Iterable[str]:
    if isinstance(event, ModelRequest):
        return (part.content for part in event.parts if isinstance(part, TextInput))
    if isinstance(event, ModelResponse):
        return (event.content or "", *(call.arguments or "" for call in event.tool_calls.calls))
    if isinstance(event, ToolResultsEvent):
        parts = (part for result in event.results for part in result.result.parts)
        return (part.content for part in parts if isinstance(part, TextInput))
    return ()


def request_messages(prompt: Iterable[str], messages: Iterable[BaseEvent]) -> Messages:
    system = [_text_part(part) for part in prompt if part.strip()]
    conversation = [message for event in messages for message in _event_messages(event)]
    return [{"role": "system", "parts": system}, *conversation] if system else conversation


def response_messages(response: ModelResponse | None) -> Messages:
    return [] if response is None else list(_event_messages(response))


def _event_messages(event: BaseEvent) -> Iterable[Mapping[str, Any]]:
    if isinstance(event, ModelRequest):
        yield {
            "role": "user",
            "parts": [_text_part(part.content) for part in event.parts if isinstance(part, TextInput)],
        }
    elif isinstance(event, ModelResponse):
        called = [
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
            for call in event.tool_calls.calls
        ]
        yield {"role": "assistant", "parts": [*([_text_part(event.content)] if event.content else []), *called]}
    elif isinstance(event, ToolResultsEvent):
        for result in event.results:
            text = "\n".join(part.content for part in result.result.parts if isinstance(part, TextInput))
            answer = {"type": "tool_call_response", "id": result.parent_id, "response": text}
            yield {"role": "tool", "parts": [answer]}


def _text_part(content: str) -> MessagePart:
    return {"type": "text", "content": content}
