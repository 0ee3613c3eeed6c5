"""An open call: one call of a model, from the question whether it may be made until it is recorded and settled."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from ag2.events import BaseEvent, ModelRequest, ModelResponse, TextInput, ToolResultsEvent, Usage

from accounting.budgets.asking import PlannedCall, Settle
from accounting.normalising import estimate_tokens
from accounting.uninterrupted import run_shielded
from accounting.usage import BegunCall, ModelCall, Tokens, UsageStatus
from workflows.chat.guards import check_model_call
from workflows.chat.live import LiveTurn
from workflows.chat.reserving import reserve_budget, settle_budget
from workflows.chat.span_content import request_messages, response_messages
from workflows.spans import NO_SPANS, CallSpan

log = logging.getLogger(__name__)

Normalise = Callable[[Usage], Tokens]


@dataclass(frozen=True, slots=True)
class MeteredModel:
    """`within_s`: then it has answered, or the call has failed; None where nobody says. `is_paid`: an answer that does
    not say what it took is estimated; that of a script took nothing."""

    provider: str
    model: str
    normalise: Normalise
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
        """Raises when the call must not be made; then nothing of it is counted, and its number is not used again."""
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
            # Nothing was asked, so nothing is owed: what was reserved is free again.
            await run_shielded(settle_budget(self.settle, self._to_model_call(None, error="NotMade")))
            raise
        self.started_monotonic = time.perf_counter()

    async def end(self, response: ModelResponse | None, *, error: str | None) -> None:
        call = self._to_model_call(response, error=error)
        self._count_usage(call)
        model = None if response is None else response.model
        self.span.end(call, model=model, reply=partial(response_messages, response))
        # What was served is owed, also by a run that is cancelled.
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
        """An answer was not free, though its server does not say what it took; a call without one is missing."""
        reported = Tokens() if response is None else self.model.normalise(response.usage)
        if reported != Tokens():
            return reported, "reported"
        said = _count_characters(response) if response is not None and self.model.is_paid else 0
        return (estimate_tokens(self.planned_call.prompt_characters, said), "estimated") if said else (Tokens(), "missing")

    async def _record_and_settle(self, call: ModelCall) -> None:
        try:
            await self.live.chat.meter.record(call)
        finally:
            await settle_budget(self.settle, call)

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
            meter.unpriced_models.add(labels)  # said once a run: this limit cannot stop what it asks this model
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
