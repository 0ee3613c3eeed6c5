"""Prices: USD per million tokens by provider and model, first match wins."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fnmatch import fnmatchcase

from accounting.usage import Tokens


@dataclass(frozen=True, slots=True)
class Price:
    """Per million tokens. `model` is a glob; `since` is the first day it holds."""

    provider: str
    model: str
    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    reasoning: Decimal | None = None
    since: date | None = None

    def applies_to(self, *, provider: str, model: str, day: date) -> bool:
        return (
            fnmatchcase(provider, self.provider)
            and fnmatchcase(model, self.model)
            and (self.since is None or self.since <= day)
        )


def _usd(text: str) -> Decimal:
    return Decimal(text)


# List prices change: a models file overrides them, and a ledger row keeps the price of its day.
BUILT_IN: tuple[Price, ...] = (
    Price("openai*", "gpt-5-nano*", _usd("0.05"), _usd("0.40"), cached_input=_usd("0.005")),
    Price("openai*", "gpt-5-mini*", _usd("0.25"), _usd("2.00"), cached_input=_usd("0.025")),
    Price("openai*", "gpt-5", _usd("1.25"), _usd("10.00"), cached_input=_usd("0.125")),
    Price("openai*", "gpt-5-20*", _usd("1.25"), _usd("10.00"), cached_input=_usd("0.125")),
    Price("openai*", "gpt-4o-mini*", _usd("0.15"), _usd("0.60"), cached_input=_usd("0.075")),
    Price("openai*", "gpt-4o*", _usd("2.50"), _usd("10.00"), cached_input=_usd("1.25")),
)


def cost_nano_usd(tokens: Tokens, price: Price) -> int:
    """Whole nano-dollars, so that sums over millions of rows stay exact. (USD per million = micro-USD each.)"""
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


@dataclass(frozen=True, slots=True)
class PriceTable:
    prices: Sequence[Price] = BUILT_IN

    @staticmethod
    def with_overrides(overrides: Iterable[Price]) -> "PriceTable":
        return PriceTable((*overrides, *BUILT_IN))

    def cost(self, tokens: Tokens, *, provider: str, model: str, at: datetime) -> int | None:
        """Nano-dollars, or None where no price is known: unknown is never shown as free."""
        for price in self.prices:
            if price.applies_to(provider=provider, model=model, day=at.date()):
                return cost_nano_usd(tokens, price)
        return None
