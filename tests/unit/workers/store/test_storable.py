"""Storable values: accepted values fit into MongoDB, and errors name the others."""

from collections import OrderedDict
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.store.storable import NotStorableError, _check, as_storable, check_storable
from workflows.context.values.storable_values import MAX_BYTES
from workflows.context.values.value_sizes import MAX_DEPTH, estimate_bytes


class Level(IntEnum):
    HIGH = 2


class Word(StrEnum):
    ONE = "one"


keys = st.text(st.characters(codec=None), max_size=4) | st.sampled_from(["$ne", "a.b", "", "a\x00"]) | st.integers()
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(codec=None), max_size=4),
    st.sampled_from([Level.HIGH, Word.ONE, b"x", {1}, object(), datetime(2026, 1, 1, tzinfo=UTC)]),
)
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="$.\x00")), inner, max_size=3).map(
            OrderedDict
        ),
    ),
    max_leaves=8,
)


@given(anything)
def test_what_passes_can_be_encoded(value: Any) -> None:
    try:
        size = check_storable(value)
    except NotStorableError as refused:
        named = str(refused)
        assert named.startswith("input")
        return
    assert size >= 0
    assert bson.encode({"value": value})


@given(st.dictionaries(keys, anything, max_size=4))
def test_a_context_of_any_values_can_be_kept(values: dict[Any, Any]) -> None:
    bson.encode({"context": as_storable(values)})


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [{"b": 2**63}]}, "input.a[0].b is a number beyond 64 bits"),
        ({"a": -(2**63) - 1}, "input.a is a number beyond 64 bits"),
        ({"a": {"$ne": None}}, "input.a has the key '$ne'"),
        ({"a.b": 1}, "input has the key 'a.b'"),
        ({1: 1}, "input has a key that is not plain text"),
        ({"a\x00": 1}, "input has a key that is not plain text"),
        (["\ud800"], "input[0] is text with a lone surrogate"),
        ({"\ud800": 1}, "input is text with a lone surrogate"),
        ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, "input.a is a datetime, which is not JSON"),
        ({"a": {1, 2}}, "input.a is a set, which is not JSON"),
        ("x" * (MAX_BYTES + 1), "input is larger than 4 MB"),
        (["x" * (MAX_BYTES // 2)] * 3, "input is larger than 4 MB"),
        (nested(MAX_DEPTH + 1), f"nested deeper than {MAX_DEPTH} levels"),
        (nested(5000), f"nested deeper than {MAX_DEPTH} levels"),
    ],
)
def test_what_cannot_be_kept_is_named(value: Any, said: str) -> None:
    with pytest.raises(NotStorableError) as caught:
        check_storable(value)

    assert said in str(caught.value)
    str(caught.value).encode()


@pytest.mark.parametrize(
    "value", [2**63 - 1, -(2**63), float("nan"), "a\x00b", "", {}, [], (1, 2), nested(MAX_DEPTH), {"": 1}]
)
def test_the_edges_of_what_can_be_kept(value: Any) -> None:
    check_storable(value)
    bson.encode({"value": value})


def test_a_context_is_kept_as_plain_values_under_its_names() -> None:
    kept = as_storable({"a": {"b": [1], "main.py": {"$ref": 2}}, "when": datetime(2026, 1, 1, tzinfo=UTC), "x\x00": 1})

    assert kept == {"a": {"b": [1], "main.py": {"$ref": 2}}, "when": "2026-01-01 00:00:00+00:00", "x%00": 1}


def test_a_context_that_is_too_large_names_its_largest_variable() -> None:
    with pytest.raises(NotStorableError, match="larger than 6 MB; its largest variable is b"):
        as_storable({"a": "x" * 3_000_000, "b": "x" * 3_500_000})


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers(min_value=-(2**65), max_value=2**65)
    | st.text(st.characters(), max_size=5)
    | st.just(object()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab$.\x00é", max_size=3), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=8,
)


@given(value=VALUES)
def test_what_is_quickly_found_fit_a_closer_look_finds_fit_too(value: Any) -> None:
    size = estimate_bytes(value, max_bytes=MAX_BYTES, unfit_in_keys=frozenset("$.\x00"))
    if size <= MAX_BYTES:
        assert size >= _check(value, path="input", depth=0, any_key=False)


def test_a_quick_look_counts_levels_as_a_closer_one_does() -> None:
    def nested(levels: int) -> Any:
        return 1 if levels == 0 else {"a": nested(levels - 1)}

    check_storable(nested(MAX_DEPTH))
    with pytest.raises(NotStorableError, match="nested deeper"):
        check_storable(nested(MAX_DEPTH + 1))
