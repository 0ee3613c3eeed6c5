"""Estimating: what a model call may take, known before it is made. This much is reserved for it.

What is sent counts a token for three characters, and on top as much as calls like it have lately taken beyond that (for
tools, or for a language of short words). As answer it counts the longest of their last answers. Calls like it are those
of the same workflow, agent and model; of an agent that has answered only a few times also those of its model, whoever
made them. The first calls of a model are taken to answer `FIRST_ANSWER` tokens. Processes share what they have learnt
(see `shared_estimates`). In USD all of it has the dearest price that it can have.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pymongo
from pymongo import DESCENDING, IndexModel, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError

from accounting.budgets.budget import Unit
from accounting.budgets.reservation_types import PlannedCall
from accounting.prices import PriceTable
from accounting.usage import ModelCall, Tokens

CHARACTERS_PER_TOKEN = 3
DEFAULT_ANSWER_TOKENS = 500
MAX_OBSERVATIONS = 50
MIN_OBSERVATIONS = 5  # answers of an agent: its next one may be longer than all of them
MAX_KEYS = 10_000  # that are remembered; beyond them those that were used longest ago are forgotten

ESTIMATES = "budget_estimates"
STORE_WITHIN_S = 5.0
MAX_READ = 2_000  # documents at a start; those of what was called last
MAX_KEPT = 10_000  # documents
RETENTION = timedelta(days=30)

ESTIMATE_INDEXES = (IndexModel([("at", DESCENDING)], name="by_time"),)

Document = dict[str, Any]

log = logging.getLogger(__name__)

WRITE_EVERY_S = 10.0
MAX_KEYS_PER_COMMAND = 500  # keys in one command


@dataclass(frozen=True, slots=True)
class EstimateKey:
    """An agent's calls of a model, or all calls of it, where workflow and agent are empty."""

    provider: str
    model: str
    workflow: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """Tokens of one call: what was sent beyond what its characters say, and what was answered."""

    extra_input_tokens: int
    answer_tokens: int


Observations = deque[Observation]


class Estimates:
    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self._observations: dict[EstimateKey, Observations] = {}
        self._unknown_keys: dict[EstimateKey, None] = {}  # wanted, and to be looked up
        self._looked_up_keys: set[EstimateKey] = set()
        self._unsaved_observations: dict[EstimateKey, Observations] = {}

    def estimate(self, planned: PlannedCall, unit: Unit, *, workflow: str) -> int | None:
        """In USD None, where no price is known."""
        lately = self._similar_calls(planned, workflow)
        sent = _estimate_prompt_tokens(planned) + max((each.extra_input_tokens for each in lately), default=0)
        answer = max((each.answer_tokens for each in lately), default=DEFAULT_ANSWER_TOKENS)
        return self._nano_usd(planned, sent, answer) if unit == "usd" else max(sent + answer, 1)

    def observe(self, planned: PlannedCall, call: ModelCall, *, workflow: str) -> None:
        if call.status != "reported":
            return
        seen = Observation(max(call.tokens.input - _estimate_prompt_tokens(planned), 0), call.tokens.output)
        for key in (agent_key(planned, workflow), model_key(planned)):
            self._add_observations(key, [seen])
            _get_or_add(self._unsaved_observations, key).append(seen)

    def add_stored(self, stored: Mapping[EstimateKey, Sequence[Observation]]) -> None:
        """What processes have learnt until now, behind what this one learns from here on."""
        for key, observations in stored.items():
            own = self._observations.pop(key, ())
            self._add_observations(key, [*observations, *own])

    def take_unknown(self, limit: int) -> Sequence[EstimateKey]:
        """Keys that were wanted and have not been looked up. Each is given once."""
        taken = list(self._unknown_keys)[:limit]
        for key in taken:
            del self._unknown_keys[key]
        if len(self._looked_up_keys) > MAX_KEYS:
            self._looked_up_keys.clear()
        self._looked_up_keys.update(taken)
        return taken

    def take_unsaved(self, limit: int) -> Mapping[EstimateKey, Sequence[Observation]]:
        taken = list(self._unsaved_observations)[:limit]
        return {key: self._unsaved_observations.pop(key) for key in taken}

    def restore_unsaved(self, unsaved: Mapping[EstimateKey, Sequence[Observation]]) -> None:
        """Of those that could not be stored: they come before what was learnt meanwhile."""
        for key, observations in unsaved.items():
            since = self._unsaved_observations.pop(key, ())
            _get_or_add(self._unsaved_observations, key).extend([*observations, *since])

    @property
    def has_unknown(self) -> bool:
        return bool(self._unknown_keys)

    @property
    def has_unsaved(self) -> bool:
        return bool(self._unsaved_observations)

    def _similar_calls(self, planned: PlannedCall, workflow: str) -> Sequence[Observation]:
        own = self._find_observations(agent_key(planned, workflow))
        return own if len(own) >= MIN_OBSERVATIONS else [*own, *self._find_observations(model_key(planned))]

    def _find_observations(self, key: EstimateKey) -> Sequence[Observation]:
        known = self._observations.get(key)
        if known is None and key not in self._looked_up_keys and len(self._unknown_keys) < MAX_KEYS:
            self._unknown_keys[key] = None
        return known or ()

    def _add_observations(self, key: EstimateKey, observations: Iterable[Observation]) -> None:
        self._unknown_keys.pop(key, None)
        self._looked_up_keys.discard(key)  # it is looked up again should it be forgotten
        lately = self._observations.pop(key, None) or deque(maxlen=MAX_OBSERVATIONS)
        _get_or_add(self._observations, key, lately).extend(observations)

    def amount_spent(self, call: ModelCall, unit: Unit) -> int:
        """As the ledger's row says it: a call without an answer costs nothing, nor does one without a price."""
        if unit == "tokens":
            return call.tokens.input + call.tokens.output
        cost = self._prices.cost(call.tokens, provider=call.provider, model=call.model, at=call.started_at)
        return 0 if cost is None or call.status == "missing" else cost

    def _nano_usd(self, planned: PlannedCall, sent: int, answer: int) -> int | None:
        """What is sent may be read from a cache or written to it, an answer reasoned."""
        day = datetime.now(UTC)
        alike = (
            Tokens(sent, cached_input=cached, cache_write=written, output=answer, reasoning=reasoning)
            for cached, written in ((0, 0), (0, sent), (sent, 0))
            for reasoning in (0, answer)
        )
        costs = [self._prices.cost(each, provider=planned.provider, model=planned.model, at=day) for each in alike]
        known = [cost for cost in costs if cost is not None]
        return max(*known, 1) if known else None


