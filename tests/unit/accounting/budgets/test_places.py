"""Places: which budgets a run must find room in, and which document each window has."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from accounting.budgets.budget import checked_budget
from accounting.budgets.places import Applying, Place, applying
from accounting.budgets.store import KeptBudget
from accounting.budgets.telling import spent_in_words

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
LONG_AGO = NOON - timedelta(days=30)


def kept(since: datetime = LONG_AGO, **changes: Any) -> KeptBudget:
    budget = checked_budget(**{"app_id": "acme", "window": "day", "unit": "tokens", "limit": 10, **changes})
    return KeptBudget(budget, since, since, since, "ada")


def names(found: tuple[Applying, ...]) -> list[tuple[str, str | None, bool]]:
    return [(each.budget.id, each.app_id, each.enforced) for each in found]


def test_all_that_match_apply_in_one_order_and_others_do_not() -> None:
    everyone = [
        kept(app_id=None, workflow="Digest"),
        kept(workflow="Digest", window="hour"),
        kept(app_id="globex"),
        kept(app_id="*", window="month"),
        kept(workflow="Other"),
        kept(),
    ]

    expected = [
        ("app:*/month/tokens", "acme", True),
        ("app:acme/day/tokens", "acme", True),
        ("app:acme/workflow:Digest/hour/tokens", "acme", True),
        ("workflow:Digest/day/tokens", None, True),
    ]
    assert names(applying(everyone, "acme", "Digest")) == expected
    assert names(applying(everyone[::-1], "acme", "Digest")) == expected


def test_an_apps_own_budget_goes_before_the_one_for_each_app() -> None:
    each, own, other_unit = kept(app_id="*"), kept(limit=99), kept(app_id="*", unit="usd")

    assert names(applying([each, own, other_unit], "acme", "Digest")) == [
        ("app:*/day/tokens", "acme", False),
        ("app:*/day/usd", "acme", True),
        ("app:acme/day/tokens", "acme", True),
    ]
    assert names(applying([each, own], "globex", "Digest")) == [("app:*/day/tokens", "globex", True)]


def test_a_soft_budget_stops_nothing_and_is_heard_of() -> None:
    [soft] = applying([kept(soft=True)], "acme", "Digest")
    [replaced, _] = applying([kept(app_id="*"), kept()], "acme", "Digest")

    assert (soft.limit, soft.place(NOON).alerts) == (None, True)
    assert (replaced.limit, replaced.place(NOON).alerts) == (None, False)


def test_no_two_windows_share_a_document() -> None:
    one = applying([kept()], "acme", "Digest")[0].place(NOON)
    ids = [
        one.id,
        applying([kept()], "acme", "Digest")[0].place(NOON + timedelta(days=1)).id,
        applying([kept(since=LONG_AGO + timedelta(hours=1))], "acme", "Digest")[0].place(NOON).id,
        applying([kept(app_id="*")], "acme", "Digest")[0].place(NOON).id,
        applying([kept(app_id="*")], "globex", "Digest")[0].place(NOON).id,
        applying([kept(app_id="*")], "ac me", "Digest")[0].place(NOON).id,
        applying([kept(unit="usd")], "acme", "Digest")[0].place(NOON).id,
        applying([kept(window="hour")], "acme", "Digest")[0].place(NOON).id,
        applying([kept(workflow="Digest")], "acme", "Digest")[0].place(NOON).id,
    ]

    assert len(set(ids)) == len(ids)
    assert one.id == applying([kept(limit=99, note="raised")], "acme", "Other")[0].place(NOON).id


def test_only_a_window_that_began_before_its_budget_has_something_spent_before() -> None:
    old = applying([kept()], "acme", "Digest")[0].place(NOON)
    young = applying([kept(since=NOON)], "acme", "Digest")[0].place(NOON)
    total = applying([kept(window="total")], "acme", "Digest")[0].place(NOON)

    assert [each.spent_before for each in (old, young, total)] == [False, True, True]


def test_a_window_is_over_from_its_end_on() -> None:
    day: Place = applying([kept()], "acme", "Digest")[0].place(NOON)
    assert day.span.end is not None

    assert not day.is_over(day.span.end - timedelta(microseconds=1))
    assert day.is_over(day.span.end)
    assert not replace(day, span=replace(day.span, end=None)).is_over(NOON + timedelta(days=9999))


def test_a_run_says_what_its_app_has_spent_and_of_a_budget_that_apps_share_not_what_they_have() -> None:
    budgets = [kept(app_id="*", window="month"), kept(), kept(app_id=None, workflow="Digest")]

    said = [spent_in_words(each.place(NOON), 12_345) for each in applying(budgets, "acme", "Digest")]

    assert [sentence.partition(", until")[0] for sentence in said] == [
        "the budget app:*/month/tokens is spent for acme: 12,345 tokens of 10 tokens",
        "the budget app:acme/day/tokens is spent: 12,345 tokens of 10 tokens",
        "the budget workflow:Digest/day/tokens is spent: all of 10 tokens",
    ]
