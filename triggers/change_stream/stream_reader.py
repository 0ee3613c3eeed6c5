"""The keeper of one stream: waits for its lease, then reads it, and deals with what stops it.

1. `acquire`: one watcher of all reads a stream; the others look in now and then.
2. `_read`: events become durable runs, and only then the position behind them is saved. A crash repeats
   events, whose runs are found by their dedupe key; nothing is skipped.
3. A position the server cannot go on from suspends the stream, unless all its triggers say resume_now. Either
   way the gap is recorded: the stream is never silently blind.
4. What the server does not do at all (a pipeline it does not understand, a database we may not read) is told with its
   words, and tried again now and then; the position stays.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
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
GAP_RETRY_INTERVAL_S = 1.0  # a stream that keeps losing its position must not spin
MAX_BATCH_BYTES = 16 * 1024 * 1024  # so a large event that is not met by then is no longer large


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a stream asks for, and what becomes of its events."""

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
    ) -> None:
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
        self._refusal: str | None = None  # as its document says, whoever has written that
        self._logged_refusal: str | None = None
        self._has_lease = False
        self._save_deadline: float | None = None  # None: it is not reading

    def update_subscription(self, subscription: Subscription) -> None:
        """From now on: its triggers have changed."""
        if subscription.plan != self._subscription.plan:
            self._subscription = subscription

    def stop(self) -> None:
        self._stop.set()

    def overdue_s(self) -> float:
        """For how long a position has been due: one that reads saves it now and then, also where nothing happens. May
        be asked from another thread."""
        saves_by = self._save_deadline
        return 0.0 if saves_by is None else max(0.0, time.monotonic() - saves_by)

    async def run(self) -> None:
        await repeat(self.step, step_name=f"stream {self._stream}", stop=self._stop)
        self._metrics.remove_stream(self._stream)
        with suppress(PyMongoError):  # then the lease runs out by itself
            await self._store.release_lease(self._stream)

    async def step(self) -> float:
        """Seconds until the next look."""
        record = await self._store.acquire_lease(self._stream)
        if record is None:
            self._metrics.set_state(self._stream, StreamState.NOT_OWNED)
            return self._check_interval_s
        if record.saved_at is not None:  # it may be refused before this watcher saves one
            self._metrics.set_saved_at(self._stream, record.saved_at.timestamp())
        if record.state == SUSPENDED:
            return await self._stay_suspended()
        self._refusal = record.refusal
        reader = self._subscription
        try:
            async with self._hold_lease():
                position = await self._start_position.resolve(reader.plan, record)
                await self._read(reader, StreamPosition(None, position.time) if self._opens_by_time else position)
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
        """Events may take longer than the lease, when there are many or MongoDB is slow."""
        self._has_lease = True
        done = asyncio.Event()
        keeping = asyncio.create_task(repeat(self._renew_lease, step_name=f"lease of {self._stream}", stop=done))
        try:
            yield
        finally:
            done.set()
            await keeping

    async def _renew_lease(self) -> float:
        self._has_lease = self._has_lease and await self._store.renew_lease(self._stream)
        return self._check_interval_s

    async def _read(self, subscription: Subscription, position: StreamPosition) -> None:
        """The server refuses the whole batch that a large event is in: those before it come first, each by itself."""
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
            reading = StreamSession(
                stream,
                position,
                intake=subscription.intake,
                save=self._save,
                report_lag=lambda seconds: self._metrics.set_lag(self._stream, seconds),
                idle_save_interval_s=self._check_interval_s,
            )
            self._metrics.set_state(self._stream, StreamState.READING)
            log.info("stream_opened", extra={"stream": self._stream, "triggers": [each.id for each in plan.triggers]})

            def wanted() -> bool:
                passed_by = self._one_by_one and reading.bytes_read >= MAX_BATCH_BYTES
                return (
                    self._has_lease and self._subscription is subscription and not self._stop.is_set() and not passed_by
                )

            self._save_deadline = time.monotonic() + self._check_interval_s
            try:
                await reading.follow(
                    partial(read_next_event, stream, plan, position),
                    should_continue=wanted,
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
        record = await self._store.find_leased(self._stream)  # with what has been saved since it was opened
        if record is None:
            return GAP_RETRY_INTERVAL_S
        if record.position.time is not None and record.position.token is not None and not self._opens_by_time:
            # The server looks for the token's event through the filter, and with other triggers the filter
            # lets other events pass. From its time on, a few events come twice and none is missed.
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
            triggers = [each.id for each in self._subscription.plan.triggers]
            log.error("stream_refused", extra={"stream": self._stream, "triggers": triggers, "error": reason})
        return min(self._check_interval_s, SUSPENDED_CHECK_INTERVAL_S)
