"""Queries: facts enter as scalars with their type, operators never."""

from typing import Any

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from workflows.context.documents.query_templates import (
    QueryError,
    fill_query,
    find_placeholders,
    find_server_code,
    owner_scope,
    tenant_scope,
)

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


@pytest.mark.parametrize("template", [{"{{x}}": 1}, {"$or": [{"a.${x}": 1}]}, {"$expr": {"{{x}}": 1}}])
def test_a_placeholder_in_a_key_is_refused(template: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match=r"the key .* holds a placeholder"):
        fill_query(template, {"x": "$where"})


@pytest.mark.parametrize("operator", ["$expr", "$where", "$function", "$regex", "$options", "$jsonSchema"])
@pytest.mark.parametrize("argument", ["{{x}}", "^${x}$", {"$eq": ["$owner", "{{runtime.x}}"]}, [["{{x}}"]]])
def test_a_placeholder_is_refused_where_it_would_be_code_or_a_pattern(operator: str, argument: Any) -> None:
    with pytest.raises(QueryError, match=rf"x stands inside \{operator}"):
        fill_query({"$and": [{"a": {operator: argument}}]}, {"x": "$card"})


def test_an_authors_own_expression_and_pattern_stay() -> None:
    template = {"name": {"$regex": "^A"}, "$expr": {"$gt": ["$paid", "$due"]}, "app_id": "{{app_id}}"}
    assert fill_query(template, {"app_id": "acme"}) == {**template, "app_id": "acme"}


def test_an_id_in_text_matches_the_text_and_the_object_id() -> None:
    both = {"$in": [OBJECT_ID, ObjectId(OBJECT_ID)]}

    assert fill_query({"_id": "{{order}}"}, {"order": OBJECT_ID}) == {"_id": both}
    for owner in ("app_id", "enterprise_id"):
        assert fill_query({owner: "{{runtime.app_id}}"}, {"app_id": OBJECT_ID}) == {owner: both}


@pytest.mark.parametrize("order", ["A-17", "", 17, "65f1a2b3c4d5e6f708192a3"])
def test_another_id_stays_as_it_is(order: object) -> None:
    assert fill_query({"_id": "{{order}}"}, {"order": order}) == {"_id": order}


@pytest.mark.parametrize("value", [None, "text", {}, {"id": None}, {"id": {"$ne": None}}, {"id": ["a"]}])
def test_a_dotted_name_takes_a_scalar_out_of_a_mapping_or_nothing(value: Any) -> None:
    template = {"order": "{{ runtime.order.id }}"}

    assert fill_query(template, {"order": {"id": 7}}) == {"order": 7}
    with pytest.raises(QueryError, match=r"order\.id"):
        fill_query(template, {"order": value})


def test_placeholders_are_found_at_any_depth() -> None:
    assert find_placeholders({"a": "{{runtime.x}}", "b": [{"c": "${y} and {{z}}"}], "d": 1, "{{no}}": "plain"}) == {
        "x",
        "y",
        "z",
    }
    assert find_placeholders({}) == set()


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        ({"$where": "true"}, "$where"),
        ({"a": 1, "$or": [{"b": 1}, {"$where": "true"}]}, "$where"),
        ({"$expr": {"$function": {"body": "", "args": [], "lang": "js"}}}, "$function"),
        ({"$expr": {"$and": [True, {"$accumulator": {}}]}}, "$accumulator"),
        ({"a": {"$in": ["$where"]}, "$expr": {"$gt": ["$a", "$b"]}}, None),
        ({}, None),
    ],
)
def test_code_for_the_server_is_found_at_any_depth(query: dict[str, Any], operator: str | None) -> None:
    assert find_server_code(query) == operator


NOBODY = {"$eq": None, "$not": {"$type": "array"}}


def test_a_document_without_owner_is_read_but_not_written() -> None:
    assert tenant_scope("acme") == {"$or": [*owner_scope("acme")["$or"], {"app_id": NOBODY, "enterprise_id": NOBODY}]}
    assert owner_scope("acme") == {
        "$or": [{"app_id": {"$in": ["acme"]}}, {"app_id": NOBODY, "enterprise_id": {"$in": ["acme"]}}]
    }


def test_an_app_whose_id_is_an_object_id_owns_documents_with_either_form() -> None:
    assert owner_scope(OBJECT_ID)["$or"][0] == {"app_id": {"$in": [OBJECT_ID, ObjectId(OBJECT_ID)]}}


TEMPLATE: dict[str, Any] = {
    "app_id": "{{runtime.app_id}}",
    "_id": "{{x}}",
    "total": {"$gte": "${y}", "$lt": 5},
    "$or": [{"a": "{{x}}"}, {"b": ["{{ y }}", None, {"c": "all of {{x}}"}]}],
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.just(OBJECT_ID),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["$ne", "$where", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def shape(query: Any) -> Any:
    """Returns a query without its values: keys, operators, lengths."""
    if isinstance(query, dict):
        return {key: shape(value) for key, value in query.items()}
    return [shape(each) for each in query] if isinstance(query, list) else "value"


@given(x=json_values, y=json_values)
def test_no_payload_changes_the_form_of_a_query(x: Any, y: Any) -> None:
    try:
        filled = fill_query(TEMPLATE, {"app_id": "acme", "x": x, "y": y})
    except QueryError:
        assert not (isinstance(x, str | int | float) and isinstance(y, str | int | float))
        return

    identity = filled.pop("_id")
    assert shape(filled) == shape({name: value for name, value in TEMPLATE.items() if name != "_id"})
    assert identity is x or identity == {"$in": [x, ObjectId(x)]}
    assert filled["total"]["$gte"] is y
    assert filled["$or"][0]["a"] is x
    assert filled["$or"][1]["b"] == [y, None, {"c": f"all of {x}"}] or y != y  # noqa: PLR0124 -- NaN


@given(json_values)
def test_a_payload_never_reaches_a_pattern_an_expression_or_a_key(x: Any) -> None:
    for template in ({"a": {"$regex": "{{x}}"}}, {"$expr": {"$eq": ["$a", "{{x}}"]}}, {"{{x}}": 1}):
        with pytest.raises(QueryError):
            fill_query(template, {"x": x})
