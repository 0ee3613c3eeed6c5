"""A form as a trigger: its fields, as they are shown and as they are checked."""

from typing import Any, Literal

from pydantic import Field, model_validator

from workflows.context.value_types import is_of_type, is_one_of
from workflows.package.trigger_specs.trigger import BaseTrigger
from workflows.package.trigger_specs.values import FieldError, Spec


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
    def _default_is_a_valid_answer(self) -> "FormInput":
        if self.default is None:
            return self
        if not is_of_type(self.default, self.type):
            raise FieldError("default", f"default is not of type {self.type}; change the default or the type")
        if self.enum and not is_one_of(self.default, self.enum):
            raise FieldError("default", "default is not one of the values in enum; add it there or change it")
        return self


class FormSpec(BaseTrigger):
    type: Literal["form_submit"] = "form_submit"
    title: str = Field(default="", description="Of the page; without it the name")
    inputs: dict[str, FormInput] = Field(min_length=1)
