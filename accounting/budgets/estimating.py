"""Estimating: what a model call may take, known before it is made. This much is reserved for it.

What is sent counts a token for three characters, and on top as much as calls of the model have lately taken beyond that
(for tools, or for a language of short words). As answer it counts the longest of the model's last answers. Both are
learned by each process for itself; the first calls of a model are taken to answer `FIRST_ANSWER` tokens.
In USD all of it has the dearest price that it can have.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

from accounting.budgets.asking import PlannedCall
from accounting.budgets.budget import Unit
from accounting.prices import PriceTable
from accounting.usage import ModelCall, Tokens

CHARACTERS_PER_TOKEN = 3
FIRST_ANSWER = 500
LATELY = 50


@dataclass(slots=True)
class _Lately:
    beyond: deque[int] = field(default_factory=lambda: deque(maxlen=LATELY))
    answers: deque[int] = field(default_factory=lambda: deque(maxlen=LATELY))


class Estimates:
    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self._lately: dict[tuple[str, str], _Lately] = {}

    def of(self, planned: PlannedCall, unit: Unit) -> int | None:
        """In USD None, where no price is known."""
        lately = self._lately.get((planned.provider, planned.model), _Lately())
        sent = _tokens_of(planned) + max(lately.beyond, default=0)
        answer = max(lately.answers, default=FIRST_ANSWER)
        return self._nano_usd(planned, sent, answer) if unit == "usd" else max(sent + answer, 1)

    def learn(self, planned: PlannedCall, call: ModelCall) -> None:
        if call.status != "reported":
            return
        lately = self._lately.setdefault((planned.provider, planned.model), _Lately())
        lately.beyond.append(max(call.tokens.input - _tokens_of(planned), 0))
        lately.answers.append(call.tokens.output)

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


def _tokens_of(planned: PlannedCall) -> int:
    return -(-planned.prompt_characters // CHARACTERS_PER_TOKEN)
