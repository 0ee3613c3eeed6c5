"""Form validation: given fields against declared inputs, every error at once."""

from collections.abc import Mapping
from typing import Any

from triggers.form.fields import FieldError, read_field
from workflows.package.trigger_specs.form import FormInput

MAX_ERRORS = 100  # a body with a hundred thousand unknown fields is not worth an answer of that size
_MAX_SHOWN_NAME = 100


class FormRefusedError(ValueError):
    """What is wrong, by field name."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("the form has errors")
        self.errors = dict(errors)


def validate(inputs: Mapping[str, FormInput], given: Mapping[str, Any], *, from_text: bool) -> dict[str, Any]:
    """The values as declared, defaults included. Empty text and null count as not given, as in a browser's form."""
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, spec in inputs.items():
        value = given.get(name)
        if value is None or value == "":
            if spec.default is not None:
                values[name] = spec.default
            elif spec.required:
                errors[name] = "is required"
            continue
        try:
            values[name] = read_field(spec, value, from_text=from_text)
        except FieldError as error:
            errors[name] = str(error)
    errors |= _unknown(inputs, given)
    if errors:
        raise FormRefusedError(dict(list(errors.items())[:MAX_ERRORS]))
    return values


def _unknown(inputs: Mapping[str, FormInput], given: Mapping[str, Any]) -> dict[str, str]:
    return {name[:_MAX_SHOWN_NAME]: "is not a field of this form" for name in given if name not in inputs}
