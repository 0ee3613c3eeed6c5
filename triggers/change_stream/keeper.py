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

from triggers.change_stream.bunches import Intake
from triggers.change_stream.joining import Joining, LeaseGoneError
from triggers.change_stream.large_events import LargeEvents
from triggers.change_stream.metrics import StreamMetrics, StreamState
from triggers.change_stream.plan import StreamPlan
from triggers.change_stream.reading import Reading
from triggers.change_stream.source import (
    EventTooLargeError,
    PositionUnusableError,
    Source,
    StreamRefusedError,
    next_event,
)
from triggers.change_stream.store import SUSPENDED, Gap, Position, StreamStore
from triggers.service_loop import repeat

log = logging.getLogger(__name__)

SUSPENDED_CHECK_S = 10.0
AFTER_A_GAP_S = 1.0  # a stream that keeps losing its position must not spin
MOST_OF_A_BATCH = 16 * 1024 * 1024  # so a large event that is not met by then is no longer large


@dataclass(frozen=True, slots=True)
class Reader:
    """What a stream asks for, and what becomes of its events."""

    plan: StreamPlan
    intake: Intake


class Keeper:
    def __init__(
        self, reader: Reader, *, source: Source, store: StreamStore, metrics: StreamMetrics, lease_s: float
    ) -> None:
        self._reader = reader
        self._stream = reader.plan.id
        self._source = source
        self._store = store
        self._metrics = metrics
        self._large_events = LargeEvents(source, store, metrics)
        self._joining = Joining(source, store)
        self._look_in_s = lease_s / 3
        self._stop = asyncio.Event()
        self._position = Position()
        self._one_by_one = False
        self._by_time = False
        self._refused: str | None = None  # as its document says, whoever has written that
        self._said_refused: str | None = None
        self._has_lease = False
        self._saves_by: float | None = None  # None: it is not reading

    def read_as(self, reader: Reader) -> None:
        """From now on: its triggers have changed."""
        if reader.plan != self._reader.plan:
            self._reader = reader

    def stop(self) -> None:
        self._stop.set()

    def late_s(self) -> float:
        """For how long a position has been due: one that reads saves it now and then, also where nothing happens. May
        be asked from another thread."""
        saves_by = self._saves_by
        return 0.0 if saves_by is None else max(0.0, time.monotonic() - saves_by)

    async def run(self) -> None:
        await repeat(self.step, what=f"stream {self._stream}", stop=self._stop)
        self._metrics.forget(self._stream)
        with suppress(PyMongoError):  # then the lease runs out by itself
            await self._store.release(self._stream)

    async def step(self) -> float:
        """Seconds until the next look."""
        record = await self._store.acquire(self._stream)
        if record is None:
            self._metrics.state(self._stream, StreamState.NOT_OWNED)
            return self._look_in_s
        if record.saved_at is not None:  # it may be refused before this watcher saves one
            self._metrics.saved(self._stream, record.saved_at.timestamp())
        if record.state == SUSPENDED:
            return await self._stay_suspended()
        self._refused = record.refused
        reader = self._reader
        try:
            async with self._lease_kept():
                position = await self._joining.start(reader.plan, record)
                await self._read(reader, Position(None, position.time) if self._by_time else position)
        except LeaseGoneError:
            log.warning("stream_lease_lost", extra={"stream": self._stream})
            return AFTER_A_GAP_S
        except PositionUnusableError as error:
            return await self._give_up_position(error)
        except StreamRefusedError as error:
            return await self._say_refused(str(error))
        return 0

    @asynccontextmanager
    async def _lease_kept(self) -> AsyncIterator[None]:
        """Events may take longer than the lease, when there are many or MongoDB is slow."""
        self._has_lease = True
        done = asyncio.Event()
        keeping = asyncio.create_task(repeat(self._keep_lease, what=f"lease of {self._stream}", stop=done))
        try:
            yield
        finally:
            done.set()
            await keeping

    async def _keep_lease(self) -> float:
        self._has_lease = self._has_lease and await self._store.renew(self._stream)
        return self._look_in_s

    async def _read(self, reader: Reader, position: Position) -> None:
        """The server refuses the whole batch that a large event is in: those before it come first, each by itself."""
        self._position = position
        try:
            await self._follow(reader, position)
            self._one_by_one = False
        except EventTooLargeError:
            if not self._one_by_one:
                self._one_by_one = True
                return
            passed = await self._large_events.take(reader.plan, reader.intake, self._position)
            if passed is not None:
                await self._save(passed.position)
                self._one_by_one = not passed.was_large

    async def _follow(self, reader: Reader, position: Position) -> None:
        plan = reader.plan
        async with await self._source.open(plan, position, one_by_one=self._one_by_one) as stream:
            reading = Reading(
                stream,
                position,
                intake=reader.intake,
                save=self._save,
                report_lag=lambda seconds: self._metrics.lag(self._stream, seconds),
                save_idle_every_s=self._look_in_s,
            )
            self._metrics.state(self._stream, StreamState.READING)
            log.info("stream_opened", extra={"stream": self._stream, "triggers": [each.id for each in plan.triggers]})

            def wanted() -> bool:
                passed_by = self._one_by_one and reading.bytes >= MOST_OF_A_BATCH
                return self._has_lease and self._reader is reader and not self._stop.is_set() and not passed_by

            self._saves_by = time.monotonic() + self._look_in_s
            try:
                await reading.follow(
                    partial(next_event, stream, plan, position), wanted=wanted, until_idle=self._one_by_one
                )
            finally:
                self._saves_by = None

    async def _save(self, position: Position) -> None:
        if not await self._store.save(self._stream, position):
            raise LeaseGoneError
        self._position = position
        self._by_time = False
        if self._saves_by is not None:
            self._saves_by = time.monotonic() + self._look_in_s
        self._metrics.saved(self._stream, time.time())
        if self._refused is not None:
            await self._store.accepted(self._stream)
            self._refused = self._said_refused = None

    async def _give_up_position(self, error: PositionUnusableError) -> float:
        record = await self._store.mine(self._stream)  # with what has been saved since it was opened
        if record is None:
            return AFTER_A_GAP_S
        if record.position.time is not None and record.position.token is not None and not self._by_time:
            # The server looks for the token's event through the filter, and with other triggers the filter
            # lets other events pass. From its time on, a few events come twice and none is missed.
            self._by_time = True
            return AFTER_A_GAP_S
        self._by_time = False
        if not await self._store.suspend(self._stream, Gap(record.saved_at, None, "history_lost")):
            return AFTER_A_GAP_S
        self._metrics.gap(self._stream)
        log.error("stream_suspended", extra={"stream": self._stream, "reason": "history_lost", "code": error.code})
        return AFTER_A_GAP_S

    async def _stay_suspended(self) -> float:
        if self._reader.plan.resume_now:
            await self._store.resume_from_now(self._stream, await self._source.now())
            log.warning("stream_resumed_from_now", extra={"stream": self._stream})
            return 0
        self._metrics.state(self._stream, StreamState.SUSPENDED)
        return min(self._look_in_s, SUSPENDED_CHECK_S)

    async def _say_refused(self, words: str) -> float:
        self._metrics.state(self._stream, StreamState.REFUSED)
        if words != self._refused:
            await self._store.refuse(self._stream, words)
        if words != self._said_refused:
            self._said_refused = words
            triggers = [each.id for each in self._reader.plan.triggers]
            log.error("stream_refused", extra={"stream": self._stream, "triggers": triggers, "error": words})
        return min(self._look_in_s, SUSPENDED_CHECK_S)
