"""The run store: runs and turns in MongoDB, the truth that messages only point to."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import ASCENDING, DESCENDING, AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError, WTimeoutError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from workers.store.matching import EVERYTHING, Matching
from workers.store.run import UNFINISHED, Accepted, RunRequest
from workers.store.run_document import Document, run_document
from workers.store.run_indexes import RUN_INDEXES, TURN_INDEXES

_INSERT_TRIES = 50
_INSERT_PAUSE_S = 0.1


def connect(url: str, *, database: str) -> AsyncDatabase[Document]:
    """A client bound to the running loop. Majority and journal: an accepted run survives a primary's death.

    Always the primary, whatever the URL prefers: a secondary does not know yet whom somebody has just claimed, and
    transactions are refused there.
    """
    client: AsyncMongoClient[Document] = AsyncMongoClient(
        url,
        tz_aware=True,
        readPreference="primary",
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
        self.republish_after = timedelta(seconds=republish_after_s)

    async def ensure_indexes(self) -> None:
        await self.runs.create_indexes(list(RUN_INDEXES))
        await self.turns.create_indexes(list(TURN_INDEXES))

    async def insert(self, request: RunRequest) -> Accepted:
        """Durable when it returns. A second request for the same event gets the first one's run."""
        document = run_document(request, now=datetime.now(UTC), republish_after=self.republish_after)
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
        self, matching: Matching = EVERYTHING, *, limit: int = 1000, only: Sequence[str] | None = None
    ) -> Sequence[Document]:
        """Newest first. `only`: the fields that are wanted; a whole run may be megabytes."""
        newest_first = [("created_at", DESCENDING), ("_id", DESCENDING)]
        found = self.runs.find(matching.query(), None if only is None else dict.fromkeys(only, 1)).sort(newest_first)
        # The server's limit: `to_list` alone would stop reading here, after whole batches were read there.
        return await found.limit(limit).to_list(None)

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
