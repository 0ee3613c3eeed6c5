"""Redaction: removes hidden values everywhere, and keeps all else unchanged."""

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from workflows.context.context_variables import ContextVariables
from workflows.context.redaction import HIDDEN, MAX_DEPTH, Redactor, remove_hidden

CANARY = "canary-7f3a"
KEY = "sk-canary-51H8aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789-end-of-the-key"
hidden = st.one_of(
    st.just(CANARY),
    st.just('a "quoted"\nvalue\\with\tall'),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=20).map(str.strip),
).filter(lambda value: len(value) >= 6 and value not in HIDDEN and not value.isalpha())


def data_around(value: str) -> st.SearchStrategy[Any]:
    leaves = st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.just(value), st.just(f"<{value}>")
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.tuples(inner, inner),
            st.dictionaries(st.one_of(st.text(max_size=3), st.just(value)), inner, max_size=3),
        ),
        max_leaves=8,
    )


@given(hidden.flatmap(lambda value: st.tuples(st.just(value), data_around(value))))
def test_a_hidden_value_is_in_no_data_and_no_json_of_it(given_data: tuple[str, Any]) -> None:
    value, data = given_data
    redactor = Redactor([value])

    cleaned = redactor.redact_data(data)

    assert value not in repr_of_texts(cleaned)
    for text in (json.dumps(data), json.dumps(data, ensure_ascii=False)):
        assert json.dumps(value)[1:-1] not in redactor.redact_text(text).replace(HIDDEN, "")


def repr_of_texts(value: Any) -> str:
    """Returns all texts in a value, keys included, each by itself."""
    if isinstance(value, dict):
        return "\0".join(repr_of_texts(item) for pair in value.items() for item in pair)
    if isinstance(value, list | tuple):
        return "\0".join(map(repr_of_texts, value))
    return value.replace(HIDDEN, "\0") if isinstance(value, str) else ""


@given(data_around("something else"))
def test_what_holds_nothing_hidden_is_the_same_object(data: Any) -> None:
    assert Redactor([CANARY]).redact_data(data) is data
    assert Redactor().redact_data(data) is data


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (CANARY, f"before {CANARY} after"),
        (CANARY, f"{CANARY}{CANARY}"),
        (f"  {CANARY}\n", f"a tool strips: {CANARY}"),
        ("line one\nline two", json.dumps({"key": "line one\nline two"})),
        ("line one\nline two", "ValueError('line one\\nline two')"),
        ("gr\u00f6\u00dfe-7f3a", json.dumps("gr\u00f6\u00dfe-7f3a")),
        ("123456", "code 123456."),
        ('{"password": "canary-7f3a", "hosts": ["h0st-canary"]}', f"password={CANARY}"),
        ('{"password": "canary-7f3a", "hosts": ["h0st-canary"]}', "at h0st-canary"),
    ],
)
def test_a_value_is_found_as_it_is_and_as_it_is_written(value: str, text: str) -> None:
    redactor = Redactor([value])

    assert HIDDEN in redactor.redact_text(text)
    assert value.strip() not in redactor.redact_text(text)


@pytest.mark.parametrize("value", ["", "short", "true", "12345", "production", "PRODUCTION", "      a     ", "hidden"])
def test_common_values_are_not_hidden(value: str) -> None:
    text = f"this is {value} and stays"

    assert Redactor([value]).redact_text(text) is text


def test_the_longer_of_two_values_is_hidden_whole() -> None:
    assert Redactor(["canary-x", "canary-x-and-tail"]).redact_text("x canary-x-and-tail y") == f"x {HIDDEN} y"


def test_a_number_is_hidden_in_text_and_data_but_not_inside_a_longer_one() -> None:
    redactor = Redactor(["271828"])

    assert redactor.redact_data({"pin": 271828, "other": 1271828, "text": "271828"}) == {
        "pin": HIDDEN,
        "other": 1271828,
        "text": HIDDEN,
    }


class Holder:
    def __repr__(self) -> str:
        return f"Holder({CANARY})"


class SecretRepr:
    def __str__(self) -> str:
        return "nothing to see"

    def __repr__(self) -> str:
        return f"Shy({CANARY})"


