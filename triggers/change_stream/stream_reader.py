"""The stream reader: leases one stream, reads it, and handles its errors.

1. `acquire_lease`: one of all watchers reads a stream; the others check regularly.
2. `_read`: events become durable runs, and only then the position behind them is saved. A crash repeats events, whose
   runs are found by their dedupe key; nothing is skipped.
3. A position that the server cannot resume from suspends the stream, unless all its triggers have `resume_now`. Either
   way the gap is recorded: no loss is silent.
4. A refusal of the server (of a pipeline, or of access to a database) is stored with its message and retried
   regularly. The position stays.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pymongo.errors import PyMongoError

from triggers.change_stream.event_batcher import EventIntake
from triggers.change_stream.large_events import LargeEvents
from triggers.change_stream.resume_token_store import SUSPENDED, Gap, StreamPosition, StreamStore
from triggers.change_stream.start_position import StartPosition, StreamLeaseLostError
from triggers.change_stream.stream_metrics import StreamMetrics, StreamState
from triggers.change_stream.stream_plan import StreamPlan
from triggers.change_stream.stream_session import StreamSession
from triggers.change_stream.stream_source import (
    EventTooLargeError,
    PositionUnusableError,
    StreamRefusedError,
    StreamSource,
    read_next_event,
)
from triggers.service_loop import repeat

log = logging.getLogger(__name__)

SUSPENDED_CHECK_INTERVAL_S = 10.0
GAP_RETRY_INTERVAL_S = 1.0  # a stream that loses its position again and again must not spin
MAX_BATCH_BYTES = 16 * 1024 * 1024  # after this many bytes one by one, the large event is not in this batch


@dataclass(frozen=True, slots=True)
class Subscription:
    """The plan of a stream, and the intake of its events."""

    plan: StreamPlan
    intake: EventIntake


class StreamReader:
    def __init__(
        self,
        subscription: Subscription,
        *,
        source: StreamSource,
        store: StreamStore,
        metrics: StreamMetrics,
        lease_s: float,
        refresh_triggers: Callable[[], Awaitable[object]],
    ) -> None:
        """`refresh_triggers` reads the triggers and their pauses, and updates the subscription."""
        self._refresh_triggers = refresh_triggers
        self._resumed_at: datetime | None = None
        self._subscription = subscription
        self._stream = subscription.plan.id
        self._source = source
        self._store = store
        self._metrics = metrics
        self._large_events = LargeEvents(source, store, metrics)
        self._start_position = StartPosition(source, store)
        self._check_interval_s = lease_s / 3
        self._stop = asyncio.Event()
        self._position = StreamPosition()
        self._one_by_one = False
        self._opens_by_time = False
        self._refusal: str | None = None  # as stored in the document, by any watcher
        self._logged_refusal: str | None = None
        self._has_lease = False
        self._save_deadline: float | None = None  # None while it is not reading

    def update_subscription(self, subscription: Subscription) -> None:
        """Replaces the plan and intake when the triggers have changed."""
        if subscription.plan != self._subscription.plan:
            self._subscription = subscription

    def stop(self) -> None:
        self._stop.set()

    def overdue_s(self) -> float:
        """Returns how long a save is overdue; saves are regular even without events.

        Safe to call from another thread.
        """
        deadline = self._save_deadline
        return 0.0 if deadline is None else max(0.0, time.monotonic() - deadline)

    async def run(self) -> None:
        await repeat(self.step, step_name=f"stream {self._stream}", stop=self._stop)
        self._metrics.remove_stream(self._stream)
        with suppress(PyMongoError):  # the lease expires by itself
            await self._store.release_lease(self._stream)

    async def step(self) -> float:
        """Returns the seconds until the next step."""
        record = await self._store.acquire_lease(self._stream)
        if record is None:
            self._metrics.set_state(self._stream, StreamState.NOT_OWNED)
            return self._check_interval_s
        if record.saved_at is not None:  # the stream may be refused before this watcher saves
            self._metrics.set_saved_at(self._stream, record.saved_at.timestamp())
        if record.state == SUSPENDED:
            return await self._stay_suspended()
        self._refusal = record.refusal
        if record.resumed_at != self._resumed_at:
            # The operator may have resumed a trigger just before: with its old pause, events would be skipped again.
            await self._refresh_triggers()
            self._resumed_at = record.resumed_at
        subscription = self._subscription
        try:
            async with self._hold_lease():
                position = await self._start_position.resolve(subscription.plan, record)
                await self._read(subscription, StreamPosition(None, position.time) if self._opens_by_time else position)
        except StreamLeaseLostError:
            log.warning("stream_lease_lost", extra={"stream": self._stream})
            return GAP_RETRY_INTERVAL_S
        except PositionUnusableError as error:
            return await self._give_up_position(error)
        except StreamRefusedError as error:
            return await self._record_refusal(str(error))
        return 0

    @asynccontextmanager
    async def _hold_lease(self) -> AsyncIterator[None]:
        """Renews the lease in the background: a slow MongoDB may outlast it."""
        self._has_lease = True
        done = asyncio.Event()
        renewal = asyncio.create_task(repeat(self._renew_lease, step_name=f"lease of {self._stream}", stop=done))
        try:
            yield
        finally:
            done.set()
            await renewal

    async def _renew_lease(self) -> float:
        self._has_lease = self._has_lease and await self._store.renew_lease(self._stream)
        return self._check_interval_s

    async def _read(self, subscription: Subscription, position: StreamPosition) -> None:
        """Reads events.

        When a large one fails its batch, reads those before it one by one first.
        """
        self._position = position
        try:
            await self._follow(subscription, position)
            self._one_by_one = False
        except EventTooLargeError:
            if not self._one_by_one:
                self._one_by_one = True
                return
            passed = await self._large_events.read_next(subscription.plan, subscription.intake, self._position)
            if passed is not None:
                await self._save(passed.position)
                self._one_by_one = not passed.was_large

    async def _follow(self, subscription: Subscription, position: StreamPosition) -> None:
        plan = subscription.plan
        async with await self._source.open(plan, position, one_by_one=self._one_by_one) as stream:
            session = StreamSession(
                stream,
                position,
                intake=subscription.intake,
                save=self._save,
                report_lag=lambda seconds: self._metrics.set_lag(self._stream, seconds),
                idle_save_interval_s=self._check_interval_s,
            )
            self._metrics.set_state(self._stream, StreamState.READING)
            log.info(
                "stream_opened", extra={"stream": self._stream, "triggers": [trigger.id for trigger in plan.triggers]}
            )

            def should_continue() -> bool:
                is_past_large = self._one_by_one and session.bytes_read >= MAX_BATCH_BYTES
                is_current = self._has_lease and self._subscription is subscription
                return is_current and not self._stop.is_set() and not is_past_large

            self._save_deadline = time.monotonic() + self._check_interval_s
            try:
                await session.follow(
                    partial(read_next_event, stream, plan, position),
                    should_continue=should_continue,
                    until_idle=self._one_by_one,
                )
            finally:
                self._save_deadline = None

    async def _save(self, position: StreamPosition) -> None:
        if not await self._store.save_position(self._stream, position):
            raise StreamLeaseLostError
        self._position = position
        self._opens_by_time = False
        if self._save_deadline is not None:
            self._save_deadline = time.monotonic() + self._check_interval_s
        self._metrics.set_saved_at(self._stream, time.time())
        if self._refusal is not None:
            await self._store.clear_refusal(self._stream)
            self._refusal = self._logged_refusal = None

    async def _give_up_position(self, error: PositionUnusableError) -> float:
        record = await self._store.find_leased(self._stream)  # with the position that was saved since
        if record is None:
            return GAP_RETRY_INTERVAL_S
        if record.position.time is not None and record.position.token is not None and not self._opens_by_time:
            # The server searches the token's event through the filter, which changes with the triggers. Resuming by
            # time instead repeats a few events and misses none.
            self._opens_by_time = True
            return GAP_RETRY_INTERVAL_S
        self._opens_by_time = False
        if not await self._store.suspend(self._stream, Gap(record.saved_at, None, "history_lost")):
            return GAP_RETRY_INTERVAL_S
        self._metrics.count_gap(self._stream)
        log.error("stream_suspended", extra={"stream": self._stream, "reason": "history_lost", "code": error.code})
        return GAP_RETRY_INTERVAL_S

    async def _stay_suspended(self) -> float:
        if self._subscription.plan.resume_now:
            await self._store.resume_from_now(self._stream, await self._source.current_time())
            log.warning("stream_resumed_from_now", extra={"stream": self._stream})
            return 0
        self._metrics.set_state(self._stream, StreamState.SUSPENDED)
        return min(self._check_interval_s, SUSPENDED_CHECK_INTERVAL_S)

    async def _record_refusal(self, reason: str) -> float:
        self._metrics.set_state(self._stream, StreamState.REFUSED)
        if reason != self._refusal:
            await self._store.record_refusal(self._stream, reason)
        if reason != self._logged_refusal:
            self._logged_refusal = reason
            triggers = [trigger.id for trigger in self._subscription.plan.triggers]
            log.error("stream_refused", extra={"stream": self._stream, "triggers": triggers, "error": reason})
        return min(self._check_interval_s, SUSPENDED_CHECK_INTERVAL_S)
