"""The store of kept states: one document for each value, written in the transaction that ends its run."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import ASCENDING, IndexModel, UpdateOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import BulkWriteError

from workers.store.run_document import Document, literal
from workers.store.storable import as_storable
from workflows.context.kept_states import NO_KEY, KeptState, StatePlace

KEPT_STATES = "kept_states"
KEPT = timedelta(days=400)
KEPT_EMPTY = timedelta(days=1)  # a document without a value
DUPLICATE_KEY = 11000
INDEXES = (IndexModel([("expires_at", ASCENDING)], name="by_expiry", expireAfterSeconds=0),)


class KeptStates:
    """A value of a user or a chat is dropped when no run has written it for `keep`; those of an app stay."""

    def __init__(self, database: AsyncDatabase[Document], *, keep: timedelta = KEPT) -> None:
        self._states = database[KEPT_STATES]
        self._keep_ms = int(keep.total_seconds() * 1000)

    async def ensure_indexes(self) -> None:
        await self._states.create_indexes(list(INDEXES))

    async def read(self, places: Collection[StatePlace]) -> Mapping[str, Any]:
        found = self._states.find({"_id": {"$in": [_id(place) for place in places]}}, {"value": 1})
        return {state["_id"]["variable"]: state["value"] for state in await found.to_list(None) if "value" in state}

    async def prepare(self, states: Sequence[KeptState]) -> None:
        """Makes the documents, since an insertion in a transaction could fail on one that another run just made. Those
        that are not written after all are dropped."""
        empty = {"$setOnInsert": {"run_id": None, "expires_at": datetime.now(UTC) + KEPT_EMPTY}}
        made = [UpdateOne({"_id": _id(each.place)}, empty, upsert=True) for each in states]
        try:
            await self._states.bulk_write(made, ordered=False)
        except BulkWriteError as error:  # of two that insert at once, one finds the other's
            if any(each["code"] != DUPLICATE_KEY for each in error.details["writeErrors"]):
                raise

    async def write(self, states: Sequence[KeptState], *, run_id: str, session: AsyncClientSession) -> None:
        await self._states.bulk_write([self._update(each, run_id) for each in states], session=session)

    def _update(self, state: KeptState, run_id: str) -> UpdateOne:
        value = as_storable({"value": state.value})["value"]
        expires = "$$REMOVE" if state.place.key_name == NO_KEY else {"$add": ["$$NOW", self._keep_ms]}
        written = {"value": literal(value), "run_id": run_id, "updated_at": "$$NOW", "expires_at": expires}
        return UpdateOne({"_id": _id(state.place)}, [{"$set": written}])


def _id(place: StatePlace) -> Document:
    """Fields in this order: MongoDB compares embedded documents by it."""
    return {
        "app_id": place.app_id,
        "workflow": place.workflow,
        "variable": place.variable,
        "key_name": place.key_name,
        "key": place.key,
    }
