"""Prices: which one applies, and what a call costs to the nano-dollar."""

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import get_args

import pytest
import yaml
from ag2.events import Usage
from hypothesis import given
from hypothesis import strategies as st

from accounting.prices import BUILT_IN_FILE, CallCost, Price, PriceTable, built_in_prices, cost_nano_usd
from accounting.token_normalization import MAX_TOKENS, NORMALIZERS, Normalizer
from accounting.usage import Tokens
from workflows.models_file import HostedModel, ModelSpec, read_models_file

AT = datetime(2026, 12, 1, tzinfo=UTC)
BUILT_IN = built_in_prices().prices
counts = st.integers(min_value=0, max_value=10**12)
amounts = st.decimals(min_value=0, max_value=1_000_000, places=6)
some_amounts = st.none() | amounts
all_prices = st.builds(
    Price, st.just("p"), st.just("m"), amounts, amounts, some_amounts, some_amounts, some_amounts, st.none()
)


@st.composite
def all_tokens(draw: st.DrawFn) -> Tokens:
    """Parts are at most the whole, as normalization guarantees."""
    cached, write, reasoning = draw(counts), draw(counts), draw(counts)
    return Tokens(draw(counts) + cached + write, cached, write, draw(counts) + reasoning, reasoning)


def price(model: str = "m", *, input: str = "1", output: str = "2", **extras: Decimal) -> Price:  # noqa: A002 -- the field's name
    return Price("openai", model, Decimal(input), Decimal(output), **extras)  # type: ignore[arg-type]  # -- the rest of a price, by name


def test_the_first_match_wins() -> None:
    table = PriceTable((price("gpt-*", input="3"), price("gpt-5", input="7")))
    assert table.cost(Tokens(input=1), provider="openai", model="gpt-5", at=AT) == 3_000


def test_a_configured_price_precedes_the_built_in_one_and_names_its_source() -> None:
    million = Tokens(input=1_000_000)
    table = PriceTable([Price("*", "gpt-5-mini*", Decimal(9), Decimal(9))])

    mine = table.price_call(million, provider="openai", model="gpt-5-mini", at=AT)
    theirs = table.price_call(million, provider="openai", model="gpt-5-nano", at=AT)

    assert mine == CallCost(9_000_000_000, "models file")
    assert theirs == CallCost(50_000_000, built_in_prices().name)
    assert PriceTable().cost(million, provider="openai", model="gpt-5-mini", at=AT) == 250_000_000


def test_a_dated_model_matches_its_glob_and_case_counts() -> None:
    table = PriceTable((price("smol-mini*"),))

    assert table.cost(Tokens(input=1), provider="openai", model="smol-mini-2026-01-01", at=AT) == 1_000
    assert table.cost(Tokens(input=1), provider="openai", model="SMOL-mini", at=AT) is None
    assert table.cost(Tokens(input=1), provider="azure", model="smol-mini", at=AT) is None


@pytest.mark.parametrize(
    ("at", "expected"),
    [("2026-02-28T23:59:59+00:00", 1_000), ("2026-03-01T00:00:00+00:00", 5_000)],
)
def test_a_price_holds_from_its_day_on(at: str, expected: int) -> None:
    table = PriceTable(
        (Price("*", "*", Decimal(5), Decimal(5), since=date(2026, 3, 1)), Price("*", "*", Decimal(1), Decimal(1)))
    )
    for day in ("2026-01-01T00:00:00+00:00", at):  # the cache keeps prices by day
        cost = table.cost(Tokens(input=1), provider="p", model="m", at=datetime.fromisoformat(day))
    assert cost == expected


@pytest.mark.parametrize(
    ("tokens", "micro_usd"),
    [
        (Tokens(input=100), 100),
        (Tokens(input=101), 303),
        (Tokens(input=101, cached_input=101, output=1), 313),  # cached tokens count towards the length of the prompt
        (Tokens(input=100, output=1000), 2100),  # the answer does not
        (Tokens(input=1001), 7007),
    ],
)
def test_a_long_prompt_has_the_price_of_its_length_for_all_of_it(tokens: Tokens, micro_usd: int) -> None:
    lengths = [(Decimal(7), 1000), (Decimal(3), 100), (Decimal(1), 0)]
    prices = [Price("*", "*", each, Decimal(10 if above else 2), above_tokens=above) for each, above in lengths]

    assert PriceTable(prices).cost(tokens, provider="p", model="m", at=AT) == micro_usd * 1000


def test_a_price_for_long_prompts_alone_does_not_price_short_ones() -> None:
    table = PriceTable([Price("*", "*", Decimal(3), Decimal(3), above_tokens=100)])

    assert table.price_call(Tokens(input=101), provider="p", model="m", at=AT) == CallCost(303_000, "models file")
    assert table.price_call(Tokens(input=100), provider="p", model="m", at=AT) == CallCost(None, None)
    assert table.table_of(provider="p", model="m", day=AT.date()) is None


