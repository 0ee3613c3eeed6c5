"""Reading: takes the events of one open stream side by side, and saves the position behind them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from triggers.change_stream.source import Event, Stream, next_event
from triggers.change_stream.store import Position
from workers.together import together

SIDE_BY_SIDE = 64
SAVE_AT_LEAST_EVERY_S = 1.0  # under load: what a crash repeats

Take = Callable[[Event], Awaitable[None]]
Save = Callable[[Position], Awaitable[None]]


class Reading:
    def __init__(
        self,
        stream: Stream,
        position: Position,
        *,
        take: Take,
        save: Save,
        report_lag: Callable[[float], None],
        save_idle_every_s: float,
    ) -> None:
        self._stream = stream
        self._position = position
        self._take = take
        self._save = save
        self._report_lag = report_lag
        self._save_idle_every_s = save_idle_every_s
        self._under_way: list[asyncio.Task[None]] = []
        self._newest: Event | None = None
        self._saved_at = time.monotonic()

    async def follow(self, *, wanted: Callable[[], bool], only_one: bool = False) -> bool:
        """Until it is no longer wanted, or the stream ended: then the saved position goes on behind the end.

        True when nothing was left to read at that moment.
        """
        try:
            if self._position.token is None:
                # Before anything else: a crash before the first event must not lose what happens meanwhile.
                await self._save_position()
            while wanted():
                event = await next_event(self._stream, self._position)
                ended = event is not None and event["operationType"] == "invalidate"
                if event is not None and not ended:
                    self._newest = event
                    self._under_way.append(asyncio.ensure_future(self._take(event)))
                if event is None or ended or only_one or self._save_is_due():
                    await self._settle(idle=event is None)
                if ended or only_one:
                    return event is None
            await self._settle(idle=False)
            return False
        finally:
            await asyncio.gather(*self._under_way, return_exceptions=True)

    def _save_is_due(self) -> bool:
        late = time.monotonic() - self._saved_at >= SAVE_AT_LEAST_EVERY_S
        return late or len(self._under_way) >= SIDE_BY_SIDE

    async def _settle(self, *, idle: bool) -> None:
        """Nothing is saved before the runs of everything before it are durable."""
        had_work = bool(self._under_way)
        await together(self._under_way)
        self._under_way.clear()
        # A quiet stream's position moves on with the oplog, and would grow too old if it were not saved.
        if had_work or not idle or time.monotonic() - self._saved_at >= self._save_idle_every_s:
            await self._save_position()
        self._report_lag(_age_s(self._newest) if self._newest is not None and had_work else 0.0)

    async def _save_position(self) -> None:
        token = self._stream.resume_token
        if token is None:
            return
        known = self._newest["clusterTime"] if self._newest is not None else self._position.time
        self._position = Position(token, known)
        await self._save(self._position)
        self._saved_at = time.monotonic()


def _age_s(event: Event) -> float:
    happened: datetime = event.get("wallTime") or event["clusterTime"].as_datetime()
    return (datetime.now(UTC) - happened).total_seconds()
