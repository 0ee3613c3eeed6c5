"""Estimating: what a model call may take, known before it is made. This much is reserved for it.

What is sent counts a token for three characters, and on top as much as calls like it have lately taken beyond that (for
tools, or for a language of short words). As answer it counts the longest of their last answers. Calls like it are those
of the same workflow, agent and model; of an agent that has answered only a few times also those of its model, whoever
made them. The first calls of a model are taken to answer `FIRST_ANSWER` tokens. Processes share what they have learnt
(see `shared_estimates`). In USD all of it has the dearest price that it can have.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from accounting.budgets.asking import PlannedCall
from accounting.budgets.budget import Unit
from accounting.prices import PriceTable
from accounting.usage import ModelCall, Tokens

CHARACTERS_PER_TOKEN = 3
FIRST_ANSWER = 500
LATELY = 50
FEW = 5  # answers of an agent: its next one may be longer than all of them
MAX_KEYS = 10_000  # that are remembered; beyond them those that were used longest ago are forgotten


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

    beyond: int
    answer: int


Observations = deque[Observation]


class Estimates:
    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self._lately: dict[EstimateKey, Observations] = {}
        self._unknown: dict[EstimateKey, None] = {}  # wanted, and to be looked up
        self._looked_up: set[EstimateKey] = set()
        self._unsaved: dict[EstimateKey, Observations] = {}

    def of(self, planned: PlannedCall, unit: Unit, *, workflow: str) -> int | None:
        """In USD None, where no price is known."""
        lately = self._like(planned, workflow)
        sent = _tokens_of(planned) + max((each.beyond for each in lately), default=0)
        answer = max((each.answer for each in lately), default=FIRST_ANSWER)
        return self._nano_usd(planned, sent, answer) if unit == "usd" else max(sent + answer, 1)

    def learn(self, planned: PlannedCall, call: ModelCall, *, workflow: str) -> None:
        if call.status != "reported":
            return
        seen = Observation(max(call.tokens.input - _tokens_of(planned), 0), call.tokens.output)
        for key in (of_agent(planned, workflow), of_model(planned)):
            self._remember(key, [seen])
            _bounded(self._unsaved, key).append(seen)

    def add_stored(self, stored: Mapping[EstimateKey, Sequence[Observation]]) -> None:
        """What processes have learnt until now, behind what this one learns from here on."""
        for key, observations in stored.items():
            own = self._lately.pop(key, ())
            self._remember(key, [*observations, *own])

    def take_unknown(self, most: int) -> Sequence[EstimateKey]:
        """Keys that were wanted and have not been looked up. Each is given once."""
        taken = list(self._unknown)[:most]
        for key in taken:
            del self._unknown[key]
        if len(self._looked_up) > MAX_KEYS:
            self._looked_up.clear()
        self._looked_up.update(taken)
        return taken

    def take_unsaved(self, most: int) -> Mapping[EstimateKey, Sequence[Observation]]:
        taken = list(self._unsaved)[:most]
        return {key: self._unsaved.pop(key) for key in taken}

    def put_back(self, unsaved: Mapping[EstimateKey, Sequence[Observation]]) -> None:
        """Of those that could not be stored: they come before what was learnt meanwhile."""
        for key, observations in unsaved.items():
            since = self._unsaved.pop(key, ())
            _bounded(self._unsaved, key).extend([*observations, *since])

    @property
    def has_unknown(self) -> bool:
        return bool(self._unknown)

    @property
    def has_unsaved(self) -> bool:
        return bool(self._unsaved)

    def _like(self, planned: PlannedCall, workflow: str) -> Sequence[Observation]:
        own = self._known(of_agent(planned, workflow))
        return own if len(own) >= FEW else [*own, *self._known(of_model(planned))]

    def _known(self, key: EstimateKey) -> Sequence[Observation]:
        known = self._lately.get(key)
        if known is None and key not in self._looked_up and len(self._unknown) < MAX_KEYS:
            self._unknown[key] = None
        return known or ()

    def _remember(self, key: EstimateKey, observations: Iterable[Observation]) -> None:
        self._unknown.pop(key, None)
        self._looked_up.discard(key)  # it is looked up again should it be forgotten
        lately = self._lately.pop(key, None) or deque(maxlen=LATELY)
        _bounded(self._lately, key, lately).extend(observations)

    def spent(self, call: ModelCall, unit: Unit) -> int:
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


def of_agent(planned: PlannedCall, workflow: str) -> EstimateKey:
    return EstimateKey(planned.provider, planned.model, workflow, planned.agent)


def of_model(planned: PlannedCall) -> EstimateKey:
    return EstimateKey(planned.provider, planned.model)


def _bounded(
    of_keys: dict[EstimateKey, Observations], key: EstimateKey, new: Observations | None = None
) -> Observations:
    """The entry of this key, made where there is none. When there are too many, the oldest one goes for it."""
    if key not in of_keys:
        of_keys[key] = deque(maxlen=LATELY) if new is None else new
        if len(of_keys) > MAX_KEYS:
            del of_keys[next(iter(of_keys))]
    return of_keys[key]


def _tokens_of(planned: PlannedCall) -> int:
    return -(-planned.prompt_characters // CHARACTERS_PER_TOKEN)
