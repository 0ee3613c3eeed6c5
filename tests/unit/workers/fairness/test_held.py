"""Held runs: how releases are dealt out over apps, and what this never touches."""

from workers.fairness.admission import goes_before
from workers.fairness.held import round_from, shares_of
from workers.fairness.releases import kind_of
from workers.store.run import HoldKind


def test_releases_are_dealt_out_one_by_one_from_the_app_after_the_last() -> None:
    assert shares_of(["a", "b", "c"], 5, after="a") == {"b": 2, "c": 2, "a": 1}
    assert list(shares_of(["a", "b", "c"], 2, after="c")) == ["a", "b"]
    assert shares_of(["a"], 7, after="z") == {"a": 7}
    assert shares_of([], 7, after="") == {}


def test_a_round_begins_after_the_last_one_also_when_that_is_gone() -> None:
    assert round_from(["c", "a", "d"], "b") == ["c", "d", "a"]
    assert round_from(["", "a"], "") == ["a", ""]


def test_only_what_is_held_here_is_released_here() -> None:
    assert kind_of("app:budget:acme") is HoldKind.CONCURRENCY
    assert kind_of("workflow:W") is HoldKind.CONCURRENCY
    assert kind_of("rate:acme") is HoldKind.RATE
    assert kind_of("budget:acme") is None
    assert kind_of("released:app:acme") is None


def test_the_more_urgent_goes_first_then_the_older() -> None:
    run = {"priority": 5, "_id": "run_5"}

    assert goes_before({"priority": 9, "_id": "run_9"}, run)
    assert goes_before({"priority": 5, "_id": "run_4"}, run)
    assert not goes_before({"priority": 5, "_id": "run_6"}, run)
    assert not goes_before({"priority": 0, "_id": "run_1"}, run)
