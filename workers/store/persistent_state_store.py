"""The store of persistent states: one document for each value, written in the transaction that ends its run."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pymongo import ASCENDING, IndexModel, UpdateOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import BulkWriteError

from workers.store.run_document import Document, literal
from workers.store.storable import as_storable
from workflows.context.reads.persistent_states import APP_WIDE_KEY, PersistentState, StateKey

KEPT_STATES = "kept_states"
STATE_RETENTION = timedelta(days=400)
EMPTY_RETENTION_MS = 24 * 3600 * 1000  # of a document without a value
DUPLICATE_KEY = 11000
INDEXES = (IndexModel([("expires_at", ASCENDING)], name="by_expiry", expireAfterSeconds=0),)


class PersistentStateStore:
    """Stores values of apps, users and chats.

    A value of a user or a chat expires if no run has written it for `keep`; those of an app stay.
    """

    def __init__(self, database: AsyncDatabase[Document], *, keep: timedelta = STATE_RETENTION) -> None:
        self._states = database[KEPT_STATES]
        self._keep_ms = int(keep.total_seconds() * 1000)

    async def ensure_indexes(self) -> None:
        await self._states.create_indexes(list(INDEXES))

    async def read(self, places: Collection[StateKey]) -> Mapping[str, Any]:
        found = self._states.find({"_id": {"$in": [_id(place) for place in places]}}, {"value": 1})
        return {state["_id"]["variable"]: state["value"] for state in await found.to_list(None) if "value" in state}

    async def prepare(self, states: Sequence[PersistentState]) -> None:
        """Inserts missing documents, since an insert in a transaction could conflict with that of another run.

        The documents expire from now on. Otherwise one that expired just before its write would not be found, and one
        without a value, whose run has lost its lease, would stay for ever.
        """
        made = [
            UpdateOne(
                {"_id": _id(state.state_key)}, [{"$set": {"expires_at": self._prepared_expiry(state)}}], upsert=True
            )
            for state in states
        ]
        try:
            await self._states.bulk_write(made, ordered=False)
        except BulkWriteError as error:  # of two concurrent inserts, one finds the document of the other
            if any(failure["code"] != DUPLICATE_KEY for failure in error.details["writeErrors"]):
                raise

    async def write(self, states: Sequence[PersistentState], *, run_id: str, session: AsyncClientSession) -> None:
        await self._states.bulk_write([self._update(state, run_id) for state in states], session=session)

    def _update(self, state: PersistentState, run_id: str) -> UpdateOne:
        value = as_storable({"value": state.value})["value"]
        written = {"value": literal(value), "run_id": run_id, "updated_at": "$$NOW", "expires_at": self._expiry(state)}
        return UpdateOne({"_id": _id(state.state_key)}, [{"$set": written}])

    def _prepared_expiry(self, state: PersistentState) -> Document:
        is_empty = {"$eq": [{"$type": "$value"}, "missing"]}
        return {"$cond": [is_empty, {"$add": ["$$NOW", EMPTY_RETENTION_MS]}, self._expiry(state)]}

    def _expiry(self, state: PersistentState) -> Document | str:
        return "$$REMOVE" if state.state_key.key_name == APP_WIDE_KEY else {"$add": ["$$NOW", self._keep_ms]}


def _id(place: StateKey) -> Document:
    """Builds the id with its fields in this order: MongoDB compares embedded documents by it."""
    return {
        "app_id": place.app_id,
        "workflow": place.workflow,
        "variable": place.variable,
        "key_name": place.key_name,
        "key": place.key,
    }
