"""Form validation: every error at once, by the field's name."""

from typing import Any

import pytest

from triggers.form.form_body import SubmittedFields
from triggers.form.form_validation import MAX_ERRORS, FormRefusedError, validate_form
from workflows.package.trigger_specs.form_spec import FormInput

INPUTS = {
    "email": FormInput(format="email", required=True),
    "seats": FormInput(type="integer", default=1),
    "plan": FormInput(enum=("basic", "pro"), required=True),
    "newsletter": FormInput(type="boolean"),
    "note": FormInput(max_length=5),
}


def text(values: dict[str, Any], **errors: str) -> SubmittedFields:
    return SubmittedFields(values, from_text=True, errors=errors)


def test_values_come_typed_and_with_defaults() -> None:
    given = {"email": "ada@example.com", "plan": "pro", "newsletter": "on"}

    values = validate_form(INPUTS, text(given))

    assert values == {"email": "ada@example.com", "seats": 1, "plan": "pro", "newsletter": True}


def test_all_errors_are_reported_at_once() -> None:
    given = {"seats": "many", "plan": "gold", "newsletter": "perhaps", "note": "too long", "admin": "1"}

    with pytest.raises(FormRefusedError) as refused:
        validate_form(INPUTS, text(given))

    assert refused.value.errors == {
        "email": "is required",
        "seats": "must be a whole number",
        "plan": "must be one of basic, pro",
        "newsletter": "must be true or false",
        "note": "is longer than 5 characters",
        "admin": "is not a field of this form",
    }


def test_empty_text_and_null_count_as_not_given() -> None:
    given = {"email": "", "plan": None, "seats": "", "note": ""}

    with pytest.raises(FormRefusedError) as refused:
        validate_form(INPUTS, text(given))

    assert refused.value.errors == {"email": "is required", "plan": "is required"}


def test_a_default_of_false_is_a_default() -> None:
    assert validate_form({"agree": FormInput(type="boolean", default=False)}, SubmittedFields({}, from_text=False)) == {
        "agree": False
    }


def test_a_flood_of_unknown_fields_gets_a_short_answer() -> None:
    with pytest.raises(FormRefusedError) as refused:
        validate_form(INPUTS, SubmittedFields({f"{n}{'x' * 1000}": 1 for n in range(5000)}, from_text=False))

    assert len(refused.value.errors) == MAX_ERRORS
    assert max(map(len, refused.value.errors)) == 100


def test_unreadable_values_are_reported_beside_the_rest() -> None:
    with pytest.raises(FormRefusedError) as refused:
        validate_form(INPUTS, text({"plan": "gold"}, cv="is a file; this form takes text only"))

    assert refused.value.errors == {
        "email": "is required",
        "plan": "must be one of basic, pro",
        "cv": "is a file; this form takes text only",
    }


BOXES = {
    "news": FormInput(type="boolean", default=True),
    "terms": FormInput(type="boolean", required=True),
    "only_yes": FormInput(type="boolean", enum=(True,)),
}


def test_a_browser_leaves_out_a_box_that_is_not_ticked_and_means_false() -> None:
    assert validate_form(BOXES, text({"terms": "true"}), by_browser=True) == {"news": False, "terms": True}


def test_a_required_box_must_be_ticked_in_a_browser() -> None:
    with pytest.raises(FormRefusedError) as refused:
        validate_form(BOXES, text({}), by_browser=True)

    assert refused.value.errors == {"terms": "must be ticked"}


def test_a_program_that_leaves_a_boolean_out_gets_its_default() -> None:
    assert validate_form(BOXES, text({"terms": "no"})) == {"news": True, "terms": False}


def test_the_hidden_delivery_of_a_page_is_no_field() -> None:
    assert validate_form({"note": FormInput()}, text({"_delivery": "1"}), by_browser=True) == {}
    with pytest.raises(FormRefusedError):
        validate_form({"note": FormInput()}, SubmittedFields({"_delivery": "1"}, from_text=False))
