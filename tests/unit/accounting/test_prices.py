"""Prices: which one applies, and what a call costs to the nano-dollar."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.prices import Price, PriceTable, cost_nano_usd
from accounting.usage import Tokens

AT = datetime(2026, 3, 1, tzinfo=UTC)
counts = st.integers(min_value=0, max_value=10**9)


def price(model: str = "m", *, input: str = "1", output: str = "2", **given: Decimal) -> Price:  # noqa: A002 -- the field's name
    return Price("openai", model, Decimal(input), Decimal(output), **given)  # type: ignore[arg-type]  # -- the rest of a price, by name


def test_the_first_match_wins() -> None:
    table = PriceTable((price("gpt-*", input="3"), price("gpt-5", input="7")))
    assert table.cost(Tokens(input=1), provider="openai", model="gpt-5", at=AT) == 3_000


def test_an_override_comes_before_the_built_in_price() -> None:
    plain = PriceTable().cost(Tokens(input=1_000_000), provider="openai", model="gpt-5-mini", at=AT)
    table = PriceTable.with_overrides([Price("*", "gpt-5-mini*", Decimal(9), Decimal(9))])

    assert plain == 250_000_000
    assert table.cost(Tokens(input=1_000_000), provider="openai", model="gpt-5-mini", at=AT) == 9_000_000_000


def test_a_dated_model_matches_its_glob_and_case_counts() -> None:
    table = PriceTable((price("gpt-5-mini*"),))

    assert table.cost(Tokens(input=1), provider="openai", model="gpt-5-mini-2026-01-01", at=AT) == 1_000
    assert table.cost(Tokens(input=1), provider="openai", model="GPT-5-mini", at=AT) is None
    assert table.cost(Tokens(input=1), provider="azure", model="gpt-5-mini", at=AT) is None


@pytest.mark.parametrize(
    ("at", "expected"),
    [("2026-02-28T23:59:59+00:00", 1_000), ("2026-03-01T00:00:00+00:00", 5_000)],
)
def test_a_price_holds_from_its_day_on(at: str, expected: int) -> None:
    table = PriceTable(
        (Price("*", "*", Decimal(5), Decimal(5), since=date(2026, 3, 1)), Price("*", "*", Decimal(1), Decimal(1)))
    )
    assert table.cost(Tokens(input=1), provider="p", model="m", at=datetime.fromisoformat(at)) == expected


def test_an_unknown_price_is_not_free() -> None:
    assert PriceTable(()).cost(Tokens(input=5), provider="openai", model="m", at=AT) is None


def test_cached_and_written_tokens_are_part_of_the_input_and_reasoning_of_the_output() -> None:
    full = price(input="10", output="100", cached_input=Decimal(1), cache_write=Decimal(20), reasoning=Decimal(7))
    tokens = Tokens(input=100, cached_input=60, cache_write=30, output=50, reasoning=20)

    micro_usd = 10 * 10 + 60 * 1 + 30 * 20 + 30 * 100 + 20 * 7
    assert cost_nano_usd(tokens, full) == micro_usd * 1000


def test_without_prices_of_their_own_the_parts_cost_what_the_whole_costs() -> None:
    tokens = Tokens(input=100, cached_input=60, cache_write=30, output=50, reasoning=50)
    assert cost_nano_usd(tokens, price()) == cost_nano_usd(Tokens(input=100, output=50), price())


@pytest.mark.parametrize(("usd_per_million", "expected"), [("0.0005", 0), ("0.001", 1), ("0.0015", 2), ("0.0004", 0)])
def test_a_cost_is_a_whole_number_of_nano_dollars(usd_per_million: str, expected: int) -> None:
    assert cost_nano_usd(Tokens(input=1), price(input=usd_per_million)) == expected


@given(counts, counts, counts, counts, counts)
def test_no_token_is_paid_twice(input_: int, cached: int, write: int, output: int, reasoning: int) -> None:
    """The parts are at most the whole, so with one price for all nothing costs more than the sum of the wholes."""
    cached, write = min(cached, input_), min(write, max(input_ - cached, 0))
    tokens = Tokens(input_, cached, write, output, min(reasoning, output))
    flat = price(
        input="0.25", output="2", cached_input=Decimal("0.25"), cache_write=Decimal("0.25"), reasoning=Decimal(2)
    )

    assert cost_nano_usd(tokens, flat) == input_ * 250 + output * 2000
