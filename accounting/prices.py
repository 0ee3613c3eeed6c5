"""Prices: USD per million tokens by provider and model.

Prices of the models file win over built-in ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from accounting.usage import Tokens

BUILT_IN_FILE = Path(__file__).with_name("price_table.yaml")
MODELS_FILE_NAME = "models file"
MAX_CACHED_MODELS = 1_000  # models per day
AMOUNTS = ("input", "output", "cached_input", "cache_write", "reasoning")


@dataclass(frozen=True, slots=True)
class Price:
    """A price per million tokens. `model` is a glob; `since` is its first day.

    With `above_tokens` it applies to calls with more input than that, cached tokens included.
    """

    provider: str
    model: str
    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    reasoning: Decimal | None = None
    since: date | None = None
    above_tokens: int = 0

    def applies_to(self, *, provider: str, model: str, day: date) -> bool:
        return (
            fnmatchcase(provider, self.provider)
            and fnmatchcase(model, self.model)
            and (self.since is None or self.since <= day)
        )


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices in order: the first match wins.

    Ledger rows store `name` as the source of their price.
    """

    name: str
    prices: tuple[Price, ...]


@dataclass(frozen=True, slots=True)
class CallCost:
    """The cost of a call.

    Both fields are None if no price is known: unknown is never shown as free.
    """

    nano_usd: int | None
    table: str | None


def cost_nano_usd(tokens: Tokens, price: Price) -> int:
    """Returns whole nano-dollars, so that sums over millions of rows stay exact.

    (USD per million = micro-USD each.)
    """
    plain_input = tokens.input - tokens.cached_input - tokens.cache_write
    plain_output = tokens.output - tokens.reasoning
    micro_usd = (
        max(plain_input, 0) * price.input
        + tokens.cached_input * (price.input if price.cached_input is None else price.cached_input)
        + tokens.cache_write * (price.input if price.cache_write is None else price.cache_write)
        + max(plain_output, 0) * price.output
        + tokens.reasoning * (price.output if price.reasoning is None else price.reasoning)
    )
    return int((micro_usd * 1000).to_integral_value())


class PriceTable:
    """Looks up prices in `own`, those of a models file, then in the built-in ones.

    The latter are read on first use.
    """

    def __init__(self, own: Iterable[Price] = ()) -> None:
        self.own = PriceList(MODELS_FILE_NAME, tuple(own))
        self._find_cached = lru_cache(MAX_CACHED_MODELS)(self._find)

    def price_call(self, tokens: Tokens, *, provider: str, model: str, at: datetime) -> CallCost:
        for price, table in self._find_cached(provider, model, at.date()):
            if not price.above_tokens or tokens.input > price.above_tokens:
                return CallCost(cost_nano_usd(tokens, price), table)
        return CallCost(None, None)

    def cost(self, tokens: Tokens, *, provider: str, model: str, at: datetime) -> int | None:
        return self.price_call(tokens, provider=provider, model=model, at=at).nano_usd

    def table_of(self, *, provider: str, model: str, day: date) -> str | None:
        """Returns the name of the list that prices a call of ordinary length, or None."""
        return next((table for price, table in self._find_cached(provider, model, day) if not price.above_tokens), None)

    def _find(self, provider: str, model: str, day: date) -> Sequence[tuple[Price, str]]:
        """Lists all prices that apply, up to the first that applies at any length."""
        found: list[tuple[Price, str]] = []
        for table in (self.own, built_in_prices()):
            for price in table.prices:
                if price.applies_to(provider=provider, model=model, day=day):
                    found.append((price, table.name))
                    if not price.above_tokens:
                        return found
        return found


@cache
def built_in_prices() -> PriceList:
    """Loads the built-in prices.

    A models file overrides them, and a ledger row keeps the price of its day.
    """
    import yaml

    # The C loader takes 5 ms instead of 43 ms, for which the first call of a process waits. It is as safe.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    table = yaml.load(BUILT_IN_FILE.read_text(encoding="utf-8"), loader)  # noqa: S506 -- a safe loader, by another name
    prices = (_parse_price(provider, entry) for provider, entries in table["prices"].items() for entry in entries)
    return PriceList(f"built-in {table['version']}", tuple(prices))


def _parse_price(provider: str, entry: Mapping[str, Any]) -> Price:
    amounts = {name: Decimal(str(entry[name])) for name in AMOUNTS if name in entry}
    return Price(
        provider, entry["model"], since=entry.get("from"), above_tokens=entry.get("above_tokens", 0), **amounts
    )
