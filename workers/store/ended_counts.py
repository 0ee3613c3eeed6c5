"""Counts of ended runs by label: one full count, then increments.

1. The first read counts every run that has ended or parked, and the roll-ups of runs that retention has deleted.
2. A later read counts the ends in a moving window, and adds what leaves the window to the final counts. The window
   reaches back `WINDOW_MARGIN`, as an end may become visible late: its transaction was still open, or a new primary's
   clock is behind.
3. Every `RECOUNT_INTERVAL_S` everything is counted again, to include manual changes of the store.

Retention deletes runs days after they left the window, so they are in the final counts already; only a full count reads
roll-ups. A parked run is counted when it parks, under the outcome that it keeps; its later replay or discard is not
counted again.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

from workers.store.run import TERMINAL, RunState
from workers.store.run_pruner import ROLLUPS

# A run that waits for a person is counted when it ends.
ENDED_STATES = sorted(state.value for state in TERMINAL | {RunState.PARKED})
WINDOW_MARGIN = timedelta(minutes=2)
RECOUNT_INTERVAL_S = 24 * 3600.0  # a recount delays the next numbers by a second per 100,000 runs
MAX_RUNS_PER_COMMAND = 100_000  # one command over all runs of a large store would time out

Document = dict[str, Any]


class RunLabels(NamedTuple):
    app: str
    workflow: str
    trigger: str
    outcome: str
    stranded: bool = False


class EndedRunCounter:
    def __init__(
        self,
        database: AsyncDatabase[Document],
        *,
        clock: Callable[[], float] = time.monotonic,
        max_runs_per_command: int = MAX_RUNS_PER_COMMAND,
    ) -> None:
        self._max_runs_per_command = max_runs_per_command
        self._runs = database["runs"]
        self._rollups = database[ROLLUPS]
        self._clock = clock
        self._final_counts: Counter[RunLabels] = Counter()
        self._window_from: datetime | None = None
        self._recount_at = 0.0

    async def count(self, session: AsyncClientSession, now: datetime) -> Mapping[RunLabels, int]:
        """Counts in a snapshot session; `now` is the store's time just before the snapshot."""
        seen_from = now - WINDOW_MARGIN
        if self._window_from is None or self._clock() >= self._recount_at:
            return await self._recount(session, seen_from)
        seen_from = max(seen_from, self._window_from)  # a new primary's clock may be behind
        found = await self._runs.aggregate(window_pipeline(self._window_from, seen_from), session=session)
        return self._advance_window(await found.to_list(None), self._final_counts, seen_from)

    async def _recount(self, session: AsyncClientSession, seen_from: datetime) -> Mapping[RunLabels, int]:
        counted: list[Document] = []
        last: str | None = ""
        while last is not None:
            pipeline = recount_pipeline(last, seen_from, self._max_runs_per_command)
            found = await (await self._runs.aggregate(pipeline, session=session)).to_list(None)
            counted += [row for row in found if row["_id"]["state"] in ENDED_STATES]
            last = max((row["last"] for row in found), default=None)
        rolled_up = await self._rollups.find(session=session).to_list(None)
        self._recount_at = self._clock() + RECOUNT_INTERVAL_S
        return self._advance_window(counted, _sum_counts(rolled_up), seen_from)

    def _advance_window(
        self, counted: Sequence[Document], final_counts: Counter[RunLabels], seen_from: datetime
    ) -> Mapping[RunLabels, int]:
        self._final_counts = final_counts + _sum_counts(row for row in counted if row["_id"]["for_good"])
        self._window_from = seen_from
        return self._final_counts + _sum_counts(row for row in counted if not row["_id"]["for_good"])


def recount_pipeline(run_id: str, seen_from: datetime, max_runs: int = MAX_RUNS_PER_COMMAND) -> list[Document]:
    """Selects runs in any state, so that each command reads the same number of runs."""
    next_runs: list[Document] = [
        {"$match": {"_id": {"$gt": run_id}}},
        {"$sort": {"_id": 1}},
        {"$limit": max_runs},
    ]
    return [*next_runs, *_group_stages(seen_from, state="$state", last={"$max": "$_id"})]


def window_pipeline(window_from: datetime, seen_from: datetime) -> list[Document]:
    in_window = {"state": {"$in": ENDED_STATES}, "finished_at": {"$type": "date", "$gte": window_from}}
    return [{"$match": in_window}, {"$match": {"$expr": {"$gte": [_ENDED_AT, window_from]}}}, *_group_stages(seen_from)]


# A replayed or discarded run parked when the last lease of its history ended.
_ENDED_AT: Document = {"$cond": [{"$gt": ["$resolved", None]}, {"$last": "$history.until"}, "$finished_at"]}


def _group_stages(seen_from: datetime, *, state: str | None = None, **accumulators: Document) -> list[Document]:
    key = {
        "app": "$app_id",
        "workflow": "$workflow",
        "trigger": "$trigger.type",
        "outcome": "$outcome.kind",
        "stranded": {"$eq": ["$outcome.stranded", True]},
        "for_good": {"$lt": [_ENDED_AT, seen_from]},
        "state": state,
    }
    return [{"$group": {"_id": key, "count": {"$sum": 1}, **accumulators}}]


def _sum_counts(rows: Iterable[Document]) -> Counter[RunLabels]:
    counts: Counter[RunLabels] = Counter()
    for row in rows:
        key = row["_id"]
        outcome, stranded = key.get("outcome") or "unknown", key.get("stranded", False)
        counts[RunLabels(key["app"], key["workflow"], key["trigger"], outcome, stranded)] += row["count"]
    return counts
