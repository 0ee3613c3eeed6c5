"""Sizes of values: counted within a bound, whatever a value refers to."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.context.values.value_sizes import count_values, estimate_bytes, is_deeper_than

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_json_text_is_never_shorter_than_the_count_of_values(value: Any) -> None:
    assert count_values(value, 10_000, with_keys=True) <= max(len(json.dumps(value)), 1)


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 14), ({"with_keys": True}, 18), ({"characters_per_value": 4}, 8), ({"characters_per_value": None}, 6)],
)
def test_text_and_keys_count_as_asked(options: dict[str, Any], count: int) -> None:
    assert count_values({"key": ["12345678", (1, 2.5)]}, 100, **options) == count


def test_a_count_stops_soon_after_its_limit() -> None:
    circle: list[Any] = [1]
    circle.append(circle)

    assert 100 < count_values(circle, 100) < 110


@pytest.mark.parametrize(("value", "levels"), [(1, 0), ([], 0), ([1], 1), ({"a": [(1,)]}, 3)])
def test_depth_counts_the_levels_below_a_value(value: Any, levels: int) -> None:
    assert not is_deeper_than(levels, value)
    assert levels == 0 or is_deeper_than(levels - 1, value)


def test_a_container_in_two_values_is_not_plain_in_the_second() -> None:
    shared: list[Any] = [1]
    seen: set[int] = set()

    sizes = [estimate_bytes({"a": shared}, max_bytes=1000, seen=seen) for _ in range(2)]

    assert sizes == [8 + 1 + 8 + 8 + 8 + 8, math.inf]


@pytest.mark.parametrize("value", [{"a.b": 1}, {1: 1}, {"a": object()}, {"a": 2**63}, ["x" * 100], "\ud800", math.nan])
def test_what_a_store_refuses_has_no_size(value: Any) -> None:
    assert estimate_bytes(value, max_bytes=100, unfit_in_keys=frozenset("$.\x00")) == math.inf
