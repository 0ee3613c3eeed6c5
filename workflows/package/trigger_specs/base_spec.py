"""The fields of every trigger: name, apps, and the input of its runs."""

from typing import Any

from pydantic import Field, model_validator

from workflows.package.trigger_specs.priority import DEFAULT_PRIORITY, Priority
from workflows.package.trigger_specs.spec_field_types import MappedValue, Name, Spec, SpecFieldError
from workflows.package.trigger_specs.ui_responses import UIResponses


class BaseTrigger(Spec):
    name: Name
    description: str = ""
    input: dict[str, MappedValue] = Field(default_factory=dict)
    message: MappedValue = None
    apps: tuple[Name, ...] = ()
    app_id: MappedValue = None  # a literal app, or =expr over the event
    priority: Priority = Field(default=DEFAULT_PRIORITY, description="9 is most urgent")
    ui_responses: UIResponses = Field(
        default_factory=dict, description="Answers for tools that ask a person: {tool: {…}}"
    )

    @model_validator(mode="after")
    def _check_apps(self) -> "BaseTrigger":
        if self.apps and self.app_id is not None:
            raise SpecFieldError("app_id", "give either apps or app_id, not both")
        return self

    @property
    def literal_app(self) -> str | None:
        """Returns the app that `app_id` names without an expression, else None."""
        return None if self.app_id is None or is_expression(self.app_id) else str(self.app_id)

    @property
    def listed_apps(self) -> tuple[str, ...]:
        """Returns the apps that are known without an event and without a database."""
        app = self.literal_app
        return self.apps if app is None else (app,)


def is_expression(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("=")
