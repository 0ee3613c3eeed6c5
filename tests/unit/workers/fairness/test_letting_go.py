"""How many go on is dealt out evenly, in order, round and round, and nobody gets more than there is room for."""

from workers.fairness.letting_go import dealt, round_from
from workers.fairness.releases import kind_of
from workers.store.run import HoldKind


def test_most_are_dealt_out_evenly_to_those_with_room() -> None:
    assert dealt({"b": 9, "c": 9, "a": 9}, 5) == ({"b": 2, "c": 2, "a": 1}, "c")
    assert dealt({"a": 9, "b": 9}, 2) == ({"a": 1, "b": 1}, "b")
    assert dealt({"a": 9}, 7) == ({"a": 7}, "a")
    assert dealt({"a": 1, "b": 9}, 5) == ({"a": 1, "b": 4}, "b")
    assert dealt({"a": 1, "b": 2}, 5) == ({"a": 1, "b": 2}, "b")
    assert dealt({}, 7) == ({}, None)


def test_the_round_begins_with_the_one_after_the_last() -> None:
    assert round_from(["c", "a", "d"], "b") == ["c", "d", "a"]
    assert round_from(["", "a"], "") == ["a", ""]


def test_only_what_is_held_here_is_released_here() -> None:
    assert kind_of("app:budget:acme") is HoldKind.CONCURRENCY
    assert kind_of("workflow:W") is HoldKind.CONCURRENCY
    assert kind_of("rate:acme") is HoldKind.RATE
    assert kind_of("budget:acme") is None
    assert kind_of("released:app:acme") is None
