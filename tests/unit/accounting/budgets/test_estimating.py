"""Estimating: what is reserved for a call, before and after calls of its model were seen."""

from datetime import UTC, datetime
from decimal import Decimal

from accounting.budgets.asking import PlannedCall
from accounting.budgets.estimating import FIRST_ANSWER, LATELY, Estimates
from accounting.prices import Price, PriceTable
from accounting.usage import ModelCall, Tokens, UsageStatus

NOW = datetime(2026, 3, 2, tzinfo=UTC)
CHEAP = Price("p", "cheap", Decimal(1), Decimal(2))
TRICKY = Price("p", "tricky", Decimal(1), Decimal(2), Decimal("0.1"), cache_write=Decimal(4), reasoning=Decimal(10))
PRICES = PriceTable([CHEAP, TRICKY])


def planned(characters: int, model: str = "cheap") -> PlannedCall:
    return PlannedCall(1, "Writer", "p", model, prompt_characters=characters)


def answered(tokens: Tokens, *, model: str = "cheap", status: UsageStatus = "reported") -> ModelCall:
    return ModelCall(1, "Writer", "p", model, tokens, status, ok=True, started_at=NOW, duration_s=1.0)


def test_an_unknown_model_is_taken_to_answer_at_some_length() -> None:
    estimates = Estimates(PRICES)

    assert estimates.of(planned(300), "tokens") == 100 + FIRST_ANSWER
    assert estimates.of(planned(0), "tokens") == FIRST_ANSWER


def test_the_longest_of_the_last_answers_counts_and_what_was_sent_beyond_the_prompt() -> None:
    estimates = Estimates(PRICES)
    estimates.learn(planned(300), answered(Tokens(input=150, output=20)))
    estimates.learn(planned(300), answered(Tokens(input=90, output=10)))

    assert estimates.of(planned(600), "tokens") == 200 + 50 + 20
    assert estimates.of(planned(600, "other"), "tokens") == 200 + FIRST_ANSWER


def test_what_was_long_ago_is_forgotten() -> None:
    estimates = Estimates(PRICES)
    estimates.learn(planned(0), answered(Tokens(output=10_000)))
    for _ in range(LATELY):
        estimates.learn(planned(0), answered(Tokens(output=5)))

    assert estimates.of(planned(0), "tokens") == 5


def test_a_call_without_an_answer_teaches_nothing() -> None:
    estimates = Estimates(PRICES)
    estimates.learn(planned(300), answered(Tokens(), status="missing"))

    assert estimates.of(planned(0), "tokens") == FIRST_ANSWER


def test_something_is_always_reserved() -> None:
    estimates = Estimates(PRICES)
    estimates.learn(planned(0), answered(Tokens()))

    assert estimates.of(planned(0), "tokens") == 1
    assert estimates.of(planned(0), "usd") == 1


def test_in_usd_everything_has_its_dearest_price() -> None:
    estimates = Estimates(PRICES)

    assert estimates.of(planned(300), "usd") == 100 * 1_000 + FIRST_ANSWER * 2_000
    assert estimates.of(planned(300, "tricky"), "usd") == 100 * 4_000 + FIRST_ANSWER * 10_000


def test_a_long_prompt_has_the_price_of_its_length_for_the_answer_too() -> None:
    above = Price("p", "cheap", Decimal(5), Decimal(9), above_tokens=100)
    estimates = Estimates(PriceTable([above, CHEAP]))

    assert estimates.of(planned(300), "usd") == 100 * 1_000 + FIRST_ANSWER * 2_000
    assert estimates.of(planned(303), "usd") == 101 * 5_000 + FIRST_ANSWER * 9_000


def test_without_a_price_nothing_can_be_said_in_usd() -> None:
    assert Estimates(PRICES).of(planned(300, "nobody-knows"), "usd") is None
    assert Estimates(PRICES).of(planned(300, "nobody-knows"), "tokens") is not None


def test_what_is_spent_is_what_the_ledgers_row_says() -> None:
    estimates, tokens = Estimates(PRICES), Tokens(input=10, output=5)

    assert estimates.spent(answered(tokens), "tokens") == 15
    assert estimates.spent(answered(tokens), "usd") == 10 * 1_000 + 5 * 2_000
    assert estimates.spent(answered(tokens, status="estimated"), "usd") == 20_000
    assert estimates.spent(answered(Tokens(), status="missing"), "usd") == 0
    assert estimates.spent(answered(tokens, model="nobody-knows"), "usd") == 0