def test_an_unknown_price_is_not_free() -> None:
    unknown = PriceTable().price_call(Tokens(input=5), provider="openai", model="nobody-knows", at=AT)

    assert unknown == CallCost(None, None)
    assert PriceTable().table_of(provider="openai", model="nobody-knows", day=AT.date()) is None


def test_cached_and_written_tokens_are_input_and_reasoning_is_output() -> None:
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


@given(all_tokens(), all_prices)
def test_a_cost_is_exact(tokens: Tokens, price: Price) -> None:
    """Compares with fractions, which never round.

    Each token is paid once, at the price of its part.
    """
    parts = [
        (tokens.input - tokens.cached_input - tokens.cache_write, price.input),
        (tokens.cached_input, price.input if price.cached_input is None else price.cached_input),
        (tokens.cache_write, price.input if price.cache_write is None else price.cache_write),
        (tokens.output - tokens.reasoning, price.output),
        (tokens.reasoning, price.output if price.reasoning is None else price.reasoning),
    ]

    assert cost_nano_usd(tokens, price) == round(sum(count * Fraction(each) * 1000 for count, each in parts))


@pytest.mark.parametrize("normalise", NORMALIZERS.values(), ids=NORMALIZERS)
def test_the_most_expensive_possible_call_fits_into_the_store(normalise: Normalizer) -> None:
    most = Decimal(1_000_000)
    dearest = Price("p", "m", most, most, most, most, most)

    assert cost_nano_usd(normalise(Usage(*[MAX_TOKENS] * 6)), dearest) < 2**63


@given(all_tokens(), all_tokens(), all_prices)
def test_more_tokens_never_cost_less(tokens: Tokens, more: Tokens, price: Price) -> None:
    both = Tokens(
        tokens.input + more.input,
        tokens.cached_input + more.cached_input,
        tokens.cache_write + more.cache_write,
        tokens.output + more.output,
        tokens.reasoning + more.reasoning,
    )

    assert 0 <= cost_nano_usd(tokens, price) <= cost_nano_usd(both, price)


def test_the_built_in_table_keeps_to_the_rules_of_the_models_file(tmp_path: Path) -> None:
    table = yaml.safe_load(BUILT_IN_FILE.read_text(encoding="utf-8"))
    entries = [{"provider": provider, **each} for provider, some in table["prices"].items() for each in some]
    file = tmp_path / "models.yaml"
    file.write_text(json.dumps({"models": {}, "prices": entries}, default=str), encoding="utf-8")

    read = read_models_file(file).prices

    assert read.own.prices == BUILT_IN
    assert set(table) == {"version", "prices"}
    assert built_in_prices().name == f"built-in {table['version']:%Y-%m-%d}"


@pytest.mark.parametrize(
    "price", BUILT_IN, ids=lambda each: f"{each.provider} {each.model} {each.since or ''} {each.above_tokens or ''}"
)
def test_each_built_in_price_is_found_and_plausible(price: Price) -> None:
    """No price is hidden behind an earlier one, and no number is in the wrong column."""
    model = re.sub(r"\[(.)[^]]*]", r"\1", price.model).replace("*", "")
    count = price.above_tokens + 1

    found = PriceTable().price_call(
        Tokens(input=count),
        provider=price.provider.rstrip("*"),
        model=model,
        at=datetime.combine(price.since or AT.date(), AT.timetz()),
    )

    assert found.nano_usd == price.input * count * 1000
    assert (price.cached_input or price.input) <= price.input <= price.output
    assert price.cache_write is None or price.cache_write > price.input


@pytest.mark.parametrize("model", ["gemini-3.6-flash", "gemini-3.8-flash"])
def test_a_price_that_will_change_changes_on_its_day(model: str) -> None:
    costs = [
        PriceTable().cost(Tokens(output=1_000_000), provider="gemini", model=model, at=at)
        for at in (datetime(2026, 12, 31, 23, 59, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    ]

    assert costs == [3_750_000_000, 7_500_000_000]


def test_every_provider_of_the_models_file_has_prices() -> None:
    hosted = [spec for spec in get_args(ModelSpec) if issubclass(spec, HostedModel)]
    providers = [get_args(spec.model_fields["provider"].annotation)[0] for spec in hosted]

    known = {provider for provider in providers if any(fnmatchcase(provider, each.provider) for each in BUILT_IN)}

    assert known == set(providers)


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", 3.3),
        ("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", 3.3),
        ("global.anthropic.claude-sonnet-4-5-20250929-v1:0", 3.0),
        ("arn:aws:bedrock:eu-west-1:123456789012:inference-profile/global.anthropic.claude-opus-4-8", 5.0),
        ("global.anthropic.claude-opus-5-5", 4.0),
        ("jp.anthropic.claude-opus-5-5", None),
        ("us.amazon.nova-pro-v1:0", 0.8),
        ("eu.amazon.nova-pro-v1:0", None),
        ("arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abc123", None),
    ],
)
def test_on_bedrock_the_place_of_the_answer_is_part_of_the_price(model: str, usd: float | None) -> None:
    cost = PriceTable().cost(Tokens(input=1_000_000), provider="bedrock", model=model, at=AT)

    assert cost == (None if usd is None else usd * 1e9)
