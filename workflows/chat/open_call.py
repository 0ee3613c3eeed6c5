"""An open call: one call of a model, from the question whether it may be made until it is recorded and settled."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from ag2.events import BaseEvent, ModelRequest, ModelResponse, TextInput, ToolResultsEvent, Usage

from accounting.budgets.asking import PlannedCall, Settle
from accounting.normalising import estimated
from accounting.uninterrupted import to_its_end
from accounting.usage import BegunCall, ModelCall, Tokens, UsageStatus
from workflows.chat.guards import before_call
from workflows.chat.live import LiveTurn
from workflows.chat.reserving import reserved, settled
from workflows.chat.span_content import asked_messages, said_messages
from workflows.spans import NO_SPANS, CallSpan

log = logging.getLogger(__name__)

Normalise = Callable[[Usage], Tokens]


@dataclass(frozen=True, slots=True)
class AskedModel:
    """`within_s`: then it has answered, or the call has failed; None where nobody says. `is_paid`: an answer that does
    not say what it took is estimated; that of a script took nothing."""

    provider: str
    model: str
    normalise: Normalise
    within_s: float | None = None
    is_paid: bool = True


@dataclass(slots=True)
class OpenCall:
    live: LiveTurn
    planned: PlannedCall
    asked: AskedModel
    settle: Settle
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started: float = field(default_factory=time.perf_counter)
    span: CallSpan = NO_SPANS

    @staticmethod
    async def begin(
        live: LiveTurn, asked: AskedModel, prompt: Sequence[str], messages: Sequence[BaseEvent]
    ) -> "OpenCall":
        """Raises when the call must not be made; then nothing of it is counted, and its number is not used again."""
        meter = live.chat.meter
        before_call(live, on_the_way=meter.reserving)
        meter.calls += 1
        characters = sum(map(len, prompt)) + sum(map(_characters, messages))
        planned = PlannedCall(meter.calls, live.asker, asked.provider, asked.model, prompt_characters=characters)
        meter.reserving += 1
        try:
            call = OpenCall(live, planned, asked, await reserved(live, planned))
            await call._make_known()
        finally:
            meter.reserving -= 1
        meter.counters.model_calls += 1
        call.span = live.chat.spans.model_call(planned, partial(asked_messages, prompt, messages))
        return call

    async def _make_known(self) -> None:
        planned = self.planned
        begun = BegunCall(
            planned.number, planned.agent, planned.provider, planned.model, self.started_at, self.asked.within_s
        )
        try:
            await self.live.chat.meter.begin(begun)
        except BaseException:
            # Nothing was asked, so nothing is owed: what was reserved is free again.
            await to_its_end(settled(self.settle, self._as_ended(None, error="NotMade")))
            raise
        self.started = time.perf_counter()

    async def end(self, response: ModelResponse | None, *, error: str | None) -> None:
        call = self._as_ended(response, error=error)
        self._count(call)
        model = None if response is None else response.model
        self.span.end(call, model=model, said=partial(said_messages, response))
        # What was served is owed, also by a run that is cancelled.
        await to_its_end(self._keep(call))

    def _as_ended(self, response: ModelResponse | None, *, error: str | None) -> ModelCall:
        tokens, status = self._used(response)
        return ModelCall(
            number=self.planned.number,
            agent=self.planned.agent,
            provider=self.planned.provider,
            model=self.planned.model,
            tokens=tokens,
            status=status,
            ok=error is None,
            error=error,
            started_at=self.started_at,
            duration_s=time.perf_counter() - self.started,
        )

    def _used(self, response: ModelResponse | None) -> tuple[Tokens, UsageStatus]:
        """An answer was not free, though its server does not say what it took; a call without one is missing."""
        reported = Tokens() if response is None else self.asked.normalise(response.usage)
        if reported != Tokens():
            return reported, "reported"
        said = _characters(response) if response is not None and self.asked.is_paid else 0
        return (estimated(self.planned.prompt_characters, said), "estimated") if said else (Tokens(), "missing")

    async def _keep(self, call: ModelCall) -> None:
        try:
            await self.live.chat.meter.record(call)
        finally:
            await settled(self.settle, call)

    def _count(self, call: ModelCall) -> None:
        meter = self.live.chat.meter
        self.live.tokens["input"] += call.tokens.input
        self.live.tokens["output"] += call.tokens.output
        meter.counters.tokens += call.tokens.input + call.tokens.output
        cost = meter.prices.cost(call.tokens, provider=call.provider, model=call.model, at=call.started_at)
        meter.counters.cost_nano_usd += cost or 0
        limited = self.live.chat.package.orchestrator.limits.usd is not None
        labels = (call.provider, call.model)
        if cost is None and limited and labels not in meter.unpriced:
            meter.unpriced.add(labels)  # said once a run: this limit cannot stop what it asks this model
            log.warning("price_unknown", extra={"provider": call.provider, "model": call.model, "agent": call.agent})


def _characters(event: BaseEvent) -> int:
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
