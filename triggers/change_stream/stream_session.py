"""The stream session: reads one open stream, and saves its position.

The next events are read while the last ones are made durable.
"""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from triggers.change_stream.event_batcher import EventBatcher, EventIntake
from triggers.change_stream.resume_token_store import StreamPosition
from triggers.change_stream.stream_source import Event, EventTooLargeError, Stream

MAX_PENDING_EVENTS = 1000  # events whose runs are not durable yet, unless they are large
MAX_PENDING_BYTES = 64 * 1024 * 1024
MAX_SAVE_INTERVAL_S = 1.0  # under load: what a crash repeats

NextEvent = Callable[[], Awaitable[Event | None]]
SavePosition = Callable[[StreamPosition], Awaitable[None]]


class StreamSession:
    def __init__(
        self,
        stream: Stream,
        position: StreamPosition,
        *,
        intake: EventIntake,
        save: SavePosition,
        report_lag: Callable[[float], None],
        idle_save_interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._position = position
        self._batcher = EventBatcher(intake)
        self._save = save
        self._report_lag = report_lag
        self._idle_save_interval_s = idle_save_interval_s
        self._newest_event: Event | None = None
        self._clock = clock
        self._saved_at = clock()
        self.bytes_read = 0

    async def follow(
        self, next_event: NextEvent, *, should_continue: Callable[[], bool], until_idle: bool = False
    ) -> None:
        """Reads until `should_continue` is false or the stream ends.

        Raises EventTooLargeError for a large event, with the position saved behind the event before it.
        """
        try:
            if self._position.token is None:
                # Saved first: a crash before the first event must not lose the events in between.
                await self._save_read_position()
            while should_continue():
                event = await next_event()
                ended = event is not None and event["operationType"] == "invalidate"
                if event is not None and not ended:
                    self.bytes_read += self._batcher.add(event)
                    await self._drain_under_load()
                    continue
                await self._finish_pending(idle=event is None)
                if ended or until_idle:
                    return
            await self._finish_pending(idle=False)
        except EventTooLargeError:
            await self._finish_pending(idle=False)
            raise
        finally:
            await self._batcher.close()

    async def _drain_under_load(self) -> None:
        """Waits for the older half of the pending events under load."""
        is_save_due = self._clock() - self._saved_at >= MAX_SAVE_INTERVAL_S
        if is_save_due or self._batcher.events >= MAX_PENDING_EVENTS or self._batcher.bytes >= MAX_PENDING_BYTES:
            self._newest_event = await self._batcher.finish(self._batcher.events // 2) or self._newest_event
        if is_save_due and self._newest_event is not None:
            await self._save_position(StreamPosition(self._newest_event["_id"], self._newest_event["clusterTime"]))
            self._report_lag(_event_age_s(self._newest_event))

    async def _finish_pending(self, *, idle: bool) -> None:
        """Saves a position only after the runs of all events before it are durable."""
        newest = await self._batcher.finish(0)
        self._newest_event = newest or self._newest_event
        # The position of a quiet stream advances with the oplog, and would expire if it were not saved.
        if newest is not None or not idle or self._clock() - self._saved_at >= self._idle_save_interval_s:
            await self._save_read_position()
        self._report_lag(0.0 if newest is None else _event_age_s(newest))

    async def _save_read_position(self) -> None:
        """Saves the position behind all events that were read."""
        token = self._stream.resume_token
        if token is None:
            return
        known = self._newest_event["clusterTime"] if self._newest_event is not None else self._position.time
        await self._save_position(StreamPosition(token, known))

    async def _save_position(self, position: StreamPosition) -> None:
        self._position = position
        await self._save(position)
        self._saved_at = self._clock()


def _event_age_s(event: Event) -> float:
    event_time: datetime = event.get("wallTime") or event["clusterTime"].as_datetime()
    return (datetime.now(UTC) - event_time).total_seconds()
