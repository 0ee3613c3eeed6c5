"""The keeper of one stream: waits for its lease, then reads it, and deals with what stops it.

1. `acquire`: one watcher of all reads a stream; the others look in now and then.
2. `_read`: events become durable runs, and only then the position behind them is saved. A crash repeats
   events, whose runs are found by their dedupe key; nothing is skipped.
3. A position the server cannot go on from suspends the stream, unless all its triggers say resume_now. Either
   way the gap is recorded: the stream is never silently blind.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress

from pymongo.errors import PyMongoError

from triggers.change_stream.intake import Intake
from triggers.change_stream.metrics import StreamMetrics, StreamState
from triggers.change_stream.reading import Reading
from triggers.change_stream.source import EventTooLargeError, PositionUnusableError, Source
from triggers.change_stream.store import SUSPENDED, Gap, Position, StreamRecord, StreamStore
from triggers.change_stream.watches import Watch, all_resume_now
from triggers.service_loop import repeat

log = logging.getLogger(__name__)

SUSPENDED_CHECK_S = 10.0
AFTER_A_GAP_S = 1.0  # a stream that keeps losing its position must not spin


class LeaseGoneError(Exception):
    """Another watcher reads the stream now."""


class Keeper:
    def __init__(
        self,
        stream: str,
        watches: Sequence[Watch],
        *,
        source: Source,
        store: StreamStore,
        intake: Intake,
        metrics: StreamMetrics,
        lease_s: float,
    ) -> None:
        self.watches = tuple(watches)  # replaced from outside when packages change
        self._stream = stream
        self._source = source
        self._store = store
        self._intake = intake
        self._metrics = metrics
        self._look_in_s = lease_s / 3
        self._stop = asyncio.Event()
        self._one_by_one = False
        self._by_time = False

    def stop(self) -> None:
        self._stop.set()

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
        if record.state == SUSPENDED:
            return await self._stay_suspended()
        self._metrics.state(self._stream, StreamState.READING)
        try:
            await self._read(self._start(record))
        except LeaseGoneError:
            log.warning("stream_lease_lost", extra={"stream": self._stream})
            return self._look_in_s
        except PositionUnusableError as error:
            return await self._give_up_position(error)
        except EventTooLargeError:
            await self._pass_over_large_event(record)
        return 0

    def _start(self, record: StreamRecord) -> Position:
        return Position(None, record.position.time) if self._by_time else record.position

    async def _read(self, position: Position) -> None:
        watches = self.watches
        async with await self._source.open(watches, position, one_by_one=self._one_by_one) as stream:
            reading = Reading(
                stream,
                position,
                take=lambda event: self._intake.take(event, watches),
                save=self._save,
                report_lag=lambda seconds: self._metrics.lag(self._stream, seconds),
                save_idle_every_s=self._look_in_s,
            )
            log.info("stream_opened", extra={"stream": self._stream, "triggers": [watch.id for watch in watches]})
            caught_up = await reading.follow(
                wanted=lambda: not self._stop.is_set() and self.watches == watches, only_one=self._one_by_one
            )
            self._one_by_one = self._one_by_one and not caught_up

    async def _save(self, position: Position) -> None:
        if not await self._store.save(self._stream, position):
            raise LeaseGoneError
        self._by_time = False
        self._metrics.saved(self._stream, time.time())

    async def _give_up_position(self, error: PositionUnusableError) -> float:
        record = await self._store.acquire(self._stream)  # with what has been saved since it was opened
        if record is None:
            return self._look_in_s
        if record.position.time is not None and not self._by_time:
            # The server looks for the token's event through the filter, and with other triggers the filter
            # lets other events pass. From its time on, a few events come twice and none is missed.
            self._by_time = True
            return 0
        self._by_time = False
        await self._store.suspend(self._stream, Gap(record.saved_at, None, "history_lost"))
        self._metrics.gap(self._stream)
        log.error("stream_suspended", extra={"stream": self._stream, "reason": "history_lost", "code": error.code})
        return AFTER_A_GAP_S

    async def _stay_suspended(self) -> float:
        if all_resume_now(self.watches):
            await self._store.resume_from_now(self._stream)
            log.warning("stream_resumed_from_now", extra={"stream": self._stream})
            return 0
        self._metrics.state(self._stream, StreamState.SUSPENDED)
        return min(self._look_in_s, SUSPENDED_CHECK_S)

    async def _pass_over_large_event(self, record: StreamRecord) -> None:
        """The server refuses the whole batch, so first come the events before it, each by itself."""
        if not self._one_by_one:
            self._one_by_one = True
            return
        self._one_by_one = False
        large = await self._source.next_without_content(self.watches, self._start(record))
        if large is None:
            return
        happened = large["clusterTime"].as_datetime()
        await self._store.record_gap(self._stream, Gap(happened, happened, "event_too_large"))
        await self._save(Position(large["_id"], large["clusterTime"]))
        self._metrics.gap(self._stream)
        log.error("event_too_large", extra={"stream": self._stream, "collection": large["ns"]["coll"]})
