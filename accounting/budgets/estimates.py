"""Estimates of model calls: how much to reserve before a call is made.

The prompt counts one token per three characters, plus the largest excess that similar calls have recently had beyond
that (for tools, or for a language of short words). The answer counts as long as the longest of their recent answers.
Similar calls have the same workflow, agent and model; for an agent with few answers also those of all agents with its
model. The first calls of a model are taken to answer `DEFAULT_ANSWER_TOKENS` tokens. In USD everything has the highest
price that it can have.

Processes share their observations through the store (`SharedEstimates`).
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

log = logging.getLogger(__name__)

CHARACTERS_PER_TOKEN = 3
DEFAULT_ANSWER_TOKENS = 500
MAX_OBSERVATIONS = 50
MIN_OBSERVATIONS = 5  # answers of an agent; with fewer, its next one may well be longer than all of them
MAX_KEYS = 10_000  # in memory; beyond them the least recently used ones are forgotten

ESTIMATES = "budget_estimates"
STORE_TIMEOUT_S = 5.0
MAX_READ = 2_000  # documents at the start, those of the most recent calls
MAX_DOCUMENTS = 10_000
RETENTION = timedelta(days=30)
FLUSH_INTERVAL_S = 10.0
MAX_KEYS_PER_COMMAND = 500

ESTIMATE_INDEXES = (IndexModel([("at", DESCENDING)], name="by_time"),)

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EstimateKey:
    """The calls of an agent with a model; without workflow and agent, all of the model."""

    provider: str
    model: str
    workflow: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """Tokens of one call: the prompt beyond what its characters suggest, and the answer."""

    extra_input_tokens: int
    answer_tokens: int


Observations = deque[Observation]


class Estimates:
    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self._observations: dict[EstimateKey, Observations] = {}
        self._unknown_keys: dict[EstimateKey, None] = {}  # requested, and still to be looked up in the store
        self._looked_up_keys: set[EstimateKey] = set()
        self._unsaved_observations: dict[EstimateKey, Observations] = {}

    def estimate(self, planned: PlannedCall, unit: Unit, *, workflow: str) -> int | None:
        """Estimates a call in tokens or nano-dollars; None in USD if no price is known."""
        similar = self._similar_calls(planned, workflow)
        prompt = _estimate_prompt_tokens(planned) + max((call.extra_input_tokens for call in similar), default=0)
        answer = max((call.answer_tokens for call in similar), default=DEFAULT_ANSWER_TOKENS)
        return self._nano_usd(planned, prompt, answer) if unit == "usd" else max(prompt + answer, 1)

    def observe(self, planned: PlannedCall, call: ModelCall, *, workflow: str) -> None:
        if call.status != "reported":
            return
        observation = Observation(max(call.tokens.input - _estimate_prompt_tokens(planned), 0), call.tokens.output)
        for key in (agent_key(planned, workflow), model_key(planned)):
            self._add_observations(key, [observation])
            _get_or_add(self._unsaved_observations, key).append(observation)

    def add_stored(self, stored: Mapping[EstimateKey, Sequence[Observation]]) -> None:
        """Adds observations of the store before those of this process."""
        for key, observations in stored.items():
            own = self._observations.pop(key, ())
            self._add_observations(key, [*observations, *own])

    def take_unknown(self, limit: int) -> Sequence[EstimateKey]:
        """Takes keys that were requested and not looked up. Each is returned once."""
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
        """Puts back observations that could not be stored, before those made meanwhile."""
        for key, observations in unsaved.items():
            newer = self._unsaved_observations.pop(key, ())
            _get_or_add(self._unsaved_observations, key).extend([*observations, *newer])

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
        self._looked_up_keys.discard(key)  # it is looked up again if it is forgotten
        recent = self._observations.pop(key, None) or deque(maxlen=MAX_OBSERVATIONS)
        _get_or_add(self._observations, key, recent).extend(observations)

    def amount_spent(self, call: ModelCall, unit: Unit) -> int:
        """Returns what a call has spent, as the ledger counts it.

        A call without an answer or without a price costs nothing.
        """
        if unit == "tokens":
            return call.tokens.input + call.tokens.output
        cost = self._prices.cost(call.tokens, provider=call.provider, model=call.model, at=call.started_at)
        return 0 if cost is None or call.status == "missing" else cost

    def _nano_usd(self, planned: PlannedCall, prompt: int, answer: int) -> int | None:
        """Returns the highest price that the call can have.

        The prompt may be read from a cache or written to it, and the answer may be reasoned.
        """
        day = datetime.now(UTC)
        variants = (
            Tokens(prompt, cached_input=cached, cache_write=written, output=answer, reasoning=reasoning)
            for cached, written in ((0, 0), (0, prompt), (prompt, 0))
            for reasoning in (0, answer)
        )
        costs = [
            self._prices.cost(tokens, provider=planned.provider, model=planned.model, at=day) for tokens in variants
        ]
        known = [cost for cost in costs if cost is not None]
        return max(*known, 1) if known else None


def agent_key(planned: PlannedCall, workflow: str) -> EstimateKey:
    return EstimateKey(planned.provider, planned.model, workflow, planned.agent)


def model_key(planned: PlannedCall) -> EstimateKey:
    return EstimateKey(planned.provider, planned.model)


def _get_or_add(
    entries: dict[EstimateKey, Observations], key: EstimateKey, new: Observations | None = None
) -> Observations:
    """Returns the entry of a key, and creates it if there is none.

    Beyond the limit the oldest entry is dropped.
    """
    if key not in entries:
        entries[key] = deque(maxlen=MAX_OBSERVATIONS) if new is None else new
        if len(entries) > MAX_KEYS:
            del entries[next(iter(entries))]
    return entries[key]


def _estimate_prompt_tokens(planned: PlannedCall) -> int:
    return -(-planned.prompt_characters // CHARACTERS_PER_TOKEN)


ObservationsByKey = Mapping[EstimateKey, Sequence[Observation]]


class EstimateStore:
    def __init__(
        self,
        database: AsyncDatabase[Document],
        *,
        timeout_s: float = STORE_TIMEOUT_S,
        max_read: int = MAX_READ,
        max_documents: int = MAX_DOCUMENTS,
    ) -> None:
        self._estimates: AsyncCollection[Document] = database[ESTIMATES]
        self._timeout_s = timeout_s
        self._max_read = max_read
        self._max_documents = max_documents

    async def ensure_indexes(self) -> None:
        await self._estimates.create_indexes(list(ESTIMATE_INDEXES))

    async def read_newest(self) -> ObservationsByKey:
        with pymongo.timeout(self._timeout_s):
            found = self._estimates.find({}).sort("at", DESCENDING).limit(self._max_read)
            return _parse_documents(await found.to_list(None))

    async def read(self, keys: Iterable[EstimateKey]) -> ObservationsByKey:
        with pymongo.timeout(self._timeout_s):
            return _parse_documents(await self._estimates.find({"_id": {"$in": [*map(_id, keys)]}}).to_list(None))

    async def add(self, observations_by_key: ObservationsByKey) -> None:
        """Adds observations in one command.

        Those of other processes stay, as far as they are recent enough.
        """
        with pymongo.timeout(self._timeout_s):
            await self._estimates.bulk_write(
                [_push_update(key, observations) for key, observations in observations_by_key.items()], ordered=False
            )

    async def delete_old(self) -> None:
        """Deletes documents without recent observations, and the oldest beyond a number."""
        milliseconds = int(RETENTION.total_seconds() * 1000)
        is_old = {"$expr": {"$lt": ["$at", {"$subtract": ["$$NOW", milliseconds]}]}}
        await self._estimates.delete_many(is_old, hint="by_time")
        surplus = self._estimates.find({}, {"at": 1}).sort("at", DESCENDING).skip(self._max_documents).limit(1)
        for first in await surplus.to_list(None):
            await self._estimates.delete_many({"at": {"$lte": first["at"]}})


def _push_update(key: EstimateKey, observations: Iterable[Observation]) -> UpdateOne:
    calls = [[call.extra_input_tokens, call.answer_tokens] for call in observations]
    update = {"$push": {"calls": {"$each": calls, "$slice": -MAX_OBSERVATIONS}}, "$currentDate": {"at": True}}
    return UpdateOne({"_id": _id(key)}, update, upsert=True)


def _id(key: EstimateKey) -> Document:
    """Builds the document id.

    MongoDB compares its fields in their order, so the order never changes.
    """
    return {"workflow": key.workflow, "agent": key.agent, "provider": key.provider, "model": key.model}


def _parse_documents(documents: Iterable[Document]) -> ObservationsByKey:
    """Reads documents.

    A newer version may have added values to a call: they are ignored.
    """
    return {
        _key(document["_id"]): [Observation(call[0], call[1]) for call in document["calls"]] for document in documents
    }


def _key(id_: Document) -> EstimateKey:
    return EstimateKey(id_["provider"], id_["model"], id_["workflow"], id_["agent"])


class SharedEstimates:
    def __init__(
        self, store: EstimateStore, estimates: Estimates, *, flush_interval_s: float = FLUSH_INTERVAL_S
    ) -> None:
        self._store = store
        self._flush_interval_s = flush_interval_s
        self._estimates = estimates
        self._lookup_task: asyncio.Task[None] | None = None
        self._flush_task: asyncio.Task[None] | None = None
        self._is_closed = False

    async def load(self) -> None:
        """Loads the observations of other processes. Budgets work without them too."""
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
        """Stores all observations now. After an error they are stored with the next ones."""
        unsaved = self._estimates.take_unsaved(MAX_KEYS_PER_COMMAND)
        if not unsaved:
            return
        try:
            await self._store.add(unsaved)
        except BaseException as error:
            self._estimates.restore_unsaved(unsaved)
            if not isinstance(error, PyMongoError):
                raise
            log.debug("budget_estimates_not_written", extra={"error": type(error).__name__})

    async def close(self) -> None:
        self._is_closed = True
        running = [task for task in (self._lookup_task, self._flush_task) if task is not None and not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        await self.flush()

    async def _look_up(self) -> None:
        while keys := self._estimates.take_unknown(MAX_KEYS_PER_COMMAND):
            try:
                self._estimates.add_stored(await self._store.read(keys))
            except PyMongoError as error:
                log.debug("budget_estimates_not_read", extra={"error": type(error).__name__})

    async def _flush_later(self) -> None:
        while self._estimates.has_unsaved:
            await asyncio.sleep(self._flush_interval_s)
            await self.flush()


def _is_done(task: "asyncio.Task[None] | None") -> bool:
    return task is None or task.done()


def _start_task(work: Coroutine[None, None, None], name: str) -> "asyncio.Task[None]":
    """Starts a task in an empty context: a deadline of one caller must not apply to it."""
    return asyncio.get_running_loop().create_task(work, name=name, context=Context())
