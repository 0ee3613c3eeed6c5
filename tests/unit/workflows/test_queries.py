"""Queries: facts enter as scalars with their type, operators never."""

from typing import Any

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from workflows.context.queries import QueryError, fill_query, placeholders

OBJECT_ID = "65f1a2b3c4d5e6f708192a3b"


@pytest.mark.parametrize("value", [{"$ne": None}, {}, [], ["a"], [{"$gt": ""}], None])
@pytest.mark.parametrize("template", ["{{email}}", "{{runtime.email}}", "${email}", "mail to {{ email }}"])
def test_only_scalars_enter_a_query(value: Any, template: str) -> None:
    with pytest.raises(QueryError, match="email"):
        fill_query({"email": template}, {"email": value})


@pytest.mark.parametrize("value", ["a", 7, 1.5, True, "", "$ne", "{{app_id}}", "${app_id}"])
@pytest.mark.parametrize("template", ["{{v}}", "{{ v }}", "{{runtime.v}}", "{{ runtime.v }}", "${v}", "${ v }"])
def test_a_value_alone_keeps_its_type_and_is_not_read_again(value: object, template: str) -> None:
    filled = fill_query({"v": template}, {"v": value, "app_id": "secret"})

    assert filled == {"v": value}
    assert type(filled["v"]) is type(value)


def test_a_value_inside_of_text_becomes_text() -> None:
    assert fill_query({"k": "{{app_id}}:${n}"}, {"app_id": "acme", "n": 3}) == {"k": "acme:3"}


def test_the_authors_own_operators_and_nesting_stay() -> None:
    template = {"app_id": "{{runtime.app_id}}", "total": {"$gte": 100}, "$or": [{"a": "${x}"}, {"b": None}], "n": 1}
    assert fill_query(template, {"app_id": "acme", "x": "y"}) == {
        "app_id": "acme",
        "total": {"$gte": 100},
        "$or": [{"a": "y"}, {"b": None}],
        "n": 1,
    }


def test_keys_are_never_filled() -> None:
    assert fill_query({"{{x}}": 1}, {"x": "$where"}) == {"{{x}}": 1}


def test_an_id_in_text_matches_the_text_and_the_object_id() -> None:
    assert fill_query({"_id": "{{order}}"}, {"order": OBJECT_ID}) == {"_id": {"$in": [OBJECT_ID, ObjectId(OBJECT_ID)]}}


@pytest.mark.parametrize("order", ["A-17", "", 17, "65f1a2b3c4d5e6f708192a3"])
def test_another_id_stays_as_it_is(order: object) -> None:
    assert fill_query({"_id": "{{order}}"}, {"order": order}) == {"_id": order}


def test_placeholders_are_found_at_any_depth() -> None:
    assert placeholders({"a": "{{runtime.x}}", "b": [{"c": "${y} and {{z}}"}], "d": 1, "{{no}}": "plain"}) == {
        "x",
        "y",
        "z",
    }
    assert placeholders({}) == set()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["$ne", "$where", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(json_values)
def test_a_payload_never_adds_an_operator(value: Any) -> None:
    try:
        filled = fill_query({"app_id": "{{app_id}}", "x": "{{x}}"}, {"app_id": "acme", "x": value})
    except QueryError:
        return

    assert filled == {"app_id": "acme", "x": value}
    assert not isinstance(filled["x"], dict | list)
