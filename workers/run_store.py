"""The run store: runs and turns in MongoDB, the truth that messages only point to."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import ASCENDING, DESCENDING, AsyncMongoClient, IndexModel
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError, WTimeoutError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from workers.run import UNFINISHED, Accepted, RunRequest, RunState, new_run_id
from workers.storable import check_storable

Document = dict[str, Any]

_INSERT_TRIES = 50
_INSERT_PAUSE_S = 0.1

RUN_INDEXES = (
    IndexModel([("dedupe_key", ASCENDING)], name="one_run_per_event", unique=True),
    # The reconciler's two questions: whose wake-up is due, whose lease ran out.
    IndexModel([("state", ASCENDING), ("hold", ASCENDING), ("wake_at", ASCENDING)], name="by_wake_up"),
    IndexModel(
        [("lease.until", ASCENDING)], name="by_lease_end", partialFilterExpression={"state": RunState.RUNNING.value}
    ),
    # `overlap: skip` asks whether a trigger's earlier run still goes on.
    IndexModel(
        [("workflow", ASCENDING), ("trigger.name", ASCENDING), ("app_id", ASCENDING), ("state", ASCENDING)],
        name="by_trigger",
    ),
    # `unattended runs list` is newest first, also among runs of one millisecond, and reads no more than it shows.
    IndexModel([("created_at", DESCENDING), ("_id", DESCENDING)], name="by_time"),
    # The same for `--app`: in a large store most of what is newest belongs to others.
    IndexModel([("app_id", ASCENDING), ("created_at", DESCENDING), ("_id", DESCENDING)], name="by_app_and_time"),
)


def connect(url: str, *, database: str) -> AsyncDatabase[Document]:
    """A client bound to the running loop. Majority and journal: an accepted run survives a primary's death."""
    client: AsyncMongoClient[Document] = AsyncMongoClient(
        url,
        tz_aware=True,
        serverSelectionTimeoutMS=5_000,
        connectTimeoutMS=5_000,
        socketTimeoutMS=30_000,
        appname="unattended",
    )
    return client.get_database(
        database,
        write_concern=WriteConcern(w="majority", j=True, wtimeout=10_000),
        read_concern=ReadConcern("majority"),
    )


class RunStore:
    def __init__(self, database: AsyncDatabase[Document], *, republish_after_s: int = 15) -> None:
        self.database = database
        self.runs = database["runs"]
        self.turns = database["turns"]
        self._republish_after = timedelta(seconds=republish_after_s)

    async def ensure_indexes(self) -> None:
        await self.runs.create_indexes(list(RUN_INDEXES))
        await self.turns.create_index([("run_id", ASCENDING), ("number", ASCENDING)], name="by_run")

    async def insert(self, request: RunRequest) -> Accepted:
        """Durable when it returns. A second request for the same event gets the first one's run."""
        document = run_document(request, now=datetime.now(UTC), republish_after=self._republish_after)
        for _ in range(_INSERT_TRIES):
            try:
                await self.runs.insert_one(document)
                return Accepted(document["_id"], created=True)
            except DuplicateKeyError:
                first = await self.runs.find_one({"dedupe_key": request.dedupe_key}, {"_id": 1})
            if first is not None:
                return Accepted(first["_id"], created=False)
            # Removed between the two, or not yet on a majority, and then not to be called accepted.
            await asyncio.sleep(_INSERT_PAUSE_S)
        raise WTimeoutError("the first run of this event is not on a majority yet")

    async def find(self, run_id: str, *, app_id: str | None = None) -> Document | None:
        query: dict[str, Any] = {"_id": run_id}
        if app_id is not None:
            query["app_id"] = app_id
        return await self.runs.find_one(query)

    async def list(
        self, *, app_id: str | None = None, workflow: str | None = None, state: str | None = None, limit: int = 1000
    ) -> Sequence[Document]:
        wanted = {"app_id": app_id, "workflow": workflow, "state": state}
        query = {name: value for name, value in wanted.items() if value is not None}
        newest_first = [("created_at", DESCENDING), ("_id", DESCENDING)]
        # The server's limit: `to_list` alone would stop reading here, after whole batches were read there.
        return await self.runs.find(query).sort(newest_first).limit(limit).to_list(None)

    async def committed_turns(self, run_id: str, *, up_to: int) -> Sequence[Document]:
        """Only turns the run document counts: a turn written by an owner that then lost the run is not one."""
        query = {"run_id": run_id, "number": {"$lte": up_to}}
        return await self.turns.find(query).sort("number", ASCENDING).to_list(None)

    async def has_unfinished(self, *, workflow: str, trigger: str, app_id: str, other_than: str) -> bool:
        query = {
            "workflow": workflow,
            "trigger.name": trigger,
            "app_id": app_id,
            "state": {"$in": [state.value for state in UNFINISHED]},
            "dedupe_key": {"$ne": other_than},
        }
        return await self.runs.find_one(query, {"_id": 1}) is not None


def run_document(request: RunRequest, *, now: datetime, republish_after: timedelta) -> Document:
    run_id = new_run_id()
    check_storable(request.input)
    check_storable(request.message, path="message")
    return {
        "_id": run_id,
        "app_id": request.app_id,
        "user_id": request.user_id,
        "chat_id": request.chat_id or run_id,
        "workflow": request.workflow,
        "package_version": None,
        "trigger": asdict(request.trigger),
        "dedupe_key": request.dedupe_key,
        "correlation_id": request.correlation_id or run_id,
        "parent_run_id": request.parent_run_id,
        "input": dict(request.input),
        "message": request.message,
        "priority": request.priority,
        "state": RunState.QUEUED.value,
        "hold": None,
        "attempt": 1,
        "worker_losses": 0,
        "lease": {"owner": None, "token": 0, "until": None},
        "turn": 0,
        "next_agent": None,
        "context": {},
        "progress": None,
        "errors": [],
        "outcome": None,
        "usage": None,
        "not_before": None,
        # When a wake-up counts as lost. The message itself is sent right after the insert.
        "wake_at": now + republish_after,
        "wakes": 0,
        "created_at": now,
        "started_at": None,
        "finished_at": None,
    }


def as_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """A run as the CLI and the API show it: section 4's names, `run_id` for `_id`."""
    hidden = {"_id", "wake_at", "wakes", "worker_losses", "progress"}
    return {"run_id": document["_id"], **{name: value for name, value in document.items() if name not in hidden}}
