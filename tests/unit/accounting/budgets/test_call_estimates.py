"""Estimates: what is reserved for a call before and after calls of its model."""

from datetime import UTC, datetime
from decimal import Decimal

from accounting.budgets.budget import Unit
from accounting.budgets.estimates import (
    DEFAULT_ANSWER_TOKENS,
    MAX_KEYS,
    MAX_OBSERVATIONS,
    MIN_OBSERVATIONS,
    EstimateKey,
    Estimates,
    Observation,
)
from accounting.budgets.reservation_types import PlannedCall
from accounting.prices import Price, PriceTable
from accounting.usage import ModelCall, Tokens, UsageStatus

NOW = datetime(2026, 3, 2, tzinfo=UTC)
CHEAP = Price("p", "cheap", Decimal(1), Decimal(2))
TRICKY = Price("p", "tricky", Decimal(1), Decimal(2), Decimal("0.1"), cache_write=Decimal(4), reasoning=Decimal(10))
PRICES = PriceTable([CHEAP, TRICKY])


def planned_call(characters: int, model: str = "cheap", agent: str = "Writer") -> PlannedCall:
    return PlannedCall(1, agent, "p", model, prompt_characters=characters)


def answered_call(tokens: Tokens, *, model: str = "cheap", status: UsageStatus = "reported") -> ModelCall:
    return ModelCall(1, "Writer", "p", model, tokens, status, ok=True, started_at=NOW, duration_s=1.0)


def estimate(estimates: Estimates, call: PlannedCall, unit: Unit, workflow: str = "Digest") -> int | None:
    return estimates.estimate(call, unit, workflow=workflow)


def learn(estimates: Estimates, call: PlannedCall, answer: ModelCall, workflow: str = "Digest") -> None:
    estimates.observe(call, answer, workflow=workflow)


def test_an_unknown_model_is_taken_to_answer_at_some_length() -> None:
    estimates = Estimates(PRICES)

    assert estimate(estimates, planned_call(300), "tokens") == 100 + DEFAULT_ANSWER_TOKENS
    assert estimate(estimates, planned_call(0), "tokens") == DEFAULT_ANSWER_TOKENS


def test_an_estimate_takes_the_longest_recent_answer_and_extra_input() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned_call(300), answered_call(Tokens(input=150, output=20)))
    learn(estimates, planned_call(300), answered_call(Tokens(input=90, output=10)))

    assert estimate(estimates, planned_call(600), "tokens") == 200 + 50 + 20
    assert estimate(estimates, planned_call(600, "other"), "tokens") == 200 + DEFAULT_ANSWER_TOKENS


def test_what_was_long_ago_is_forgotten() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned_call(0), answered_call(Tokens(output=10_000)))
    for _ in range(MAX_OBSERVATIONS):
        learn(estimates, planned_call(0), answered_call(Tokens(output=5)))

    assert estimate(estimates, planned_call(0), "tokens") == 5


def test_a_call_without_an_answer_teaches_nothing() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned_call(300), answered_call(Tokens(), status="missing"))

    assert estimate(estimates, planned_call(0), "tokens") == DEFAULT_ANSWER_TOKENS


def test_something_is_always_reserved() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned_call(0), answered_call(Tokens()))

    assert estimate(estimates, planned_call(0), "tokens") == 1
    assert estimate(estimates, planned_call(0), "usd") == 1


def test_in_usd_everything_has_its_dearest_price() -> None:
    estimates = Estimates(PRICES)

    assert estimate(estimates, planned_call(300), "usd") == 100 * 1_000 + DEFAULT_ANSWER_TOKENS * 2_000
    assert estimate(estimates, planned_call(300, "tricky"), "usd") == 100 * 4_000 + DEFAULT_ANSWER_TOKENS * 10_000


def test_a_long_prompt_has_the_price_of_its_length_for_the_answer_too() -> None:
    above = Price("p", "cheap", Decimal(5), Decimal(9), above_tokens=100)
    estimates = Estimates(PriceTable([above, CHEAP]))

    assert estimate(estimates, planned_call(300), "usd") == 100 * 1_000 + DEFAULT_ANSWER_TOKENS * 2_000
    assert estimate(estimates, planned_call(303), "usd") == 101 * 5_000 + DEFAULT_ANSWER_TOKENS * 9_000


