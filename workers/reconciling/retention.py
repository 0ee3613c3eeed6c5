"""Retention: what ended longer ago than the days it is kept is deleted, but what was counted stays counted.

1. Some of the runs that ended longest ago, with their turns: as many as one transaction can take with ease.
2. In that transaction they are deleted and added to the roll-ups: counts by app, workflow, trigger type and outcome,
   those of stranded runs apart. So the sum over runs and roll-ups is the same before and after, and at every moment in
   between.
3. Two reconcilers that prune at once meet in the same runs. The second one gives way until the next pass.

Parked runs and those that wait for a person stay, however old; so does the ledger.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from pymongo import ASCENDING, UpdateOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from workers.store.run import TERMINAL
from workers.store.run_document import Document
from workers.store.run_store import RunStore

log = logging.getLogger(__name__)

PRUNED = "pruned"
BATCH = 200
MOST_TURNS = 2_000  # a transaction holds what it deletes in the server's memory
MAX_BATCHES = 3  # a pass is short; so many a second are more than fifty million a day
ROLLUPS = "run_rollups"

_FIELDS = ("app_id", "workflow", "trigger.type", "outcome.kind", "outcome.stranded", "turn")


class Retention:
    def __init__(self, store: RunStore, keep: timedelta) -> None:
        self._client = store.database.client
        self._runs = store.runs
        self._turns = store.turns
        self._rollups = store.database[ROLLUPS]
        self._expired = expired(keep)

    async def run_pass(self, counts: Counter[str]) -> None:
        for _ in range(MAX_BATCHES):
            if await self._runs.find_one(self._expired, {"_id": 1}, hint="by_end") is None:
                return
            pruned = await self.prune()
            counts[PRUNED] += pruned
            if pruned == 0:
                return

    async def prune(self) -> int:
        """One transaction, tried once: whoever comes second finds other runs in the next pass."""
        try:
            async with (
                self._client.start_session() as session,
                await session.start_transaction(ReadConcern("snapshot"), WriteConcern("majority", wtimeout=10_000)),
            ):
                runs, turns = await self._prune_in(session)
        except OperationFailure as error:
            if not error.has_error_label("TransientTransactionError"):  # as a conflict with another's deletion has
                raise
            log.debug("pruning_postponed", extra={"code": error.code})
            return 0
        if runs:
            log.info("runs_pruned", extra={"runs": runs, "turns": turns, "reason": "kept long enough"})
        return runs

    async def _prune_in(self, session: AsyncClientSession) -> tuple[int, int]:
        found = self._runs.find(self._expired, dict.fromkeys(_FIELDS, 1), session=session, hint="by_end")
        runs = within_turns(await found.sort("finished_at", ASCENDING).limit(BATCH).to_list(None))
        if not runs:
            return 0, 0
        run_ids = [run["_id"] for run in runs]
        await self._runs.delete_many({"_id": {"$in": run_ids}}, session=session)
        turns = await self._turns.delete_many({"run_id": {"$in": run_ids}}, session=session)
        await self._rollups.bulk_write(additions(runs), ordered=False, session=session)
        return len(runs), turns.deleted_count


def expired(keep: timedelta) -> Document:
    """By the database's clock. The type stands there for the index, which only knows runs with an end."""
    since_ms = int(keep.total_seconds() * 1000)
    return {
        "state": {"$in": sorted(state.value for state in TERMINAL)},
        "finished_at": {"$type": "date"},
        "$expr": {"$lt": ["$finished_at", {"$subtract": ["$$NOW", since_ms]}]},
    }


def within_turns(runs: Sequence[Document]) -> Sequence[Document]:
    """The first of them, up to so many turns; at least one."""
    turns = 0
    for position, run in enumerate(runs):
        turns += run.get("turn", 0)
        if turns > MOST_TURNS:
            return runs[: max(position, 1)]
    return runs


def additions(runs: Iterable[Document]) -> list[UpdateOne]:
    counted = Counter(_key(run) for run in runs)
    return [UpdateOne({"_id": dict(key)}, {"$inc": {"count": count}}, upsert=True) for key, count in counted.items()]


def _key(run: Document) -> tuple[tuple[str, Any], ...]:
    """As the exporter groups the runs that are still there. `stranded` is only there where it is true: the other
    roll-ups are the same documents for an older version, which adds to them as well."""
    outcome = run.get("outcome") or {}
    key = (("app", run["app_id"]), ("workflow", run["workflow"]), ("trigger", run["trigger"]["type"]))
    stranded = (("stranded", True),) if outcome.get("stranded") else ()
    return (*key, ("outcome", outcome.get("kind")), *stranded)
