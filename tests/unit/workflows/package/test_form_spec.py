"""The names of a form's fields."""

import pytest
from pydantic import ValidationError

from workflows.package.trigger_specs.form_spec import FormSpec
from workflows.package.trigger_specs.spec_problems import list_problems


@pytest.mark.parametrize("name", ["_request", "_delivery", "_charset_"])
def test_a_name_with_a_meaning_of_its_own_is_refused(name: str) -> None:
    assert problems_of_field(name) == [("inputs", f"{name} is a reserved name; rename the field")]


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "\x00"])
def test_a_name_that_a_browser_would_change_is_refused(name: str) -> None:
    assert problems_of_field(name) == [("inputs", "a field needs a name of printable characters")]


def test_any_other_name_is_taken() -> None:
    for name in ("email", "Straße & Hausnummer", "<b>", "_note"):
        assert list(FormSpec.model_validate({"name": "lead", "inputs": {name: {}}}).inputs) == [name]


def problems_of_field(name: str) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as refused:
        FormSpec.model_validate({"name": "lead", "inputs": {name: {}}})
    return [(problem.place, problem.message) for problem in list_problems(refused.value)]
