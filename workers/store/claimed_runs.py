"""The run repository in MongoDB: every write of an owner carries the fencing token of its claim.

1. `claim` makes this process the owner of a queued run for the length of a lease, with a token higher than any before.
2. `commit_turn` first writes the turn, then moves the run on. The run document is the commit point: a turn counts if
   the run document says so, and only the newest token can write that.
3. `finish` and `requeue` give the run up. The token stays in the document, so that it keeps growing.
4. Write-backs of a package are written in one transaction with the step that owes them: a stale owner writes nothing,
   and the writes of a repeated turn are made once.

Lease times are the database's clock ($$NOW): clocks of workers may differ, that of one server does not.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

from pymongo import ASCENDING, DESCENDING, ReplaceOne, ReturnDocument
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import DuplicateKeyError

from accounting.infra.bulk_writer import BulkWriter, collect_bulk_errors
from accounting.totals.usage_query import run_totals, run_totals_by_id
from accounting.usage import UsageTotals
from workers.crash_points import crash_point
from workers.store.context_documents import ContextDocuments
from workers.store.fencing_token import NEXT_TOKEN, lease_extension, owned_query, turn_query
from workers.store.persistent_state_store import PersistentStateStore
from workers.store.run import AT_REST, ISOLATED_LANE_PREFIX, RUN_FORMAT, Claim, Hold, LeaseLostError, RunState
from workers.store.run_document import (
    CLEAR_LEASE,
    CLEAR_ORDER_HEAD,
    ENDED_IF_CANCELLED,
    NOT_READY,
    READY,
    Document,
    append_history,
    literal,
)
from workers.store.run_store import RunStore
from workers.store.run_transitions import source_states, transition_filter
from workflows.context.documents.document_access import DocumentWrite
from workflows.context.reads.persistent_states import PersistentState

_FREE: Document = {"hold": None, "$expr": {"$lte": ["$not_before", "$$NOW"]}}  # null sorts before every date
BEATS_PER_LEASE = 6  # see `workers.process.heartbeat`
MIN_FIND_TIMEOUT_S = 1.0  # with a lease of a few seconds a busy database must not count as slow
LANE_ORDER = (("priority", DESCENDING), ("_id", ASCENDING))


# Skips through the index with a seek for each lane (DISTINCT_SCAN), since the order is that of the index.
# `$exists` instead of `$gte` would read the document of every ready run.
FIRST_OF_EACH: list[Mapping[str, object]] = [
    {"$match": {"lane": {"$gte": ""}}},
    {"$sort": {"lane": ASCENDING, "priority": DESCENDING, "_id": ASCENDING}},
    {"$group": {"_id": "$lane", "urgency": {"$first": "$priority"}}},
]
_MAX_LANES_IN_ONE_ANSWER = 100_000


def find_timeout_s(lease_s: int) -> float:
    """Returns the time limit for finding the documents of one write."""
    return max(lease_s / BEATS_PER_LEASE / 2, MIN_FIND_TIMEOUT_S)


def _hold_fields(hold: Hold) -> Document:
    until = "$$REMOVE" if hold.until is None else hold.until
    return {**CLEAR_LEASE, "hold": hold.kind.value, "held_by": literal(hold.by), "held_until": until}


def version_by_workflow(versions: Mapping[str, str]) -> Document | None:
    """Returns an expression for the version of a workflow.

    It is None for a workflow that this process does not know yet; the run is pinned when its package is loaded.
    """
    if not versions:
        return None
    known = [
        {"case": {"$eq": ["$workflow", literal(name)]}, "then": literal(version)} for name, version in versions.items()
    ]
    return {"$switch": {"branches": known, "default": None}}


class MongoRunRepository:
    def __init__(
        self,
        store: RunStore,
        *,
        owner: str,
        lease_s: int,
        versions: Callable[[], Mapping[str, str]] = dict,
        states: PersistentStateStore | None = None,
        run_format: int = RUN_FORMAT,
    ) -> None:
        """`versions` are those of the packages in this process: a run is pinned by its first claim.

        `states` stores values for later runs. `run_format`: runs of a newer format are left to newer workers.
        """
        self._format = run_format
        self._store = store
        self._versions = versions
        self._documents = ContextDocuments(
            store.database.client, own_database=store.database.name, find_timeout_s=find_timeout_s(lease_s)
        )
        self._states = states or PersistentStateStore(store.database)
        self._turns = BulkWriter(self._write_turns)
        self._usage = BulkWriter(partial(run_totals_by_id, store.database))
        self._owner = owner
        self._lease_s = lease_s

    async def claim(self, run_id: str) -> Claim | None:
        """Claims the run. Returns None if it has ended, is held, is not due, or has another owner."""
        return await self._claim({"_id": run_id, "state": {"$in": source_states(RunState.RUNNING)}, **_FREE})

    async def claim_first(self, lane: str, *, preferred: str | None = None, urgency: int = 0) -> Claim | None:
        """Claims the next run of this lane.

        A preferred run of the same urgency avoids a race of many workers for the first one.
        """
        waiting = {"state": {"$in": source_states(RunState.RUNNING)}, **_FREE}
        if lane.startswith(ISOLATED_LANE_PREFIX):
            owner = f"{self._owner}/alone-{uuid4().hex[:8]}"  # the owner, and the worker that started its process
            return await self._claim({"lane": lane, **waiting}, sort=LANE_ORDER, alone_as=owner)
        if preferred is not None:
            claim = await self._claim({"_id": preferred, "lane": lane, "priority": {"$gte": urgency}, **waiting})
            if claim is not None:
                return claim
        return await self._claim({"lane": lane, **waiting}, sort=LANE_ORDER)

    async def ready_lanes(self) -> Mapping[str, int]:
        found = await self._store.runs.aggregate(FIRST_OF_EACH, hint="by_lane", batchSize=_MAX_LANES_IN_ONE_ANSWER)
        return {row["_id"]: row["urgency"] async for row in found}

    async def _claim(
        self, claimable: Document, *, sort: Sequence[tuple[str, int]] | None = None, alone_as: str | None = None
    ) -> Claim | None:
        owner = alone_as or self._owner
        taken = {
            **NOT_READY,
            "not_before": None,
            "state": RunState.RUNNING.value,
            "lease": {
                "owner": owner,
                "token": NEXT_TOKEN,
                "until": lease_extension(self._lease_s),
                "alone": "$$REMOVE" if alone_as is None else True,
            },
            "package_version": {"$ifNull": ["$package_version", version_by_workflow(self._versions())]},
            "claimed_at": "$$NOW",
            "started_at": {"$ifNull": ["$started_at", "$$NOW"]},
            "format": {"$max": ["$format", self._format]},
        }
        document = await self._store.runs.find_one_and_update(
            {**claimable, "format": {"$not": {"$gt": self._format}}},  # missing in runs of an older version
            [{"$set": taken}],
            sort=sort,
            hint="by_lane" if sort else None,  # otherwise MongoDB might cache a plan that sorts the backlog
            return_document=ReturnDocument.AFTER,
        )
        if document is None:
            return None
        return Claim(run_id=document["_id"], owner=owner, token=document["lease"]["token"], document=document)

    async def find_claim(self, run_id: str, token: int) -> Claim | None:
        """Returns a claim that another process of this machine made for this one.

        Returns None if the lease is gone already.
        """
        document = await self._store.runs.find_one(
            {"_id": run_id, "lease.token": token, "state": RunState.RUNNING.value}
        )
        return None if document is None else Claim(run_id, document["lease"]["owner"], token, document)

    async def hold(self, claim: Claim, hold: Hold) -> RunState:
        """Requeues a run over a limit, counting neither attempt nor start. Cancels it if requested."""
        never_began = {"$eq": ["$started_at", "$claimed_at"]}
        anew = {name: {"$cond": [never_began, None, f"${name}"]} for name in ("started_at", "package_version")}
        return await self._give_up_run(claim, RunState.QUEUED, {**_hold_fields(hold), **anew})

    async def put_on_hold(self, claim: Claim, hold: Hold, *, reason: str) -> RunState:
        """Holds a run that has begun; it resumes after its last turn.

        Counts no attempt. Cancels the run if that was requested.
        """
        return await self._give_up_run(claim, RunState.QUEUED, {**_hold_fields(hold), **append_history("held", reason)})

    async def renew(self, claim: Claim) -> None:
        """Renews one lease, for a process that is about to take the claim over.

        All other owners renew by their heartbeat.
        """
        await self._write(claim, [{"$set": {"lease.until": lease_extension(self._lease_s)}}])

    async def pin_package(self, claim: Claim, version: str) -> None:
        await self._write(claim, {"$set": {"package_version": version}})

    async def commit_turn(
        self,
        claim: Claim,
        *,
        number: int,
        turn: Mapping[str, Any],
        checkpoint: Mapping[str, Any],
        writes: Sequence[DocumentWrite] = (),
    ) -> None:
        await self._write_turn(claim, number, turn)
        crash_point("turn written")
        # A run that makes progress does not kill its workers: only losses without a turn in between are charged.
        moved = {"$set": {"turn": number, "worker_losses": 0, "losses_alone": 0, **checkpoint}}
        await self._write(claim, moved, extra_query={"turn": number - 1}, writes=writes)

    async def keep_open_turn(self, claim: Claim, *, number: int, turn: Mapping[str, Any]) -> None:
        """Stores the steps of an unfinished turn. The run counts it when the turn is complete."""
        await self._write_turn(claim, number, turn)
        # The turn alone does not reveal a stale owner: the new one may have written nothing yet.
        if await self._store.runs.find_one(owned_query(claim), {"_id": 1}) is None:
            raise LeaseLostError(claim)
        crash_point("open turn kept")

    async def record_answer(self, claim: Claim, answer: Mapping[str, Any]) -> None:
        """Adds the use of a standing answer to the run, once for each question."""
        entry = {"at": "$$NOW", **{name: literal(value) for name, value in answer.items()}}
        answers = {"$concatArrays": [{"$ifNull": ["$answers", []]}, [entry]]}
        unused = {**owned_query(claim), "answers.question.id": {"$ne": answer["question"]["id"]}}
        written = await self._store.runs.update_one(unused, [{"$set": {"answers": answers}}])
        if not written.matched_count and await self._store.runs.find_one(owned_query(claim), {"_id": 1}) is None:
            raise LeaseLostError(claim)

    async def _write_turn(self, claim: Claim, number: int, turn: Mapping[str, Any]) -> None:
        owner = {"run_id": claim.run_id, "app_id": claim.document["app_id"], "number": number, "token": claim.token}
        try:
            await self._turns.submit(ReplaceOne(turn_query(claim, number), {**turn, **owner}, upsert=True))
        except DuplicateKeyError:
            raise LeaseLostError(claim) from None

    async def _write_turns(self, turns: Sequence[ReplaceOne[Document]]) -> Sequence[Exception | None]:
        return await collect_bulk_errors(self._store.turns.bulk_write(turns, ordered=False), len(turns))

    async def finish(
        self,
        claim: Claim,
        state: RunState,
        record: Mapping[str, Any],
        *,
        writes: Sequence[DocumentWrite] = (),
        states: Sequence[PersistentState] = (),
    ) -> RunState:
        """Ends the run. `record` holds its outcome, usage, last context and errors.

        A run that would rest is cancelled instead if a cancellation was requested too late for its owner to notice.
        """
        reason = str((record.get("outcome") or {}).get("reason", ""))
        end = {
            **{name: literal(value) for name, value in record.items()},
            **CLEAR_LEASE,
            **CLEAR_ORDER_HEAD,
            **append_history(state.value, reason),
            "finished_at": "$$NOW",
        }
        if state in AT_REST:
            return await self._give_up_run(claim, state, end)
        await self._write(claim, [{"$set": {**end, "state": state.value}}], to=state, writes=writes, states=states)
        return state

    async def requeue(self, claim: Claim, *, delay: timedelta, counts_as_attempt: bool, reason: str) -> RunState:
        """Requeues the run after a transient failure or on shutdown.

        Cancels it if that was requested.
        """
        due = {"$add": ["$$NOW", int(delay.total_seconds() * 1000)]}
        queued = {
            **CLEAR_LEASE,
            **({"not_before": due} if delay else READY),
            **append_history("retry" if counts_as_attempt else "handed_back", reason),
            "wake_at": due,
            "wakes": 0,
            "attempt": {"$add": ["$attempt", int(counts_as_attempt)]},
            "last_requeue": {"reason": literal(reason), "at": "$$NOW"},
        }
        return await self._give_up_run(claim, RunState.QUEUED, queued)

    async def find(self, run_id: str, *, app_id: str | None = None) -> Document | None:
        return await self._store.find(run_id, app_id=app_id)

    async def find_linked(self, run_ids: Collection[str]) -> Sequence[Document]:
        """Returns the trace and the newest token of each run that exists."""
        found = self._store.runs.find({"_id": {"$in": list(run_ids)}}, {"traceparent": 1, "lease.token": 1})
        return await found.to_list(None)

    async def committed_turns(self, run_id: str, *, up_to: int) -> Sequence[Document]:
        return await self._store.committed_turns(run_id, up_to=up_to)

    async def open_turn(self, run_id: str, *, number: int) -> Document | None:
        return await self._store.open_turn(run_id, number=number)

    async def usage_totals(self, run_id: str) -> UsageTotals:
        return await self._usage.submit(run_id)

    async def _give_up_run(self, claim: Claim, state: RunState, fields: Document) -> RunState:
        """Gives the run up. Cancels it instead if requested, with its usage so far."""
        fields = {**fields, "state": state.value}
        try:
            await self._write(claim, [{"$set": fields}], to=state, extra_query={"cancel_requested": None})
        except LeaseLostError:
            if "usage" not in fields:
                fields["usage"] = literal((await run_totals(self._store.database, claim.run_id)).as_json())
            cancelled = [{"$set": fields}, {"$set": ENDED_IF_CANCELLED}]
            await self._write(claim, cancelled, to=RunState.CANCELLED, extra_query={"cancel_requested": {"$ne": None}})
            return RunState.CANCELLED
        return state

    async def _write(
        self,
        claim: Claim,
        change: Document | list[Document],
        *,
        to: RunState | None = None,
        extra_query: Mapping[str, Any] | None = None,
        writes: Sequence[DocumentWrite] = (),
        states: Sequence[PersistentState] = (),
    ) -> None:
        moved = {} if to is None else {"state": transition_filter(RunState.RUNNING, to)}
        query = {**owned_query(claim), **moved, **(extra_query or {})}

        async def step(session: AsyncClientSession | None = None) -> None:
            if states and session is not None:
                await self._states.write(states, run_id=claim.run_id, session=session)
            written = await self._store.runs.update_one(query, change, session=session)
            if written.matched_count == 0:
                raise LeaseLostError(claim)

        if states:
            await self._states.prepare(states)
        if writes or states:
            await self._documents.write_with(step, writes)
        else:
            await step()
