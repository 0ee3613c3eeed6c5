"""The run store: runs and turns in MongoDB, the source of truth. Messages only point to it."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from bson import decode_all
from pymongo import ASCENDING, DESCENDING, AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConfigurationError, DuplicateKeyError, OperationFailure, WTimeoutError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from accounting.infra.aio import gather_all
from workers.store.debounce import Debounce, with_debounce
from workers.store.run import Accepted, RunRequest, RunState, run_id_at
from workers.store.run_document import Document, run_document
from workers.store.run_filter import EVERYTHING, RunFilter
from workers.store.run_indexes import OBSOLETE_RUN_INDEXES, RUN_INDEXES, TURN_INDEXES
from workers.store.run_inserts import RunInserts
from workers.store.run_order import RunOrder
from workers.store.storable import NotStorableError

_MAX_INSERT_TRIES = 50
_INSERT_PAUSE_S = 0.1
_TURNS_PER_BATCH = 20  # read at once; a turn may have megabytes
_BY_TRIGGER = "by_trigger_and_state"
FAILURES = (RunState.FAILED, RunState.PARKED)
# No such index; or a process of an older version is building it, and our next start drops it.
_GONE_OR_BUSY = frozenset({27, 12587})


def connect(url: str, *, database: str) -> AsyncDatabase[Document]:
    """Opens a client bound to the running loop, with majority and journal writes.

    An accepted run survives the death of the primary. Reads use the primary, whatever the URL prefers: a secondary may
    not have the newest claim, and refuses transactions.
    """
    try:
        client: AsyncMongoClient[Document] = AsyncMongoClient(
            url,
            tz_aware=True,
            readPreference="primary",
            serverSelectionTimeoutMS=5_000,
            connectTimeoutMS=5_000,
            socketTimeoutMS=30_000,
            appname="unattended",
        )
    except ValueError as error:  # of a port; the driver raises its own error for other mistakes
        raise ConfigurationError(str(error)) from None
    return client.get_database(
        database,
        write_concern=WriteConcern(w="majority", j=True, wtimeout=10_000),
        read_concern=ReadConcern("majority"),
    )


# The steps of an open turn may be megabytes, and are not needed for a counted one.
WITHOUT_STEPS = dict.fromkeys(("steps", "refreshed", "handoffs"), 0)


class RunStore:
    def __init__(self, database: AsyncDatabase[Document], *, republish_after_s: int = 15) -> None:
        self.database = database
        self.runs = database["runs"]
        self.turns = database["turns"]
        self.republish_after = timedelta(seconds=republish_after_s)
        self.order = RunOrder(self.runs, republish_after_ms=republish_after_s * 1000)
        self._inserts = RunInserts(self.runs, self.order)
        self._debounce = Debounce(self.runs, self._inserts)

    async def ensure_indexes(self) -> None:
        await self.runs.create_indexes(list(RUN_INDEXES))
        await self.turns.create_indexes(list(TURN_INDEXES))
        for name in OBSOLETE_RUN_INDEXES:
            try:
                await self.runs.drop_index(name)
            except OperationFailure as error:
                if error.code not in _GONE_OR_BUSY:
                    raise

    async def insert(self, request: RunRequest) -> Accepted:
        """Inserts a run durably. A second request for the same event gets the first run."""
        run = run_document(request, now=datetime.now(UTC), republish_after=self.republish_after)
        for _ in range(_MAX_INSERT_TRIES):
            try:
                return Accepted(run["_id"], created=True, ready=await self._inserts.insert(run))
            except DuplicateKeyError:
                first = await self.runs.find_one({"dedupe_key": request.dedupe_key}, {"_id": 1})
            if first is not None:
                # Our own run, if the driver repeated a command whose response was lost.
                return Accepted(first["_id"], created=first["_id"] == run["_id"])
            # Deleted in between, or not yet on a majority, so it may not be called accepted.
            await asyncio.sleep(_INSERT_PAUSE_S)
        raise WTimeoutError("the first run of this event is not on a majority yet")

    async def insert_all(self, requests: Sequence[RunRequest]) -> Sequence[Accepted | NotStorableError]:
        """Inserts several runs in one command.

        A bad request does not affect the others.
        """
        now = datetime.now(UTC)
        answers: dict[int, Accepted | NotStorableError] = {}
        runs: dict[int, Document] = {}
        for place, request in enumerate(requests):
            try:
                runs[place] = run_document(request, now=now, republish_after=self.republish_after)
            except NotStorableError as error:
                answers[place] = error
        inserted = dict(zip(runs, await self._inserts.insert_all(list(runs.values())), strict=True))
        refused = [place for place, ready in inserted.items() if isinstance(ready, DuplicateKeyError)]
        first = await self._first_runs([requests[place].dedupe_key for place in refused])
        again: list[int] = []
        for place, ready in inserted.items():
            run = runs[place]
            if not isinstance(ready, Exception):
                answers[place] = Accepted(run["_id"], created=True, ready=ready)
            elif not isinstance(ready, DuplicateKeyError):
                raise ready
            elif (known := first.get(run["dedupe_key"])) is not None:
                answers[place] = Accepted(known, created=known == run["_id"])
            else:  # another run took its turn, or the first run of its event is on no majority yet
                again.append(place)
        # The retries share a command, which places the first of an order key before the others.
        answers.update(zip(again, await gather_all(self.insert(requests[place]) for place in again), strict=True))
        return [answers[place] for place in range(len(requests))]

    async def _first_runs(self, dedupe_keys: Sequence[str]) -> Mapping[str, str]:
        if not dedupe_keys:
            return {}
        found = self.runs.find({"dedupe_key": {"$in": list(dedupe_keys)}}, {"dedupe_key": 1})
        return {run["dedupe_key"]: run["_id"] async for run in found}

    async def insert_debounced(
        self, request: RunRequest, *, key: str, quiet: timedelta, max_delay: timedelta
    ) -> Accepted:
        """Inserts a run that starts when no event with this key has come for a while, or after `max_delay`.

        Events until then are merged into it, and its input is that of the newest.
        """
        run = run_document(request, now=datetime.now(UTC), republish_after=self.republish_after)
        run = with_debounce(run, app_id=request.app_id, key=key)
        return await self._debounce.insert(run, quiet=quiet, max_delay=max_delay)

    async def find(self, run_id: str, *, app_id: str | None = None) -> Document | None:
        query: dict[str, Any] = {"_id": run_id}
        if app_id is not None:
            query["app_id"] = app_id
        return await self.runs.find_one(query)

    async def list(
        self, run_filter: RunFilter = EVERYTHING, *, limit: int = 1000, only: Sequence[str] | None = None
    ) -> Sequence[Document]:
        """Lists runs, newest first. `only`: the fields to read, since a whole run may be megabytes."""
        newest_first = [("created_at", DESCENDING), ("_id", DESCENDING)]
        found = self.runs.find(run_filter.query(), None if only is None else dict.fromkeys(only, 1)).sort(newest_first)
        # A limit on the server: `to_list` alone would still read whole batches there.
        return await found.limit(limit).to_list(None)

    async def committed_turns(self, run_id: str, *, up_to: int) -> Sequence[Document]:
        """Reads the counted turns.

        A turn whose owner then lost the run does not count.
        """
        query = {"run_id": run_id, "number": {"$lte": up_to}}
        return await self.turns.find(query, WITHOUT_STEPS).sort("number", ASCENDING).to_list(None)

    async def open_turn(self, run_id: str, *, number: int) -> Document | None:
        """Reads the steps of a turn that rests with a question and is not counted yet."""
        return await self.turns.find_one({"_id": f"{run_id}:{number}", "steps": {"$exists": True}})

    async def first_turns(self, run_id: str, *, up_to: int, max_bytes: int) -> Sequence[Document]:
        """Reads counted turns up to a total of bytes."""
        query, found, size = {"run_id": run_id, "number": {"$lte": up_to}}, list[Document](), 0
        async with self.turns.find_raw_batches(query, WITHOUT_STEPS, batch_size=_TURNS_PER_BATCH).sort(
            "number", ASCENDING
        ) as batches:
            async for raw in batches:
                batch = cast(bytes, raw)  # PyMongo's types declare documents here
                found += decode_all(batch, self.turns.codec_options)
                size += len(batch)
                if size > max_bytes:
                    break
        return found

    async def newest_turns(self, *, limit: int = 1000) -> Sequence[Document]:
        """Reads turns of all runs, without events, in the order of writing."""
        found = self.turns.find({}, {"events": 0, **WITHOUT_STEPS}).sort("$natural", DESCENDING).limit(limit)
        return [*reversed(await found.to_list(None))]

    async def count_recent_failures(
        self, workflow: str, trigger: str, app_id: str, *, up_to: int, since: datetime | None = None
    ) -> int:
        """Counts failed and parked runs since the last success, among the newest `up_to` runs.

        Cancelled and waiting runs are skipped. `since`: only runs that were accepted later.
        """
        query = _of_trigger(workflow, trigger, app_id, (*FAILURES, RunState.SUCCEEDED))
        if since is not None:
            query["_id"] = {"$gt": run_id_at(since)}
        found = self.runs.find(query, {"state": 1}, hint=_BY_TRIGGER).sort("_id", DESCENDING).limit(up_to)
        newest = [run["state"] async for run in found]
        return newest.index(RunState.SUCCEEDED.value) if RunState.SUCCEEDED.value in newest else len(newest)


def _of_trigger(workflow: str, trigger: str, app_id: str, states: Iterable[RunState]) -> Document:
    in_state = {"$in": sorted(state.value for state in states)}
    return {"workflow": workflow, "trigger.name": trigger, "app_id": app_id, "state": in_state}
