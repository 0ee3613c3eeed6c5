"""The tail of runs: yields the events of one run, or of all that match, as they happen.

The store is polled every 0.3 seconds while there are events and every 2 seconds otherwise. The cost of a poll does not
depend on the number of runs: it reads, each by an index, the runs that were accepted or ended since the last poll, the
running ones, and those that were seen running before.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from workers.control.change_result import RunNotFoundError
from workers.control.run_events import ENDED, EventCursor, RunEvent, cursor_before, cursor_of, events_since
from workers.store.followed_runs import FollowedRuns
from workers.store.run import TERMINAL
from workers.store.run_document import Document
from workers.store.run_filter import RunFilter
from workers.store.run_reads import RunReads
from workers.store.run_store import RunStore

MIN_PAUSE_S, MAX_PAUSE_S = 0.3, 2.0
# Clocks of acceptors may differ from the store's, and a write takes time to reach a majority.
OVERLAP = timedelta(seconds=10)
MAX_FOLLOWED = 1_000
_TERMINAL_STATES = frozenset(state.value for state in TERMINAL)
_READ_FIELDS = (
    "app_id",
    "workflow",
    "trigger.name",
    "state",
    "hold",
    "held_by",
    "lease",
    "turn",
    "history",
    "not_before",
    "outcome",
    "cancel_requested",
    "resolved",
    "created_at",
    "claimed_at",
    "finished_at",
)


async def follow_run(store: RunStore, run_id: str, *, app_id: str | None = None) -> AsyncIterator[RunEvent]:
    """Yields the events of a run from its acceptance until it ends or rests."""
    cursor, pace = EventCursor(), _PollInterval()
    while True:
        run = await RunReads(store).find_fields(run_id, _READ_FIELDS, app_id=app_id)
        if run is None:
            raise RunNotFoundError(run_id)
        turns = await _read_turns(store, [(run, cursor)])
        found = list(events_since(cursor, run, turns.get(run_id, [])))
        for event in found:
            yield event if cursor == EventCursor() else _with_time(event)
        if run["state"] in ENDED:
            return
        cursor = cursor_of(run)
        await pace.pause(is_busy=bool(found))


async def follow_all(store: RunStore, run_filter: RunFilter, *, since: datetime) -> AsyncIterator[RunEvent]:
    """Yields events since a moment by the store's clock, without an end.

    The filter has no state, since states change.
    """
    follower, pace = _Follower(store, run_filter, since), _PollInterval()
    while True:
        busy = False
        async for event in follower.poll():
            busy = True
            yield event
        await pace.pause(is_busy=busy)


def _with_time(event: RunEvent) -> RunEvent:
    """Sets the time of an event without a stored time to now."""
    return event if event.at is not None else replace(event, at=datetime.now(UTC))


async def read_store_time(store: RunStore) -> datetime:
    return await FollowedRuns(store).now()


class _PollInterval:
    def __init__(self) -> None:
        self._pause_s = MIN_PAUSE_S

    async def pause(self, *, is_busy: bool) -> None:
        self._pause_s = MIN_PAUSE_S if is_busy else min(self._pause_s * 1.3, MAX_PAUSE_S)
        await asyncio.sleep(self._pause_s)


class _Follower:
    def __init__(self, store: RunStore, run_filter: RunFilter, began_at: datetime) -> None:
        self._store = store
        self._run_filter = run_filter
        self._began_at = began_at
        self._polled_at = began_at
        self._cursors: dict[str, EventCursor] = {}
        # Kept for a while, so that events in the overlap are not reported twice.
        self._ended_at: dict[str, datetime] = {}

    async def poll(self) -> AsyncIterator[RunEvent]:
        now = await read_store_time(self._store)
        first_news = max(self._began_at, self._polled_at - OVERLAP)
        runs = await self._find_changing()
        changed = []
        for run in runs.values():
            cursor = self._cursors.get(run["_id"]) or cursor_before(run, first_news)
            if cursor != cursor_of(run):
                changed.append((run, cursor))
        turns = await _read_turns(self._store, changed)
        for run, cursor in changed:
            for event in events_since(cursor, run, turns.get(run["_id"], [])):
                yield _with_time(event)
        self._update_cursors(runs, now)
        self._polled_at = now

    async def _find_changing(self) -> dict[str, Document]:
        known = [run_id for run_id in self._cursors if run_id not in self._ended_at]
        since = self._polled_at - OVERLAP
        return await FollowedRuns(self._store).find_moving(
            self._run_filter, _READ_FIELDS, since=since, ended=ENDED, known=known
        )

    def _update_cursors(self, runs: dict[str, Document], now: datetime) -> None:
        for run_id, run in runs.items():
            self._cursors[run_id] = cursor_of(run)
            if run["state"] in _TERMINAL_STATES:
                self._ended_at.setdefault(run_id, now)
        for run_id in [run_id for run_id, at in self._ended_at.items() if at < now - 3 * OVERLAP]:
            del self._ended_at[run_id]
            self._cursors.pop(run_id, None)
        going = [run_id for run_id in self._cursors if run_id not in self._ended_at]
        for run_id in going[: max(len(going) - MAX_FOLLOWED, 0)]:
            del self._cursors[run_id]  # the oldest of a long backlog; found again as soon as it is claimed


async def _read_turns(store: RunStore, runs: Iterable[tuple[Document, EventCursor]]) -> dict[str, list[dict[str, Any]]]:
    wanted = ((run["_id"], cursor.turn, run["turn"]) for run, cursor in runs)
    return await FollowedRuns(store).turns_between(wanted)
