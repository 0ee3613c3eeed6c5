"""The spec of form triggers: the form's fields, for display and for validation."""

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from workflows.context.values.value_types import is_of_type, is_one_of
from workflows.package.trigger_specs.base_spec import BaseTrigger
from workflows.package.trigger_specs.spec_field_types import Spec, SpecFieldError

DELIVERY_FIELD = "_delivery"  # hidden in each rendered page
# Expressions see `_request` beside the fields; browsers fill `_charset_` with their character set.
RESERVED_NAMES = (DELIVERY_FIELD, "_request", "_charset_")


class FormInput(Spec):
    type: Literal["string", "integer", "number", "boolean"] = "string"
    format: Literal["email", "date", "uri"] | None = None
    required: bool = False
    default: Any = None
    enum: tuple[Any, ...] = ()
    label: str = Field(default="", description="Shown instead of the name")
    description: str = ""
    multiline: bool = False
    max_length: int = Field(default=10_000, ge=1)

    @model_validator(mode="after")
    def _check_default(self) -> "FormInput":
        if self.default is None:
            return self
        if not is_of_type(self.default, self.type):
            raise SpecFieldError("default", f"the default is not of type {self.type}; change the default or the type")
        if self.enum and not is_one_of(self.default, self.enum):
            raise SpecFieldError("default", "the default is not one of the values in enum; add it there or change it")
        return self


class FormSpec(BaseTrigger):
    type: Literal["form_submit"] = "form_submit"
    description: str = Field(default="", description="Shown on the page, under its title")
    title: str = Field(default="", description="Title of the page; default: the name")
    inputs: dict[str, FormInput] = Field(min_length=1)

    @field_validator("inputs")
    @classmethod
    def _check_input_names(cls, inputs: dict[str, FormInput]) -> dict[str, FormInput]:
        for name in inputs:
            if not name.strip() or not name.isprintable():
                raise ValueError("a field needs a name of printable characters")
            if name in RESERVED_NAMES:
                raise ValueError(f"{name} is a reserved name; rename the field")
        return inputs
