"""Following: what happens to one run, or to all that match, told as it happens.

The store is asked every 0.3 seconds while something happens and every 2 seconds while nothing does. How much a look
costs does not depend on how many runs there are: it asks, each by an index, for runs that were accepted or ended since
the last look, for those that are worked on, and for those that were seen going before.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from workers.control.errors import RunNotFoundError
from workers.control.happenings import ENDED, Happening, Told, happenings, told_before, told_of
from workers.store.followed_runs import FollowedRuns
from workers.store.matching import Matching
from workers.store.run import TERMINAL
from workers.store.run_document import Document
from workers.store.run_reads import RunReads
from workers.store.run_store import RunStore

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.3, 2.0
# Acceptors' clocks may differ from the store's, and a write takes its time to reach a majority.
OVERLAP = timedelta(seconds=10)
MAX_FOLLOWED = 1_000
_OVER = frozenset(state.value for state in TERMINAL)
_SEEN = (
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


async def follow_run(store: RunStore, run_id: str, *, app_id: str | None = None) -> AsyncIterator[Happening]:
    """From its acceptance on, until it ends or rests."""
    told, pace = Told(), _Pace()
    while True:
        run = await RunReads(store).find_fields(run_id, _SEEN, app_id=app_id)
        if run is None:
            raise RunNotFoundError(run_id)
        turns = await _turns(store, [(run, told)])
        found = list(happenings(told, run, turns.get(run_id, [])))
        for each in found:
            yield each if told == Told() else _seen_now(each)
        if run["state"] in ENDED:
            return
        told = told_of(run)
        await pace.pause(busy=bool(found))


async def follow_all(store: RunStore, matching: Matching, *, since: datetime) -> AsyncIterator[Happening]:
    """From a moment by the store's clock on, without an end. Not by state: that is what changes."""
    follower, pace = _Follower(store, matching, since), _Pace()
    while True:
        busy = False
        async for each in follower.look():
            busy = True
            yield each
        await pace.pause(busy=busy)


def _seen_now(happening: Happening) -> Happening:
    """Where nobody noted when it happened: it was just now."""
    return happening if happening.at is not None else replace(happening, at=datetime.now(UTC))


async def store_time(store: RunStore) -> datetime:
    return await FollowedRuns(store).now()


class _Pace:
    def __init__(self) -> None:
        self._pause_s = SHORTEST_PAUSE_S

    async def pause(self, *, busy: bool) -> None:
        self._pause_s = SHORTEST_PAUSE_S if busy else min(self._pause_s * 1.3, LONGEST_PAUSE_S)
        await asyncio.sleep(self._pause_s)


class _Follower:
    def __init__(self, store: RunStore, matching: Matching, began_at: datetime) -> None:
        self._store = store
        self._matching = matching
        self._began_at = began_at
        self._looked_at = began_at
        self._told: dict[str, Told] = {}
        self._over: dict[str, datetime] = {}  # kept for a while, so that what the overlap finds again is not told again

    async def look(self) -> AsyncIterator[Happening]:
        now = await store_time(self._store)
        first_news = max(self._began_at, self._looked_at - OVERLAP)
        runs = await self._moving()
        changed = []
        for run in runs.values():
            told = self._told.get(run["_id"]) or told_before(run, first_news)
            if told != told_of(run):
                changed.append((run, told))
        turns = await _turns(self._store, changed)
        for run, told in changed:
            for each in happenings(told, run, turns.get(run["_id"], [])):
                yield _seen_now(each)
        self._remember(runs, now)
        self._looked_at = now

    async def _moving(self) -> dict[str, Document]:
        known = [run_id for run_id in self._told if run_id not in self._over]
        since = self._looked_at - OVERLAP
        return await FollowedRuns(self._store).find_moving(self._matching, _SEEN, since=since, ended=ENDED, known=known)

    def _remember(self, runs: dict[str, Document], now: datetime) -> None:
        for run_id, run in runs.items():
            self._told[run_id] = told_of(run)
            if run["state"] in _OVER:
                self._over.setdefault(run_id, now)
        for run_id in [run_id for run_id, at in self._over.items() if at < now - 3 * OVERLAP]:
            del self._over[run_id]
            self._told.pop(run_id, None)
        going = [run_id for run_id in self._told if run_id not in self._over]
        for run_id in going[: max(len(going) - MAX_FOLLOWED, 0)]:
            del self._told[run_id]  # the oldest of a long backlog: met again as soon as it is worked on


async def _turns(store: RunStore, runs: Iterable[tuple[Document, Told]]) -> dict[str, list[dict[str, Any]]]:
    wanted = ((run["_id"], told.turn, run["turn"]) for run, told in runs)
    return await FollowedRuns(store).turns_between(wanted)
