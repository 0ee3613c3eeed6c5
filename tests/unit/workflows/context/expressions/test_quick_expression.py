"""Quick expressions: they say what the library says, of an event as it is and of one that is made plain when asked."""

from datetime import UTC, datetime
from typing import Any

import jmespath
import pytest
from bson import DBRef, ObjectId, Regex, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.triggers.property_settings import without_deadline
from triggers.change_stream.bson_to_json import PlainEvent, to_plain
from triggers.event_expressions import ExpressionError, evaluate, is_condition_met, resolve
from workflows.context.expressions.quick_expression import compile_quick

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
CONSTANTS = st.sampled_from(["'x'", "''", "`0`", "`1`", "`1.5`", "`true`", "`false`", "`null`", '`"x"`'])
COMPARISONS = st.tuples(
    st.one_of(st.tuples(PATHS, CONSTANTS), st.tuples(CONSTANTS, PATHS)),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
).map(lambda each: f"{each[0][0]} {each[1]} {each[0][1]}")
EXPRESSIONS = st.recursive(
    PATHS | COMPARISONS | CONSTANTS,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda each: f"({each[0]}) {each[1]} ({each[2]})")
        | inner.map(lambda each: f"!({each})")
    ),
    max_leaves=5,
)
SCALARS = st.sampled_from([None, True, False, 0, 1, 2, 1.5, 0.0, "", "x", "y"])
EVENTS = st.dictionaries(
    NAMES,
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3)),
    max_size=3,
)


@without_deadline
@given(expression=EXPRESSIONS, event=EVENTS)
def test_a_quick_expression_means_the_same_as_in_the_library(expression: str, event: dict[str, Any]) -> None:
    assert compile_quick(jmespath.compile(expression).parsed) is not None
    try:
        expected = jmespath.search(expression, event)
    except TypeError:  # it compares text with numbers as Python does
        for given_event in (event, PlainEvent(event)):
            with pytest.raises(ExpressionError):
                evaluate(expression, given_event)
        return
    for given_event in (event, PlainEvent(event)):
        said = evaluate(expression, given_event)
        assert (said, type(said)) == (expected, type(expected))


@pytest.mark.parametrize(
    "expression", ["a[0]", "a == b", "a == `[1]`", "length(a)", "a.*", "@", "a | b", "a || b[0]", "{x: a}"]
)
def test_what_could_cost_more_than_its_length_is_counted(expression: str) -> None:
    assert compile_quick(jmespath.compile(expression).parsed) is None


RAW = {
    "_id": {"_data": "82ab"},
    "clusterTime": Timestamp(7, 2),
    "wallTime": datetime(2026, 1, 2, tzinfo=UTC),
    "fullDocument": {
        "_id": ObjectId("65a000000000000000000000"),
        "amount": float("nan"),
        "link": DBRef("orders", ObjectId("65a000000000000000000001")),
        "like": Regex("^a"),
        "lines": [{"at": datetime(2026, 1, 2, tzinfo=UTC)}],
    },
}


@pytest.mark.parametrize(
    "path",
    [
        "_id",
        "_id._data.x",
        "clusterTime",
        "clusterTime.t",
        "wallTime",
        "wallTime.year",
        "fullDocument",
        "fullDocument._id",
        "fullDocument.amount",
        "fullDocument.link.id",
        "fullDocument.link.ref.x",
        "fullDocument.like.pattern",
        "fullDocument.lines",
        "fullDocument.lines.at",
        "fullDocument.lines[0].at",
        "missing.name",
        "@",
        "length(fullDocument.lines)",
    ],
)
def test_what_is_asked_for_is_as_plain_as_if_all_of_it_were(path: str) -> None:
    assert evaluate(path, PlainEvent(RAW)) == evaluate(path, to_plain(RAW))


def test_a_mapping_of_a_lazy_event_is_that_of_a_plain_one() -> None:
    mapped = {"order": "=fullDocument._id", "all": "=@", "kept": "as it is", "deep": [{"at": "=wallTime"}]}

    assert resolve(mapped, PlainEvent(RAW)) == resolve(mapped, to_plain(RAW))


def test_a_condition_that_does_not_hold_makes_nothing_plain_but_its_name() -> None:
    class Untouchable:
        def __str__(self) -> str:
            raise AssertionError

    event = PlainEvent({"fullDocument": {"status": "open", "rest": Untouchable()}})

    assert not is_condition_met("fullDocument.status == 'paid'", event)
    with pytest.raises(AssertionError):
        event.materialize()


@pytest.mark.parametrize(
    "expression",
    [" || ".join(["a.b == 'x'"] * 100), " && ".join(["!!a"] * 100), "a.b.c || a.b || a.b.d || length(a.b)"],
)
def test_a_possibly_large_value_is_converted_once_however_often_it_is_read(expression: str) -> None:
    made = 0

    class Counted:
        def __str__(self) -> str:
            nonlocal made
            made += 1
            return "plain"

    evaluate(expression, PlainEvent({"a": {"b": [Counted()]}}))

    assert made == 1
