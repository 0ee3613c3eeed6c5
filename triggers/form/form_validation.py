"""Form validation: checks all fields, and reports all errors at once."""

from collections.abc import Mapping
from typing import Any

from triggers.form.field_values import FormFieldError, read_field
from triggers.form.form_body import MAX_NAME_SHOWN, SubmittedFields
from workflows.context.values.value_types import is_one_of
from workflows.package.trigger_specs.form_spec import DELIVERY_FIELD, FormInput

MAX_ERRORS = 100  # bounds the response to a body with very many unknown fields


class FormRefusedError(ValueError):
    """Maps each refused field to its problem."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("the form has errors")
        self.errors = dict(errors)


def validate_form(
    inputs: Mapping[str, FormInput], fields: SubmittedFields, *, by_browser: bool = False
) -> dict[str, Any]:
    """Returns the values as declared, with defaults.

    Empty text and null count as missing.

    A browser sends nothing for an unticked box; `by_browser` reads that as false instead of the default.
    """
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, spec in inputs.items():
        try:
            value = _field_value(spec, fields.values.get(name), from_text=fields.from_text, by_browser=by_browser)
        except FormFieldError as error:
            errors[name] = str(error)
            continue
        if value is not None:
            values[name] = value
    errors |= {**_unknown_field_errors(inputs, fields), **fields.errors}
    if errors:
        raise FormRefusedError(dict(list(errors.items())[:MAX_ERRORS]))
    return values


def _field_value(spec: FormInput, value: Any, *, from_text: bool, by_browser: bool) -> Any:
    if value is not None and value != "":
        return read_field(spec, value, from_text=from_text)
    if by_browser and spec.type == "boolean":
        return _unticked_value(spec)
    if spec.required and spec.default is None:
        raise FormFieldError("is required")
    return spec.default


def _unticked_value(spec: FormInput) -> bool | None:
    if spec.required:
        raise FormFieldError("must be ticked")
    return False if not spec.enum or is_one_of(False, spec.enum) else None


def _unknown_field_errors(inputs: Mapping[str, FormInput], fields: SubmittedFields) -> dict[str, str]:
    own_fields = {DELIVERY_FIELD} if fields.from_text else set[str]()
    unknown = (name for name in fields.values if name not in inputs and name not in own_fields)
    return {name[:MAX_NAME_SHOWN]: "is not a field of this form" for name in unknown}
