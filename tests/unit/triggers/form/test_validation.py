"""Form validation: every error at once, by the field's name."""

import pytest

from triggers.form.validation import MAX_ERRORS, FormRefusedError, validate
from workflows.package.trigger_specs.form import FormInput

INPUTS = {
    "email": FormInput(format="email", required=True),
    "seats": FormInput(type="integer", default=1),
    "plan": FormInput(enum=("basic", "pro"), required=True),
    "newsletter": FormInput(type="boolean"),
    "note": FormInput(max_length=5),
}


def test_values_come_typed_and_with_defaults() -> None:
    given = {"email": "ada@example.com", "plan": "pro", "newsletter": "on"}

    values = validate(INPUTS, given, from_text=True)

    assert values == {"email": "ada@example.com", "seats": 1, "plan": "pro", "newsletter": True}


def test_every_error_is_told_at_once() -> None:
    given = {"seats": "many", "plan": "gold", "newsletter": "perhaps", "note": "too long", "admin": "1"}

    with pytest.raises(FormRefusedError) as refused:
        validate(INPUTS, given, from_text=True)

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
        validate(INPUTS, given, from_text=True)

    assert refused.value.errors == {"email": "is required", "plan": "is required"}


def test_a_default_of_false_is_a_default() -> None:
    assert validate({"agree": FormInput(type="boolean", default=False)}, {}, from_text=False) == {"agree": False}


def test_a_flood_of_unknown_fields_gets_a_short_answer() -> None:
    with pytest.raises(FormRefusedError) as refused:
        validate(INPUTS, {f"{n}{'x' * 1000}": 1 for n in range(5000)}, from_text=False)

    assert len(refused.value.errors) == MAX_ERRORS
    assert max(map(len, refused.value.errors)) == 100
