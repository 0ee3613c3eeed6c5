"""The release policy: releases are distributed evenly, in order and in turn, within the room of each limit."""

from accounting.budgets.budget_service import HELD_BY_PREFIX
from workers.admission.limit_releases import RELEASED_HERE
from workers.admission.release_policy import deal, rotate_after
from workers.store.limit_name import LimitKind, LimitName, parse_limit
from workers.store.run import HoldKind


def test_most_are_dealt_out_evenly_to_those_with_room() -> None:
    assert deal({"b": 9, "c": 9, "a": 9}, 5) == ({"b": 2, "c": 2, "a": 1}, "c")
    assert deal({"a": 9, "b": 9}, 2) == ({"a": 1, "b": 1}, "b")
    assert deal({"a": 9}, 7) == ({"a": 7}, "a")
    assert deal({"a": 1, "b": 9}, 5) == ({"a": 1, "b": 4}, "b")
    assert deal({"a": 1, "b": 2}, 5) == ({"a": 1, "b": 2}, "b")
    assert deal({}, 7) == ({}, None)


def test_the_round_begins_with_the_one_after_the_last() -> None:
    assert rotate_after(["c", "a", "d"], "b") == ["c", "d", "a"]
    assert rotate_after(["", "a"], "") == ["a", ""]


def test_a_limit_is_read_from_the_name_that_its_runs_have() -> None:
    assert parse_limit("app:budget:acme") == LimitName(LimitKind.APP, "budget:acme")
    assert parse_limit("released:app:acme") is None
    assert parse_limit("tomorrow:acme") is None
    assert parse_limit("app") is None


def test_each_limit_has_its_name_and_its_kind_of_hold() -> None:
    held = {kind: (str(LimitName(kind, "x:y")), LimitName(kind, "x:y").hold_kind) for kind in LimitKind}

    assert held == {
        LimitKind.APP: ("app:x:y", HoldKind.CONCURRENCY),
        LimitKind.WORKFLOW: ("workflow:x:y", HoldKind.CONCURRENCY),
        LimitKind.RATE: ("rate:x:y", HoldKind.RATE),
        LimitKind.BUDGET: ("budget:x:y", HoldKind.BUDGET),
        LimitKind.ORDER: ("order:x:y", HoldKind.CONCURRENCY),
    }
    assert all(parse_limit(name) == LimitName(kind, "x:y") for kind, (name, _) in held.items())
    assert LimitName(LimitKind.BUDGET, "b").released_name == f"released:{HELD_BY_PREFIX}b"
    assert {LimitKind.BUDGET, LimitKind.ORDER}.isdisjoint(RELEASED_HERE)
