"""Ended runs, counted by label: all of them once, and from then on only what ended since.

1. The first look counts every run that has ended or parked, and the roll-ups of those that retention has deleted.
2. A later look counts what ended in a moving window, and adds what leaves the window to what is counted for good. The
   window reaches back `MARGIN`: an end may be seen so late after its time, since its transaction was still going on or
   a new primary's clock is behind.
3. Once in `RECOUNTED_EVERY_S` all is counted anew, for what somebody may have changed by hand.

What retention deletes ended days before the window, so it is among what is counted for good: roll-ups are only read
with a full count. A run that parks is counted then, under the outcome it keeps when it is replayed or discarded; that
later end is none that counts.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

from workers.store.run import TERMINAL, RunState
from workers.store.run_pruning import ROLLUPS

# One that waits for a person goes on, and is counted when it ends.
ENDED = sorted(state.value for state in TERMINAL | {RunState.PARKED})
MARGIN = timedelta(minutes=2)
RECOUNTED_EVERY_S = 24 * 3600.0  # seldom: nothing new is shown meanwhile, which is a second for 100 000 runs
AT_ONCE = 100_000  # a command over all runs of a large store would take longer than anybody waits for one

Document = dict[str, Any]


class RunLabels(NamedTuple):
    app: str
    workflow: str
    trigger: str
    outcome: str
    stranded: bool = False


class EndedRuns:
    def __init__(
        self,
        database: AsyncDatabase[Document],
        *,
        clock: Callable[[], float] = time.monotonic,
        at_once: int = AT_ONCE,
    ) -> None:
        self._at_once = at_once
        self._runs = database["runs"]
        self._rollups = database[ROLLUPS]
        self._clock = clock
        self._for_good: Counter[RunLabels] = Counter()
        self._window_from: datetime | None = None
        self._recount_at = 0.0

    async def look(self, session: AsyncClientSession, now: datetime) -> Mapping[RunLabels, int]:
        """`session` reads one moment, and `now` is the store's time, of just before."""
        seen_from = now - MARGIN
        if self._window_from is None or self._clock() >= self._recount_at:
            return await self._counted_anew(session, seen_from)
        seen_from = max(seen_from, self._window_from)  # a new primary's clock may be behind
        found = await self._runs.aggregate(since(self._window_from, seen_from), session=session)
        return self._moved_on(await found.to_list(None), self._for_good, seen_from)

    async def _counted_anew(self, session: AsyncClientSession, seen_from: datetime) -> Mapping[RunLabels, int]:
        counted: list[Document] = []
        last: str | None = ""
        while last is not None:
            found = await (
                await self._runs.aggregate(some_after(last, seen_from, self._at_once), session=session)
            ).to_list(None)
            counted += [row for row in found if row["_id"]["state"] in ENDED]
            last = max((row["last"] for row in found), default=None)
        rolled_up = await self._rollups.find(session=session).to_list(None)
        self._recount_at = self._clock() + RECOUNTED_EVERY_S
        return self._moved_on(counted, _summed(rolled_up), seen_from)

    def _moved_on(
        self, counted: Sequence[Document], before: Counter[RunLabels], seen_from: datetime
    ) -> Mapping[RunLabels, int]:
        self._for_good = before + _summed(row for row in counted if row["_id"]["for_good"])
        self._window_from = seen_from
        return self._for_good + _summed(row for row in counted if not row["_id"]["for_good"])


def some_after(run_id: str, seen_from: datetime, at_once: int = AT_ONCE) -> list[Document]:
    """Whatever their state, so that how much one command reads does not depend on it."""
    some: list[Document] = [{"$match": {"_id": {"$gt": run_id}}}, {"$sort": {"_id": 1}}, {"$limit": at_once}]
    return [*some, *_grouped(seen_from, state="$state", last={"$max": "$_id"})]


def since(window_from: datetime, seen_from: datetime) -> list[Document]:
    in_window = {"state": {"$in": ENDED}, "finished_at": {"$type": "date", "$gte": window_from}}
    return [{"$match": in_window}, {"$match": {"$expr": {"$gte": [_ENDED_AT, window_from]}}}, *_grouped(seen_from)]


# The last line of the history of a run that was replayed or discarded says when it parked.
_ENDED_AT: Document = {"$cond": [{"$gt": ["$resolved", None]}, {"$last": "$history.until"}, "$finished_at"]}


def _grouped(seen_from: datetime, *, state: str | None = None, **more: Document) -> list[Document]:
    key = {
        "app": "$app_id",
        "workflow": "$workflow",
        "trigger": "$trigger.type",
        "outcome": "$outcome.kind",
        "stranded": {"$eq": ["$outcome.stranded", True]},
        "for_good": {"$lt": [_ENDED_AT, seen_from]},
        "state": state,
    }
    return [{"$group": {"_id": key, "count": {"$sum": 1}, **more}}]


def _summed(rows: Iterable[Document]) -> Counter[RunLabels]:
    counts: Counter[RunLabels] = Counter()
    for row in rows:
        key = row["_id"]
        outcome, stranded = key.get("outcome") or "unknown", key.get("stranded", False)
        counts[RunLabels(key["app"], key["workflow"], key["trigger"], outcome, stranded)] += row["count"]
    return counts
