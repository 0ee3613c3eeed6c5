"""Budgets: their identity, invalid values, and the error of each field."""

from typing import Any

import pytest

from accounting.budgets.budget import InvalidBudgetError, format_amount, parse_budget

ONE: dict[str, Any] = {"app_id": "acme", "window": "day", "unit": "usd", "limit": 10}


def validation_problems(**changes: Any) -> dict[str, str]:
    with pytest.raises(InvalidBudgetError) as raised:
        parse_budget(**{**ONE, **changes})
    return raised.value.problems


@pytest.mark.parametrize(
    ("changes", "id_"),
    [
        ({}, "app:acme/day/usd"),
        ({"app_id": "*", "window": "month", "unit": "tokens"}, "app:*/month/tokens"),
        ({"app_id": None, "workflow": "Digest", "window": "hour"}, "workflow:Digest/hour/usd"),
        ({"workflow": "Digest", "window": "total"}, "app:acme/workflow:Digest/total/usd"),
        ({"app_id": "a/b *"}, "app:a%2Fb%20%2A/day/usd"),
    ],
)
def test_its_id_names_what_it_limits(changes: dict[str, Any], id_: str) -> None:
    assert parse_budget(**{**ONE, **changes}).id == id_


def test_what_is_no_part_of_the_identity_changes_no_id() -> None:
    other = parse_budget(**ONE, timezone="Europe/Berlin", soft=True, new_runs="refuse", running="hold", note="!")

    assert other.id == parse_budget(**ONE).id


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"limit": "0.000000001"}, 1),
        ({"limit": 0.1}, 100_000_000),
        ({"limit": "12.50"}, 12_500_000_000),
        ({"limit": 0}, 0),
        ({"limit": 1e6, "unit": "tokens"}, 1_000_000),
    ],
)
def test_a_limit_is_kept_exactly(changes: dict[str, Any], limit: int) -> None:
    assert parse_budget(**{**ONE, **changes}).limit == limit


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"app_id": None}, "app_id", "a workflow"),
        ({"app_id": ""}, "app_id", "must be a name"),
        ({"app_id": "x" * 201}, "app_id", "1 to 200"),
        ({"workflow": "a\0b"}, "workflow", "must be a name"),
        ({"app_id": "\ud800"}, "app_id", "must be a name"),
        ({"window": "week"}, "window", "hour, day, month, total, run"),
        ({"unit": "eur"}, "unit", "tokens, usd"),
        ({"limit": -1}, "limit", "from 0"),
        ({"limit": "ten"}, "limit", "a number"),
        ({"limit": float("nan")}, "limit", "a number"),
        ({"limit": float("inf")}, "limit", "a number"),
        ({"limit": True}, "limit", "a number"),
        ({"limit": 1e10}, "limit", "1,000,000,000"),
        ({"limit": "1e999999999"}, "limit", "a number"),
        ({"limit": "0.0000000001"}, "limit", "9 decimal places"),
        ({"limit": 1.5, "unit": "tokens"}, "limit", "whole number of tokens"),
        ({"timezone": "Mars/Base"}, "timezone", "Europe/Berlin"),
        ({"timezone": "../etc/passwd"}, "timezone", "not a time zone"),
        ({"timezone": "Europe"}, "timezone", "not a time zone"),
        ({"timezone": ""}, "timezone", "not a time zone"),
        ({"timezone": "localtime"}, "timezone", "not a time zone; write a name"),
        ({"new_runs": "stop"}, "new_runs", "hold, refuse"),
        ({"running": "refuse"}, "running", "stop, hold"),
        ({"soft": "no"}, "soft", "true or false"),
        ({"note": "x" * 501}, "note", "500"),
        ({"soft": True, "pause_triggers": True}, "pause_triggers", "only warns"),
        ({"window": "run", "pause_triggers": True}, "pause_triggers", "a run"),
        ({"window": "run", "running": "hold"}, "running", "no later window"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(changes: dict[str, Any], field: str, problem: str) -> None:
    found = validation_problems(**changes)

    assert list(found) == [field]
    assert problem in found[field]


def test_all_errors_are_reported_at_once() -> None:
    assert set(validation_problems(window="week", limit=-1, timezone="x")) == {"window", "limit", "timezone"}


@pytest.mark.parametrize(
    ("unit", "amount", "words"),
    [
        ("tokens", 1_234_567, "1,234,567 tokens"),
        ("usd", 12_500_000_000, "USD 12.50"),
        ("usd", 1, "USD 0.000000001"),
        ("usd", 1_234_567_000_000_000, "USD 1,234,567.00"),
        ("usd", 123_456_789_100_000_001, "USD 123,456,789.100000001"),
    ],
)
def test_amounts_are_shown_as_people_write_them(unit: Any, amount: int, words: str) -> None:
    assert format_amount(unit, amount) == words
