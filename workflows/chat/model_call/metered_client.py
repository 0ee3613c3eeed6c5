"""The meter: reserves, counts, times and records each model call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ag2.config import LLMClient
from ag2.context import ConversationContext
from ag2.events import BaseEvent, ModelResponse

from accounting.budgets.reservation_types import Reserve, reserve_unlimited
from accounting.prices import PriceTable
from accounting.usage import BegunCall, ModelCall
from workflows.chat.chat_errors import ModelError
from workflows.chat.chat_state import LiveTurn, live_turn
from workflows.chat.history.checkpoint import RunCounters
from workflows.chat.model_call.open_call import MeteredModel, OpenCall

BeginUsage = Callable[[BegunCall], Awaitable[None]]
RecordUsage = Callable[[ModelCall], Awaitable[None]]
ExplainError = Callable[[Exception], ModelError | None]
FindFault = Callable[[ModelResponse], ModelError | None]


async def _begin_nothing(_: BegunCall) -> None: ...


@dataclass(slots=True)
class RunMeter:
    """The meter of one run under one lease, shared by its turns.

    Call numbers never repeat within a lease token. `pending_calls` are allowed and not yet made, since sub-tasks of one
    turn reserve at the same time. `begin` writes a call before it is made; `record` writes its result before the answer
    is used."""

    record: RecordUsage
    counters: RunCounters = field(default_factory=RunCounters)
    prices: PriceTable = field(default_factory=PriceTable)
    reserve: Reserve = reserve_unlimited
    begin: BeginUsage = _begin_nothing
    call_number: int = 0
    pending_calls: int = 0
    unpriced_models: set[tuple[str, str]] = field(default_factory=set)


class MeteredClient(LLMClient):
    """Wraps a provider's client. Failed and cancelled calls are metered once, too."""

    def __init__(
        self,
        inner: LLMClient,
        model: MeteredModel,
        *,
        explain: ExplainError,
        find_fault: FindFault = lambda _: None,
    ) -> None:
        self._inner = inner
        self._model = model
        self._explain = explain
        self._find_fault = find_fault

    async def __call__(
        self, messages: Sequence[BaseEvent], context: ConversationContext, **request: Any
    ) -> ModelResponse:
        live = live_turn()
        call = await OpenCall.begin(live, self._model, context.prompt, messages)
        try:
            response = await self._inner(messages, context, **request)
        except asyncio.CancelledError as error:
            await call.end(None, error="Cancelled")
            if _is_task_cancelled():
                raise
            raise ModelError("the model's library cancelled the call", transient=True) from error
        except Exception as error:
            _count_failed_call(live)
            await call.end(None, error=type(error).__name__)
            raise self._as_model_error(error) from error
        fault = self._find_fault(response)
        if fault is not None:
            _count_failed_call(live)
            await call.end(response, error=type(fault).__name__)
            raise fault
        live.answer_counts[live.asker] += 1
        await call.end(response, error=None)
        return response

    def _as_model_error(self, error: Exception) -> ModelError:
        """Makes a ModelError of any failure between the request and a readable answer."""
        if isinstance(error, ModelError):
            return error
        unexplained = ModelError(f"the model's answer cannot be used: {type(error).__name__}", transient=False)
        return self._explain(error) or unexplained


def _is_task_cancelled() -> bool:
    """Distinguishes the run's cancellation from one that a library raises itself."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _count_failed_call(live: LiveTurn) -> None:
    failed = live.chat.counters.failed
    failed[live.asker] = failed.get(live.asker, 0) + 1
