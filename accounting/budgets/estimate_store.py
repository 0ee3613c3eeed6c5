"""The store of estimates: collection `budget_estimates`, one document for each workflow, agent and model, and one for
each model alone. It has the last calls of all processes, at most `LATELY`, each as [beyond, answer] in tokens.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pymongo
from pymongo import DESCENDING, IndexModel, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.estimating import MAX_OBSERVATIONS, EstimateKey, Observation

ESTIMATES = "budget_estimates"
STORE_WITHIN_S = 5.0
MAX_READ = 2_000  # documents at a start; those of what was called last
MAX_KEPT = 10_000  # documents
RETENTION = timedelta(days=30)

ESTIMATE_INDEXES = (IndexModel([("at", DESCENDING)], name="by_time"),)

Document = dict[str, Any]
ObservationsByKey = Mapping[EstimateKey, Sequence[Observation]]


class EstimateStore:
    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._estimates: AsyncCollection[Document] = database[ESTIMATES]

    async def ensure_indexes(self) -> None:
        await self._estimates.create_indexes(list(ESTIMATE_INDEXES))

    async def read_newest(self) -> ObservationsByKey:
        with pymongo.timeout(STORE_WITHIN_S):
            found = self._estimates.find({}).sort("at", DESCENDING).limit(MAX_READ)
            return _parse_documents(await found.to_list(None))

    async def read(self, keys: Iterable[EstimateKey]) -> ObservationsByKey:
        with pymongo.timeout(STORE_WITHIN_S):
            return _parse_documents(await self._estimates.find({"_id": {"$in": [*map(_id, keys)]}}).to_list(None))

    async def add(self, observations_by_key: ObservationsByKey) -> None:
        """In one command; what other processes have added stays, as far as it is among the last ones."""
        with pymongo.timeout(STORE_WITHIN_S):
            await self._estimates.bulk_write([_push_update(key, each) for key, each in observations_by_key.items()], ordered=False)

    async def delete_old(self) -> None:
        """What nothing was learnt about for long, and beyond a number what was called longest ago."""
        milliseconds = int(RETENTION.total_seconds() * 1000)
        is_old = {"$expr": {"$lt": ["$at", {"$subtract": ["$$NOW", milliseconds]}]}}
        await self._estimates.delete_many(is_old, hint="by_time")
        beyond = self._estimates.find({}, {"at": 1}).sort("at", DESCENDING).skip(MAX_KEPT).limit(1)
        for first in await beyond.to_list(None):
            await self._estimates.delete_many({"at": {"$lte": first["at"]}})


def _push_update(key: EstimateKey, observations: Iterable[Observation]) -> UpdateOne:
    calls = [[each.extra_input_tokens, each.answer_tokens] for each in observations]
    update = {"$push": {"calls": {"$each": calls, "$slice": -MAX_OBSERVATIONS}}, "$currentDate": {"at": True}}
    return UpdateOne({"_id": _id(key)}, update, upsert=True)


def _id(key: EstimateKey) -> Document:
    """Its fields have an order: a document is found by the same one."""
    return {"workflow": key.workflow, "agent": key.agent, "provider": key.provider, "model": key.model}


def _parse_documents(documents: Iterable[Document]) -> ObservationsByKey:
    """A newer version may have put more into a document than this one knows."""
    return {
        _key(document["_id"]): [Observation(call[0], call[1]) for call in document["calls"]] for document in documents
    }


def _key(id_: Document) -> EstimateKey:
    return EstimateKey(id_["provider"], id_["model"], id_["workflow"], id_["agent"])
