"""Estimating: what is reserved for a call, before and after calls of its model were seen."""

from datetime import UTC, datetime
from decimal import Decimal

from accounting.budgets.asking import PlannedCall
from accounting.budgets.budget import Unit
from accounting.budgets.estimating import FEW, FIRST_ANSWER, LATELY, MAX_KEYS, EstimateKey, Estimates, Observation
from accounting.prices import Price, PriceTable
from accounting.usage import ModelCall, Tokens, UsageStatus

NOW = datetime(2026, 3, 2, tzinfo=UTC)
CHEAP = Price("p", "cheap", Decimal(1), Decimal(2))
TRICKY = Price("p", "tricky", Decimal(1), Decimal(2), Decimal("0.1"), cache_write=Decimal(4), reasoning=Decimal(10))
PRICES = PriceTable([CHEAP, TRICKY])


def planned(characters: int, model: str = "cheap", agent: str = "Writer") -> PlannedCall:
    return PlannedCall(1, agent, "p", model, prompt_characters=characters)


def answered(tokens: Tokens, *, model: str = "cheap", status: UsageStatus = "reported") -> ModelCall:
    return ModelCall(1, "Writer", "p", model, tokens, status, ok=True, started_at=NOW, duration_s=1.0)


def of(estimates: Estimates, call: PlannedCall, unit: Unit, workflow: str = "Digest") -> int | None:
    return estimates.of(call, unit, workflow=workflow)


def learn(estimates: Estimates, call: PlannedCall, answer: ModelCall, workflow: str = "Digest") -> None:
    estimates.learn(call, answer, workflow=workflow)


def test_an_unknown_model_is_taken_to_answer_at_some_length() -> None:
    estimates = Estimates(PRICES)

    assert of(estimates, planned(300), "tokens") == 100 + FIRST_ANSWER
    assert of(estimates, planned(0), "tokens") == FIRST_ANSWER


def test_the_longest_of_the_last_answers_counts_and_what_was_sent_beyond_the_prompt() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned(300), answered(Tokens(input=150, output=20)))
    learn(estimates, planned(300), answered(Tokens(input=90, output=10)))

    assert of(estimates, planned(600), "tokens") == 200 + 50 + 20
    assert of(estimates, planned(600, "other"), "tokens") == 200 + FIRST_ANSWER


def test_what_was_long_ago_is_forgotten() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned(0), answered(Tokens(output=10_000)))
    for _ in range(LATELY):
        learn(estimates, planned(0), answered(Tokens(output=5)))

    assert of(estimates, planned(0), "tokens") == 5


def test_a_call_without_an_answer_teaches_nothing() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned(300), answered(Tokens(), status="missing"))

    assert of(estimates, planned(0), "tokens") == FIRST_ANSWER


def test_something_is_always_reserved() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned(0), answered(Tokens()))

    assert of(estimates, planned(0), "tokens") == 1
    assert of(estimates, planned(0), "usd") == 1


def test_in_usd_everything_has_its_dearest_price() -> None:
    estimates = Estimates(PRICES)

    assert of(estimates, planned(300), "usd") == 100 * 1_000 + FIRST_ANSWER * 2_000
    assert of(estimates, planned(300, "tricky"), "usd") == 100 * 4_000 + FIRST_ANSWER * 10_000


def test_a_long_prompt_has_the_price_of_its_length_for_the_answer_too() -> None:
    above = Price("p", "cheap", Decimal(5), Decimal(9), above_tokens=100)
    estimates = Estimates(PriceTable([above, CHEAP]))

    assert of(estimates, planned(300), "usd") == 100 * 1_000 + FIRST_ANSWER * 2_000
    assert of(estimates, planned(303), "usd") == 101 * 5_000 + FIRST_ANSWER * 9_000


def test_without_a_price_nothing_can_be_said_in_usd() -> None:
    assert of(Estimates(PRICES), planned(300, "nobody-knows"), "usd") is None
    assert of(Estimates(PRICES), planned(300, "nobody-knows"), "tokens") is not None


def test_what_is_spent_is_what_the_ledgers_row_says() -> None:
    estimates, tokens = Estimates(PRICES), Tokens(input=10, output=5)

    assert estimates.spent(answered(tokens), "tokens") == 15
    assert estimates.spent(answered(tokens), "usd") == 10 * 1_000 + 5 * 2_000
    assert estimates.spent(answered(tokens, status="estimated"), "usd") == 20_000
    assert estimates.spent(answered(Tokens(), status="missing"), "usd") == 0
    assert estimates.spent(answered(tokens, model="nobody-knows"), "usd") == 0


def test_an_agent_of_a_workflow_is_known_by_its_own_calls_once_it_has_made_a_few() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned(0, agent="Essayist"), answered(Tokens(output=4_000)))
    learned = []
    for _ in range(FEW):
        learned.append(of(estimates, planned(0), "tokens"))
        learn(estimates, planned(0), answered(Tokens(output=5)))

    assert learned == [4_000] * FEW  # until then it may answer as long as others of its model do
    assert of(estimates, planned(0), "tokens") == 5
    assert of(estimates, planned(0), "tokens", "Other") == 4_000
    assert of(estimates, planned(0, agent="Editor"), "tokens") == 4_000


AGENT, MODEL = EstimateKey("p", "cheap", "Digest", "Writer"), EstimateKey("p", "cheap")


def test_what_is_learnt_is_given_once_to_be_stored_and_comes_back_when_it_was_not() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned(30), answered(Tokens(input=25, output=7)))

    unsaved = estimates.take_unsaved(10)
    assert not estimates.has_unsaved
    learn(estimates, planned(30), answered(Tokens(input=10, output=8)))
    estimates.put_back(unsaved)

    seen = [Observation(15, 7), Observation(0, 8)]
    assert {key: list(each) for key, each in estimates.take_unsaved(10).items()} == {AGENT: seen, MODEL: seen}


def test_what_is_stored_is_known_behind_what_this_process_learns() -> None:
    estimates = Estimates(PRICES)
    learn(estimates, planned(0), answered(Tokens(output=5)))
    estimates.add_stored({AGENT: [Observation(0, 900)] * LATELY})

    assert of(estimates, planned(0), "tokens") == 900
    for _ in range(LATELY - 1):
        learn(estimates, planned(0), answered(Tokens(output=5)))
    assert of(estimates, planned(0), "tokens") == 5


def test_an_unknown_key_is_to_be_looked_up_once() -> None:
    estimates = Estimates(PRICES)
    for _ in range(3):
        of(estimates, planned(0), "tokens")

    assert set(estimates.take_unknown(10)) == {AGENT, MODEL}
    of(estimates, planned(0), "tokens")
    assert not estimates.has_unknown


def test_what_is_remembered_is_bounded() -> None:
    estimates = Estimates(PRICES)
    for number in range(MAX_KEYS + 10):
        learn(estimates, planned(0, agent=f"A{number}"), answered(Tokens(output=5)))
        of(estimates, planned(0, agent=f"B{number}"), "tokens")

    sizes = [len(each) for each in (estimates._lately, estimates._unsaved, estimates._unknown)]
    assert max(sizes) <= MAX_KEYS
    assert of(estimates, planned(0, agent="New"), "tokens") == 5
    estimates.take_unknown(3 * MAX_KEYS)
    assert len(estimates._looked_up) <= MAX_KEYS
