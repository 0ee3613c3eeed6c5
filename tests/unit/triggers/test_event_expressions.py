"""Payloads: what most expressions are has a way of its own, and it is the library's."""

import time
from typing import Any

import jmespath
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.triggers.property_settings import without_deadline
from triggers.event_expressions import ExpressionError, evaluate, is_condition_met, resolve

NAMES = st.sampled_from(["a", "b", "c", "_request", '"user-agent"'])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(".".join)
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
KEYS = st.sampled_from(["a", "b", "c", "_request", "user-agent"])
EVENTS = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4))


@without_deadline
@given(path=PATHS, event=EVENTS)
def test_a_path_selects_what_the_library_selects(path: str, event: Any) -> None:
    assert evaluate(path, event) == jmespath.search(path, event)


@without_deadline
@given(path=PATHS, event=EVENTS)
def test_a_path_in_a_greater_expression_is_the_librarys_too(path: str, event: Any) -> None:
    expression = f"{{x: {path}, y: {path} == a, z: [{path}, b[0]]}}"
    assert evaluate(expression, event) == jmespath.search(expression, event)


@pytest.mark.parametrize("event", [{}, {"a": None}, {"a": False}, {"a": ""}, {"a": []}, {"a": {}}, None, 7, "a"])
def test_what_is_not_there_or_empty_does_not_hold(event: Any) -> None:
    assert not is_condition_met("a", event)


def test_zero_holds_as_in_the_language() -> None:
    assert is_condition_met("a", {"a": 0})
    assert is_condition_met(None, {})


def test_an_error_names_its_expression() -> None:
    with pytest.raises(ExpressionError, match=r"ceil\(a\)"):
        evaluate("ceil(a)", {"a": "x"})


EXPRESSIONS = (
    "a[*].b | [0]",
    "{x: a, y: b.c} | x == y",
    "a[].b[] | length(@)",
    "b != c || a < `3`",
    "*.a[?b == 'x' && !c]",
    "a[::-1] | [1:]",
    "[to_string(a), type(b), not_null(c, `[1]`)]",
    "contains(to_string(@), 'x')",
    "map(&b, to_array(a))",
    "sort_by(to_array(a), &to_string(@))",
    "join('-', [to_string(b), 'x'])",
)


@without_deadline
@example(expression="b != c || a < `3`", event={"a": ""})
@given(expression=st.sampled_from(EXPRESSIONS), event=EVENTS)
def test_a_bounded_expression_means_the_same_as_in_the_library(expression: str, event: Any) -> None:
    try:
        expected = jmespath.search(expression, event)
    except (jmespath.exceptions.JMESPathError, TypeError):  # it compares text with numbers as Python does
        with pytest.raises(ExpressionError):
            evaluate(expression, event)
        return
    assert evaluate(expression, event) == expected


DOUBLED = "|".join(["[@,@]"] * 60)
BOMBS = (
    DOUBLED,
    "|".join(["[@,@][]"] * 60),
    f"{DOUBLED}|to_string(@)",
    f"{{x: {DOUBLED}, y: {DOUBLED}}}|x==y",
    f"{{x: {DOUBLED}, y: {DOUBLED}}}|x!=y",
    f"contains([{DOUBLED}], `1`)",
    "|".join(["{x:@,y:@}"] * 60),
)


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_line_that_would_fill_the_memory_is_refused_at_once(bomb: str) -> None:
    began = time.process_time()

    with pytest.raises(ExpressionError, match="too much work"):
        resolve({"x": f"={bomb}"}, {"a": 1})

    assert time.process_time() - began < 1


def test_a_text_that_is_joined_with_itself_is_measured_before_it_is_made() -> None:
    with pytest.raises(ExpressionError, match="too much work"):
        evaluate("join(glue, parts)", {"glue": "x" * 100_000, "parts": [""] * 100_000})


def test_what_is_selected_many_times_counts_each_time() -> None:
    event = {"rows": [{"n": number} for number in range(5_000)]}

    assert len(resolve({str(number): "=rows" for number in range(10)}, event)) == 10
    with pytest.raises(ExpressionError, match="too much work"):
        resolve({str(number): "=rows" for number in range(10_000)}, event)


def test_a_large_event_may_cost_more_than_a_small_one() -> None:
    event = {"items": [{"x": number, "price": 2} for number in range(20_000)]}

    assert evaluate("sum(items[?x >= `10000`].price)", event) == 20_000
