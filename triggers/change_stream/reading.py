"""Reading: takes the events of one open stream, and saves the position behind those whose runs are durable.

While the last ones are being made durable, the next ones are read already.
"""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from triggers.change_stream.bunches import Bunches, Intake
from triggers.change_stream.source import Event, EventTooLargeError, Stream
from triggers.change_stream.store import Position

SIDE_BY_SIDE = 1000  # events whose runs are not durable yet, unless they are large
MOST_BYTES = 64 * 1024 * 1024
SAVE_AT_LEAST_EVERY_S = 1.0  # under load: what a crash repeats

Next = Callable[[], Awaitable[Event | None]]
Save = Callable[[Position], Awaitable[None]]


class Reading:
    def __init__(
        self,
        stream: Stream,
        position: Position,
        *,
        intake: Intake,
        save: Save,
        report_lag: Callable[[float], None],
        save_idle_every_s: float,
    ) -> None:
        self._stream = stream
        self._position = position
        self._bunches = Bunches(intake)
        self._save = save
        self._report_lag = report_lag
        self._save_idle_every_s = save_idle_every_s
        self._newest: Event | None = None
        self._saved_at = time.monotonic()
        self.bytes = 0  # that were read

    async def follow(self, next_event: Next, *, wanted: Callable[[], bool], until_idle: bool = False) -> None:
        """Until it is no longer wanted, or the stream ended: then the saved position goes on behind the end. An event
        that is too large is raised, and the position is behind what came before it."""
        try:
            if self._position.token is None:
                # Before anything else: a crash before the first event must not lose what happens meanwhile.
                await self._save_here()
            while wanted():
                event = await next_event()
                ended = event is not None and event["operationType"] == "invalidate"
                if event is not None and not ended:
                    self.bytes += self._bunches.add(event)
                    await self._keep_up()
                    continue
                await self._settle(idle=event is None)
                if ended or until_idle:
                    return
            await self._settle(idle=False)
        except EventTooLargeError:
            await self._settle(idle=False)
            raise
        finally:
            await self._bunches.end()

    async def _keep_up(self) -> None:
        """Under load: the older half is waited for, while the newer one is on its way."""
        late = time.monotonic() - self._saved_at >= SAVE_AT_LEAST_EVERY_S
        if late or self._bunches.events >= SIDE_BY_SIDE or self._bunches.bytes >= MOST_BYTES:
            self._newest = await self._bunches.finish(self._bunches.events // 2) or self._newest
        if late and self._newest is not None:
            await self._save_at(Position(self._newest["_id"], self._newest["clusterTime"]))
            self._report_lag(_age_s(self._newest))

    async def _settle(self, *, idle: bool) -> None:
        """Nothing is saved before the runs of everything before it are durable."""
        done = await self._bunches.finish(0)
        self._newest = done or self._newest
        # A quiet stream's position moves on with the oplog, and would grow too old if it were not saved.
        if done is not None or not idle or time.monotonic() - self._saved_at >= self._save_idle_every_s:
            await self._save_here()
        self._report_lag(0.0 if done is None else _age_s(done))

    async def _save_here(self) -> None:
        """Behind everything that was read."""
        token = self._stream.resume_token
        if token is None:
            return
        known = self._newest["clusterTime"] if self._newest is not None else self._position.time
        await self._save_at(Position(token, known))

    async def _save_at(self, position: Position) -> None:
        self._position = position
        await self._save(position)
        self._saved_at = time.monotonic()


def _age_s(event: Event) -> float:
    happened: datetime = event.get("wallTime") or event["clusterTime"].as_datetime()
    return (datetime.now(UTC) - happened).total_seconds()
