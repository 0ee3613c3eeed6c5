"""The watcher: runs a reader for each stream that a trigger needs."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from triggers.change_stream.change_intake import ChangeIntake
from triggers.change_stream.loop_guard import LoopGuards
from triggers.change_stream.run_starter import RunStarter
from triggers.change_stream.stream_plan import group_by_stream, plan_stream
from triggers.change_stream.stream_reader import StreamReader, Subscription
from triggers.change_stream.stream_source import MAX_AWAIT_MS
from triggers.change_stream.watched_triggers import TriggerSnapshot, WatchedTriggers
from triggers.run_finished.ended_runs_intake import EndedRunsIntake, plan_ended_runs_stream
from triggers.service_loop import repeat
from workers.store.run_store import RunStore

log = logging.getLogger(__name__)

MAX_CHECK_SHARE = 0.05  # of the time: very many triggers are checked less often

RefreshTriggers = Callable[[], Awaitable[object]]
StreamReaderFactory = Callable[[Subscription, RefreshTriggers], StreamReader]
SubscriptionFactory = Callable[[TriggerSnapshot], Sequence[Subscription]]
Step = Callable[[], Awaitable[float]]


@dataclass(frozen=True, slots=True)
class Pace:
    """The intervals and timeouts of a watcher.

    `check_interval_s`: between two reads of the triggers. `patience_s`: how late the save of a position may be; it must
    outlast an election and the backlog after it. `max_await_ms`: how long MongoDB waits for an event before it answers.
    """

    check_interval_s: float = 2.0
    patience_s: float = 30.0
    max_await_ms: int = MAX_AWAIT_MS


def identity_step(step: Step) -> Step:
    return step


class Watcher:
    def __init__(
        self,
        watched_triggers: WatchedTriggers,
        *,
        subscriptions_for: SubscriptionFactory,
        stream_reader_for: StreamReaderFactory,
        pace: Pace | None = None,
    ) -> None:
        self._pace = pace or Pace()
        self._watched_triggers = watched_triggers
        self._subscriptions_for = subscriptions_for
        self._stream_reader_for = stream_reader_for
        self._reported_inactive: Mapping[str, str] = {}
        self._reported_missing: Mapping[str, str] = {}
        self._stream_readers: dict[str, StreamReader] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._check_lock = asyncio.Lock()
        self._is_stopping = False

    def overdue_streams(self) -> Sequence[str]:
        """Describes the stalled streams of this watcher. Safe to call from another thread."""
        overdue = ((stream, reader.overdue_s()) for stream, reader in list(self._stream_readers.items()))
        template = "the stream {} has saved no position for {:.0f} s longer than allowed"
        return [template.format(stream, late_s) for stream, late_s in overdue if late_s > self._pace.patience_s]

    async def run(self, stop: asyncio.Event, *, watch_step: Callable[[Step], Step] = identity_step) -> None:
        """Runs until `stop`.

        A reader that fails ends the watcher, which is then restarted as a whole.
        """
        async with asyncio.TaskGroup() as tasks:
            try:
                await repeat(watch_step(partial(self._check_triggers, tasks)), step_name="watch", stop=stop)
            finally:
                self._is_stopping = True
                for reader in self._stream_readers.values():
                    reader.stop()

    async def _check_triggers(self, tasks: asyncio.TaskGroup) -> float:
        began = time.monotonic()
        async with self._check_lock:  # readers check too, and an older snapshot must not follow a newer one
            snapshot = await self._watched_triggers.read()
            self._report(snapshot)
            subscriptions = {subscription.plan.id: subscription for subscription in self._subscriptions_for(snapshot)}
            self._update_readers(subscriptions, tasks)
        return max(self._pace.check_interval_s, (time.monotonic() - began) / MAX_CHECK_SHARE)

    def _update_readers(self, subscriptions: Mapping[str, Subscription], tasks: asyncio.TaskGroup) -> None:
        if self._is_stopping:
            return  # a new reader would not be stopped
        for stream in self._stream_readers.keys() - subscriptions.keys():
            self._stream_readers.pop(stream).stop()
        for stream, subscription in subscriptions.items():
            if stream in self._stream_readers:
                self._stream_readers[stream].update_subscription(subscription)
            elif stream not in self._running or self._running[stream].done():  # a previous reader may still be stopping
                reader = self._stream_reader_for(subscription, partial(self._check_triggers, tasks))
                self._stream_readers[stream] = reader
                self._running[stream] = tasks.create_task(reader.run(), name=f"stream {stream}")

    def _report(self, snapshot: TriggerSnapshot) -> None:
        """Logs each problem once, and again when it changes."""
        for trigger, reason in snapshot.inactive.items():
            if self._reported_inactive.get(trigger) != reason:
                log.error("change_trigger_inactive", extra={"trigger": trigger, "reason": reason})
        for trigger, workflow in snapshot.missing_workflows.items():
            if self._reported_missing.get(trigger) != workflow:
                reason = "no package here has this workflow"
                log.warning("chain_waits_in_vain", extra={"trigger": trigger, "workflow": workflow, "reason": reason})
        self._reported_inactive, self._reported_missing = snapshot.inactive, snapshot.missing_workflows


class SubscriptionBuilder:
    """Builds subscriptions.

    Its loop guards outlive the readers, and so an edit of a trigger.
    """

    def __init__(self, starter: RunStarter, runs: RunStore) -> None:
        self._starter = starter
        self._runs = runs
        self._guards = LoopGuards()

    def __call__(self, snapshot: TriggerSnapshot) -> Sequence[Subscription]:
        own_database = self._runs.database.name
        subscriptions = [
            Subscription(
                plan_stream(stream, triggers, own_database=own_database),
                ChangeIntake(triggers, self._starter, self._guards),
            )
            for stream, triggers in group_by_stream(snapshot.change_triggers, own_database=own_database).items()
        ]
        if snapshot.chains:
            intake = EndedRunsIntake(snapshot.chains, self._starter, self._runs)
            subscriptions.append(
                Subscription(plan_ended_runs_stream(snapshot.chains, own_database=own_database), intake)
            )
        return subscriptions
