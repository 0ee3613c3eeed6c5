"""The watcher: one keeper for each stream that a trigger needs, as packages change and triggers are made and edited."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from triggers.change_stream.change_intake import ChangeIntake
from triggers.change_stream.loop_guard import LoopGuards
from triggers.change_stream.run_starter import RunStarter
from triggers.change_stream.stream_plan import group_by_stream, plan_stream
from triggers.change_stream.stream_reader import StreamReader, Subscription
from triggers.change_stream.watched_triggers import TriggerSnapshot, WatchedTriggers
from triggers.run_finished.ended_runs_intake import RUNS_COLLECTION, EndedRunsIntake, plan_ended_runs_stream
from triggers.service_loop import repeat

log = logging.getLogger(__name__)

TRIGGER_CHECK_INTERVAL_S = 2.0
MAX_CHECK_SHARE = 0.05  # of the time: with very many triggers they are looked at less often
STREAM_STALL_TIMEOUT_S = 30.0  # as long as an election and what piled up meanwhile may take

StreamReaderFactory = Callable[[Subscription], StreamReader]
SubscriptionFactory = Callable[[TriggerSnapshot], Sequence[Subscription]]
Step = Callable[[], Awaitable[float]]


def identity_step(step: Step) -> Step:
    return step


class Watcher:
    def __init__(
        self,
        watched_triggers: WatchedTriggers,
        *,
        subscriptions_for: SubscriptionFactory,
        stream_reader_for: StreamReaderFactory,
    ) -> None:
        self._watched_triggers = watched_triggers
        self._subscriptions_for = subscriptions_for
        self._stream_reader_for = stream_reader_for
        self._reported_inactive: Mapping[str, str] = {}
        self._reported_missing: Mapping[str, str] = {}
        self._stream_readers: dict[str, StreamReader] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def overdue_streams(self) -> Sequence[str]:
        """Those that are read here and do not get on, in words. May be asked from another thread."""
        late = ((stream, keeper.overdue_s()) for stream, keeper in list(self._stream_readers.items()))
        words = "the stream {} has owed a saved position for {:.0f} s"
        return [words.format(stream, late_s) for stream, late_s in late if late_s > STREAM_STALL_TIMEOUT_S]

    async def run(self, stop: asyncio.Event, *, watch_step: Callable[[Step], Step] = identity_step) -> None:
        """A keeper that fails ends the watcher: better restarted than half blind. `watched` is told of each look."""
        async with asyncio.TaskGroup() as tasks:
            try:
                await repeat(watch_step(partial(self._check_triggers, tasks)), step_name="watch", stop=stop)
            finally:
                for keeper in self._stream_readers.values():
                    keeper.stop()

    async def _check_triggers(self, tasks: asyncio.TaskGroup) -> float:
        began = time.monotonic()
        known = await self._watched_triggers.read()
        self._report(known)
        self._update_readers({reader.plan.id: reader for reader in self._subscriptions_for(known)}, tasks)
        return max(TRIGGER_CHECK_INTERVAL_S, (time.monotonic() - began) / MAX_CHECK_SHARE)

    def _update_readers(self, subscriptions: Mapping[str, Subscription], tasks: asyncio.TaskGroup) -> None:
        for stream in self._stream_readers.keys() - subscriptions.keys():
            self._stream_readers.pop(stream).stop()
        for stream, reader in subscriptions.items():
            if stream in self._stream_readers:
                self._stream_readers[stream].update_subscription(reader)
            elif stream not in self._running or self._running[stream].done():  # else one of before is still leaving
                keeper = self._stream_readers[stream] = self._stream_reader_for(reader)
                self._running[stream] = tasks.create_task(keeper.run(), name=f"stream {stream}")

    def _report(self, snapshot: TriggerSnapshot) -> None:
        """Once, and again when it changes."""
        for trigger, reason in snapshot.inactive.items():
            if self._reported_inactive.get(trigger) != reason:
                log.error("change_trigger_inactive", extra={"trigger": trigger, "reason": reason})
        for trigger, workflow in snapshot.missing_workflows.items():
            if self._reported_missing.get(trigger) != workflow:
                reason = "no package here has this workflow"
                log.warning("chain_waits_in_vain", extra={"trigger": trigger, "workflow": workflow, "reason": reason})
        self._reported_inactive, self._reported_missing = snapshot.inactive, snapshot.missing_workflows


class SubscriptionBuilder:
    """Loop guards outlive the readers: they remember what happened before a trigger was edited."""

    def __init__(self, starter: RunStarter, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._starter = starter
        self._database = database
        self._guards = LoopGuards()

    def __call__(self, snapshot: TriggerSnapshot) -> Sequence[Subscription]:
        own_database = self._database.name
        readers = [
            Subscription(
                plan_stream(stream, watches, own_database=own_database),
                ChangeIntake(watches, self._starter, self._guards),
            )
            for stream, watches in group_by_stream(snapshot.change_triggers, own_database=own_database).items()
        ]
        if snapshot.chains:
            intake = EndedRunsIntake(snapshot.chains, self._starter, self._database[RUNS_COLLECTION])
            readers.append(Subscription(plan_ended_runs_stream(snapshot.chains, own_database=own_database), intake))
        return readers
