"""The watcher: one keeper for each stream that a trigger needs, as packages change and triggers are made and edited."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from triggers.change_stream.keeper import Keeper, Reader
from triggers.change_stream.known import Known, KnownTriggers
from triggers.change_stream.source import MAX_AWAIT_MS
from triggers.service_loop import repeat

log = logging.getLogger(__name__)

LOOK_COSTS_AT_MOST = 0.05  # of the time: with very many triggers they are looked at less often

KeeperFor = Callable[[Reader], Keeper]
ReadersFor = Callable[[Known], Sequence[Reader]]
Step = Callable[[], Awaitable[float]]


@dataclass(frozen=True, slots=True)
class Pace:
    """How often triggers are looked at, how long a stream may owe a position (as long as an election and what piled up
    meanwhile may take), and how long one question to MongoDB waits for an event."""

    look_every_s: float = 2.0
    patience_s: float = 30.0
    max_await_ms: int = MAX_AWAIT_MS


def unwatched(step: Step) -> Step:
    return step


class Watcher:
    def __init__(
        self, known: KnownTriggers, *, readers_for: ReadersFor, keeper_for: KeeperFor, pace: Pace | None = None
    ) -> None:
        self._pace = pace or Pace()
        self._known = known
        self._readers_for = readers_for
        self._keeper_for = keeper_for
        self._refused: Mapping[str, str] = {}
        self._in_vain: Mapping[str, str] = {}
        self._keepers: dict[str, Keeper] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def late_streams(self) -> Sequence[str]:
        """Those that are read here and do not get on, in words. May be asked from another thread."""
        late = ((stream, keeper.late_s()) for stream, keeper in list(self._keepers.items()))
        words = "the stream {} has owed a saved position for {:.0f} s"
        return [words.format(stream, late_s) for stream, late_s in late if late_s > self._pace.patience_s]

    async def run(self, stop: asyncio.Event, *, watched: Callable[[Step], Step] = unwatched) -> None:
        """A keeper that fails ends the watcher: better restarted than half blind. `watched` is told of each look."""
        async with asyncio.TaskGroup() as tasks:
            try:
                await repeat(watched(partial(self._look, tasks)), what="watch", stop=stop)
            finally:
                for keeper in self._keepers.values():
                    keeper.stop()

    async def _look(self, tasks: asyncio.TaskGroup) -> float:
        began = time.monotonic()
        known = await self._known.look()
        self._report(known)
        self._follow({reader.plan.id: reader for reader in self._readers_for(known)}, tasks)
        return max(self._pace.look_every_s, (time.monotonic() - began) / LOOK_COSTS_AT_MOST)

    def _follow(self, wanted: Mapping[str, Reader], tasks: asyncio.TaskGroup) -> None:
        for stream in self._keepers.keys() - wanted.keys():
            self._keepers.pop(stream).stop()
        for stream, reader in wanted.items():
            if stream in self._keepers:
                self._keepers[stream].read_as(reader)
            elif stream not in self._running or self._running[stream].done():  # else one of before is still leaving
                keeper = self._keepers[stream] = self._keeper_for(reader)
                self._running[stream] = tasks.create_task(keeper.run(), name=f"stream {stream}")

    def _report(self, known: Known) -> None:
        """Once, and again when it changes."""
        for trigger, reason in known.refused.items():
            if self._refused.get(trigger) != reason:
                log.error("change_trigger_inactive", extra={"trigger": trigger, "reason": reason})
        for trigger, workflow in known.in_vain.items():
            if self._in_vain.get(trigger) != workflow:
                reason = "no package here has this workflow"
                log.warning("chain_waits_in_vain", extra={"trigger": trigger, "workflow": workflow, "reason": reason})
        self._refused, self._in_vain = known.refused, known.in_vain
