"""Effective budgets: those of a run, and the document of each window."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from accounting.budgets.budget import parse_budget
from accounting.budgets.budget_alerts import describe_spent
from accounting.budgets.budget_store import StoredBudget
from accounting.budgets.effective_budgets import BudgetWindow, EffectiveBudget, effective_budgets

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
LONG_AGO = NOON - timedelta(days=30)


def stored_budget(since: datetime = LONG_AGO, **changes: Any) -> StoredBudget:
    budget = parse_budget(**{"app_id": "acme", "window": "day", "unit": "tokens", "limit": 10, **changes})
    return StoredBudget(budget, since, since, since, "ada")


def names(effective: tuple[EffectiveBudget, ...]) -> list[tuple[str, str | None, bool]]:
    return [(each.budget.id, each.app_id, each.is_enforced) for each in effective]


def test_all_that_match_apply_in_one_order_and_others_do_not() -> None:
    everyone = [
        stored_budget(app_id=None, workflow="Digest"),
        stored_budget(workflow="Digest", window="hour"),
        stored_budget(app_id="globex"),
        stored_budget(app_id="*", window="month"),
        stored_budget(workflow="Other"),
        stored_budget(),
    ]

    expected = [
        ("app:*/month/tokens", "acme", True),
        ("app:acme/day/tokens", "acme", True),
        ("app:acme/workflow:Digest/hour/tokens", "acme", True),
        ("workflow:Digest/day/tokens", None, True),
    ]
    assert names(effective_budgets(everyone, "acme", "Digest")) == expected
    assert names(effective_budgets(everyone[::-1], "acme", "Digest")) == expected


def test_an_apps_own_budget_goes_before_the_one_for_each_app() -> None:
    each, own, other_unit = stored_budget(app_id="*"), stored_budget(limit=99), stored_budget(app_id="*", unit="usd")

    assert names(effective_budgets([each, own, other_unit], "acme", "Digest")) == [
        ("app:*/day/tokens", "acme", False),
        ("app:*/day/usd", "acme", True),
        ("app:acme/day/tokens", "acme", True),
    ]
    assert names(effective_budgets([each, own], "globex", "Digest")) == [("app:*/day/tokens", "globex", True)]


def test_a_soft_budget_stops_nothing_and_is_reported() -> None:
    [soft] = effective_budgets([stored_budget(soft=True)], "acme", "Digest")
    [replaced, _] = effective_budgets([stored_budget(app_id="*"), stored_budget()], "acme", "Digest")

    assert (soft.limit, soft.window_at(NOON).has_alerts) == (None, True)
    assert (replaced.limit, replaced.window_at(NOON).has_alerts) == (None, False)


def test_no_two_windows_share_a_document() -> None:
    one = effective_budgets([stored_budget()], "acme", "Digest")[0].window_at(NOON)
    ids = [
        one.id,
        effective_budgets([stored_budget()], "acme", "Digest")[0].window_at(NOON + timedelta(days=1)).id,
        effective_budgets([stored_budget(since=LONG_AGO + timedelta(hours=1))], "acme", "Digest")[0].window_at(NOON).id,
        effective_budgets([stored_budget(app_id="*")], "acme", "Digest")[0].window_at(NOON).id,
        effective_budgets([stored_budget(app_id="*")], "globex", "Digest")[0].window_at(NOON).id,
        effective_budgets([stored_budget(app_id="*")], "ac me", "Digest")[0].window_at(NOON).id,
        effective_budgets([stored_budget(unit="usd")], "acme", "Digest")[0].window_at(NOON).id,
        effective_budgets([stored_budget(window="hour")], "acme", "Digest")[0].window_at(NOON).id,
        effective_budgets([stored_budget(workflow="Digest")], "acme", "Digest")[0].window_at(NOON).id,
    ]

    assert len(set(ids)) == len(ids)
    assert one.id == effective_budgets([stored_budget(limit=99, note="raised")], "acme", "Other")[0].window_at(NOON).id


def test_only_a_window_older_than_its_budget_has_earlier_spending() -> None:
    old = effective_budgets([stored_budget()], "acme", "Digest")[0].window_at(NOON)
    young = effective_budgets([stored_budget(since=NOON)], "acme", "Digest")[0].window_at(NOON)
    total = effective_budgets([stored_budget(window="total")], "acme", "Digest")[0].window_at(NOON)

    assert [window.has_earlier_spending for window in (old, young, total)] == [False, True, True]


def test_a_window_is_over_from_its_end_on() -> None:
    day: BudgetWindow = effective_budgets([stored_budget()], "acme", "Digest")[0].window_at(NOON)
    assert day.span.end is not None

    assert not day.is_over(day.span.end - timedelta(microseconds=1))
    assert day.is_over(day.span.end)
    assert not replace(day, span=replace(day.span, end=None)).is_over(NOON + timedelta(days=9999))


def test_a_run_sees_its_apps_spending_and_not_that_of_a_shared_budget() -> None:
    budgets = [
        stored_budget(app_id="*", window="month"),
        stored_budget(),
        stored_budget(app_id=None, workflow="Digest"),
    ]

    sentences = [
        describe_spent(budget.window_at(NOON), 12_345) for budget in effective_budgets(budgets, "acme", "Digest")
    ]

    assert [sentence.partition(", until")[0] for sentence in sentences] == [
        "the budget app:*/month/tokens is spent for acme: 12,345 tokens of 10 tokens",
        "the budget app:acme/day/tokens is spent: 12,345 tokens of 10 tokens",
        "the budget workflow:Digest/day/tokens is spent: all of 10 tokens",
    ]