class Broken:
    def __repr__(self) -> str:
        raise ValueError(CANARY)


def deep() -> Any:
    value: Any = CANARY
    for _ in range(MAX_DEPTH + 20):
        value = [value]
    return value


def cycle() -> Any:
    value: list[Any] = [CANARY]
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [Holder(), SecretRepr(), Broken(), deep(), cycle(), {CANARY}, CANARY.encode(), {(CANARY,): 1}, ValueError(CANARY)],
)
def test_whatever_a_tool_made_is_not_shown_with_a_hidden_value(value: Any) -> None:
    cleaned = Redactor([CANARY]).redact_data({"made": value})

    assert CANARY not in str(cleaned)
    assert CANARY not in repr(cleaned)


def test_a_tree_whose_nodes_point_to_their_parents_is_walked_once() -> None:
    root: dict[str, Any] = {"name": "root", "shared": ["held twice"]}
    root["children"] = [{"name": f"child {number}", "parent": root, "shared": root["shared"]} for number in range(50)]
    redactor = Redactor([CANARY])

    assert redactor.redact_data(root) is root

    root["children"][7]["note"] = CANARY
    assert redactor.redact_data({"tree": root}) == HIDDEN


@pytest.mark.parametrize("value", [KEY, {"nested": KEY}, [KEY, KEY], "x" * 30 + KEY])
def test_a_value_that_a_validation_error_cuts_is_hidden(value: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(dict[str, int]).validate_python({"port": value})
    assert any(part in str(refused.value) for part in (KEY[:10], KEY[-10:]))

    shown = Redactor([KEY]).redact_text(str(refused.value))

    assert not any(part in shown for part in (KEY[:10], KEY[-10:]))
    assert "Input should be a valid integer" in shown
    assert "input_value=(hidden), input_type=" in shown


def test_a_validation_error_that_quotes_little_stays_as_it_is() -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(int).validate_python("a few words")

    assert Redactor([KEY]).redact_text(str(refused.value)) == str(refused.value)


def test_what_is_held_twice_is_hidden_in_both_places() -> None:
    inner = [CANARY]
    wide: Any = inner
    for _ in range(60):
        wide = [wide, wide]

    cleaned = Redactor([CANARY]).redact_data({"one": inner, "other": inner, "wide": wide})

    assert (cleaned["one"], cleaned["other"]) == ([HIDDEN], [HIDDEN])
    while cleaned["wide"] != [HIDDEN]:
        cleaned["wide"] = cleaned["wide"][1]


def test_the_whole_environment_in_a_context_keeps_what_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_UNDER_TEST", CANARY)

    cleaned = Redactor([CANARY]).redact_data(os.environ)

    assert (cleaned["CANARY_UNDER_TEST"], cleaned["PATH"]) == (HIDDEN, os.environ["PATH"])


def test_values_that_come_later_are_hidden_from_then_on() -> None:
    redactor = Redactor()
    assert redactor.redact_text(CANARY) == CANARY

    redactor.hide([CANARY])
    redactor.hide(["another one"])

    assert redactor.redact_text(f"{CANARY}, another one") == f"{HIDDEN}, {HIDDEN}"


def test_a_context_loses_suppressed_names_and_hidden_values_in_place() -> None:
    kept = ["a", "live", "list"]
    context = ContextVariables(
        {"flag": True, "note": {"copied": [CANARY]}, CANARY: 1, "kept": kept, "app_id": CANARY, "number": 3}
    )
    live = context.data

    found = remove_hidden(context, {"flag", "app_id"}, Redactor([CANARY]), fixed={"app_id"})

    assert found == [HIDDEN, "flag", "note"]
    assert live == {"note": {"copied": [HIDDEN]}, "kept": kept, "app_id": CANARY, "number": 3}
    assert live["kept"] is kept


def test_nothing_to_take_out_changes_nothing() -> None:
    context = ContextVariables({"a": {"b": 1}})
    inside = context["a"]

    assert remove_hidden(context, (), Redactor([CANARY])) == []
    assert context["a"] is inside
