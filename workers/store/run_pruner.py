"""Pruning: one transaction deletes old runs with their turns, and adds them to the roll-ups."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pymongo import ASCENDING, UpdateOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from workers.store.run import TERMINAL
from workers.store.run_document import Document
from workers.store.run_store import RunStore

BATCH = 200
MAX_TURNS = 2_000  # a transaction holds its deletions in the server's memory
ROLLUPS = "run_rollups"

_FIELDS = ("app_id", "workflow", "trigger.type", "outcome.kind", "outcome.stranded", "turn")


@dataclass(frozen=True, slots=True)
class Pruned:
    runs: int
    turns: int


class RunPruner:
    def __init__(
        self, store: RunStore, keep: timedelta, *, batch_size: int = BATCH, max_turns: int = MAX_TURNS
    ) -> None:
        self._batch_size = batch_size
        self._max_turns = max_turns
        self._client = store.database.client
        self._runs = store.runs
        self._turns = store.turns
        self._rollups = store.database[ROLLUPS]
        self._expired = expired_query(keep)

    async def has_expired(self) -> bool:
        return await self._runs.find_one(self._expired, {"_id": 1}, hint="by_end") is not None

    async def prune(self) -> Pruned:
        """Prunes in one transaction, without a retry.

        Raises OperationFailure with TransientTransactionError if another process prunes the same runs.
        """
        async with (
            self._client.start_session() as session,
            await session.start_transaction(ReadConcern("snapshot"), WriteConcern("majority", wtimeout=10_000)),
        ):
            return await self._prune_in(session)

    async def _prune_in(self, session: AsyncClientSession) -> Pruned:
        found = self._runs.find(self._expired, dict.fromkeys(_FIELDS, 1), session=session, hint="by_end")
        oldest = await found.sort("finished_at", ASCENDING).limit(self._batch_size).to_list(None)
        runs = take_within_turns(oldest, max_turns=self._max_turns)
        if not runs:
            return Pruned(0, 0)
        run_ids = [run["_id"] for run in runs]
        await self._runs.delete_many({"_id": {"$in": run_ids}}, session=session)
        turns = await self._turns.delete_many({"run_id": {"$in": run_ids}}, session=session)
        await self._rollups.bulk_write(rollup_updates(runs), ordered=False, session=session)
        return Pruned(len(runs), turns.deleted_count)


def expired_query(keep: timedelta) -> Document:
    """Returns the query by the database's clock. The condition on the type selects a partial index."""
    since_ms = int(keep.total_seconds() * 1000)
    return {
        "state": {"$in": sorted(state.value for state in TERMINAL)},
        "finished_at": {"$type": "date"},
        "$expr": {"$lt": ["$finished_at", {"$subtract": ["$$NOW", since_ms]}]},
    }


def take_within_turns(runs: Sequence[Document], *, max_turns: int = MAX_TURNS) -> Sequence[Document]:
    """Returns the first runs, up to a total of turns; at least one run."""
    turns = 0
    for position, run in enumerate(runs):
        turns += run.get("turn", 0)
        if turns > max_turns:
            return runs[: max(position, 1)]
    return runs


def rollup_updates(runs: Iterable[Document]) -> list[UpdateOne]:
    counted = Counter(_key(run) for run in runs)
    return [UpdateOne({"_id": dict(key)}, {"$inc": {"count": count}}, upsert=True) for key, count in counted.items()]


def _key(run: Document) -> tuple[tuple[str, Any], ...]:
    """Groups runs like the exporter.

    `stranded` is present only if true, so that the other roll-ups are the same documents as in an older version, which
    adds to them as well.
    """
    outcome = run.get("outcome") or {}
    key = (("app", run["app_id"]), ("workflow", run["workflow"]), ("trigger", run["trigger"]["type"]))
    stranded = (("stranded", True),) if outcome.get("stranded") else ()
    return (*key, ("outcome", outcome.get("kind")), *stranded)