def test_without_a_price_there_is_no_estimate_in_usd() -> None:
    assert estimate(Estimates(PRICES), planned_call(300, "nobody-knows"), "usd") is None
    assert estimate(Estimates(PRICES), planned_call(300, "nobody-knows"), "tokens") is not None


def test_the_spending_is_what_the_ledgers_row_shows() -> None:
    estimates, tokens = Estimates(PRICES), Tokens(input=10, output=5)

    assert estimates.amount_spent(answered_call(tokens), "tokens") == 15
    assert estimates.amount_spent(answered_call(tokens), "usd") == 10 * 1_000 + 5 * 2_000
    assert estimates.amount_spent(answered_call(tokens, status="estimated"), "usd") == 20_000
    assert estimates.amount_spent(answered_call(Tokens(), status="missing"), "usd") == 0
    assert estimates.amount_spent(answered_call(tokens, model="nobody-knows"), "usd") == 0


def test_an_agent_is_estimated_by_its_own_calls_after_a_few() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned_call(0, agent="Essayist"), answered_call(Tokens(output=4_000)))
    learned = []
    for _ in range(MIN_OBSERVATIONS):
        learned.append(estimate(estimates, planned_call(0), "tokens"))
        learn(estimates, planned_call(0), answered_call(Tokens(output=5)))

    assert learned == [4_000] * MIN_OBSERVATIONS  # until then the agent may answer as long as others with its model
    assert estimate(estimates, planned_call(0), "tokens") == 5
    assert estimate(estimates, planned_call(0), "tokens", "Other") == 4_000
    assert estimate(estimates, planned_call(0, agent="Editor"), "tokens") == 4_000


AGENT, MODEL = EstimateKey("p", "cheap", "Digest", "Writer"), EstimateKey("p", "cheap")


def test_learnt_values_are_given_once_to_store_and_return_if_not_stored() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned_call(30), answered_call(Tokens(input=25, output=7)))

    unsaved = estimates.take_unsaved(10)
    assert not estimates.has_unsaved
    learn(estimates, planned_call(30), answered_call(Tokens(input=10, output=8)))
    estimates.restore_unsaved(unsaved)

    seen = [Observation(15, 7), Observation(0, 8)]
    assert {key: list(each) for key, each in estimates.take_unsaved(10).items()} == {AGENT: seen, MODEL: seen}


def test_what_is_stored_is_known_behind_what_this_process_learns() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned_call(0), answered_call(Tokens(output=5)))
    estimates.add_stored({AGENT: [Observation(0, 900)] * MAX_OBSERVATIONS})

    assert estimate(estimates, planned_call(0), "tokens") == 900
    for _ in range(MAX_OBSERVATIONS - 1):
        learn(estimates, planned_call(0), answered_call(Tokens(output=5)))
    assert estimate(estimates, planned_call(0), "tokens") == 5


def test_an_unknown_key_is_to_be_looked_up_once() -> None:
    estimates = Estimates(PRICES)
    for _ in range(3):
        estimate(estimates, planned_call(0), "tokens")

    assert set(estimates.take_unknown(10)) == {AGENT, MODEL}
    estimate(estimates, planned_call(0), "tokens")
    assert not estimates.has_unknown


def test_what_is_remembered_is_bounded() -> None:
    estimates = Estimates(PRICES)
    for number in range(MAX_KEYS + 10):
        learn(estimates, planned_call(0, agent=f"A{number}"), answered_call(Tokens(output=5)))
        estimate(estimates, planned_call(0, agent=f"B{number}"), "tokens")

    sizes = [len(each) for each in (estimates._observations, estimates._unsaved_observations, estimates._unknown_keys)]
    assert max(sizes) <= MAX_KEYS
    assert estimate(estimates, planned_call(0, agent="New"), "tokens") == 5
    estimates.take_unknown(3 * MAX_KEYS)
    assert len(estimates._looked_up_keys) <= MAX_KEYS