def agent_key(planned: PlannedCall, workflow: str) -> EstimateKey:
    return EstimateKey(planned.provider, planned.model, workflow, planned.agent)


def model_key(planned: PlannedCall) -> EstimateKey:
    return EstimateKey(planned.provider, planned.model)


def _get_or_add(
    entries: dict[EstimateKey, Observations], key: EstimateKey, new: Observations | None = None
) -> Observations:
    """The entry of this key, made where there is none. When there are too many, the oldest one goes for it."""
    if key not in entries:
        entries[key] = deque(maxlen=MAX_OBSERVATIONS) if new is None else new
        if len(entries) > MAX_KEYS:
            del entries[next(iter(entries))]
    return entries[key]


def _estimate_prompt_tokens(planned: PlannedCall) -> int:
    return -(-planned.prompt_characters // CHARACTERS_PER_TOKEN)


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
            await self._estimates.bulk_write(
                [_push_update(key, each) for key, each in observations_by_key.items()], ordered=False
            )

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


class SharedEstimates:
    def __init__(self, store: EstimateStore, estimates: Estimates) -> None:
        self._store = store
        self._estimates = estimates
        self._lookup_task: asyncio.Task[None] | None = None
        self._flush_task: asyncio.Task[None] | None = None
        self._is_closed = False

    async def load(self) -> None:
        """Budgets work without it, as in a process that knows nothing yet."""
        try:
            self._estimates.add_stored(await self._store.read_newest())
        except PyMongoError as error:
            log.warning("budget_estimates_not_read", extra={"error": type(error).__name__})

    def look_up_unknown(self) -> None:
        if self._estimates.has_unknown and _is_done(self._lookup_task) and not self._is_closed:
            self._lookup_task = _start_task(self._look_up(), "budget estimates, lookup")

    def schedule_flush(self) -> None:
        if self._estimates.has_unsaved and _is_done(self._flush_task) and not self._is_closed:
            self._flush_task = _start_task(self._flush_later(), "budget estimates, writing")

    async def flush(self) -> None:
        """At once. What cannot be written now is tried again with what is learnt next."""
        learnt = self._estimates.take_unsaved(MAX_KEYS_PER_COMMAND)
        if not learnt:
            return
        try:
            await self._store.add(learnt)
        except BaseException as error:
            self._estimates.restore_unsaved(learnt)
            if not isinstance(error, PyMongoError):
                raise
            log.debug("budget_estimates_not_written", extra={"error": type(error).__name__})

    async def close(self) -> None:
        self._is_closed = True
        under_way = [task for task in (self._lookup_task, self._flush_task) if task is not None and not task.done()]
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)
        await self.flush()

    async def _look_up(self) -> None:
        while keys := self._estimates.take_unknown(MAX_KEYS_PER_COMMAND):
            try:
                self._estimates.add_stored(await self._store.read(keys))
            except PyMongoError as error:
                log.debug("budget_estimates_not_read", extra={"error": type(error).__name__})

    async def _flush_later(self) -> None:
        while self._estimates.has_unsaved:
            await asyncio.sleep(WRITE_EVERY_S)
            await self.flush()


def _is_done(task: "asyncio.Task[None] | None") -> bool:
    return task is None or task.done()


def _start_task(work: Coroutine[None, None, None], name: str) -> "asyncio.Task[None]":
    """In no caller's context: a deadline of one would be that of all."""
    return asyncio.get_running_loop().create_task(work, name=name, context=Context())
