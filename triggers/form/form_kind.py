"""The kind `form_submit`: the gateway serves the form and accepts its fields."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase
from ulid import ULID

from triggers.event_expressions import ExpressionError
from triggers.form.form_body import SubmittedFields
from triggers.form.form_validation import FormRefusedError, validate_form
from triggers.occurrence import Occurrence
from triggers.register.trigger import Trigger, call_paths
from triggers.register.trigger_record import TriggerRecord
from triggers.trigger_kind import Role
from workers.settings import Settings
from workflows.package.trigger_specs.base_spec import is_expression
from workflows.package.trigger_specs.form_spec import FormInput, FormSpec
from workflows.package.trigger_specs.trigger_spec import TriggerSpec


class FormKind:
    type = "form_submit"
    role: Role = "gateway"

    def inactive_reason(self, trigger: Trigger, settings: Settings) -> str | None:  # noqa: ARG002 -- the protocol's
        if trigger.apps or is_expression(trigger.spec.app_id):
            return None
        return "it names no app, so that it has no address; add apps to it"

    def app_key_refusal(self, spec: TriggerSpec) -> str | None:  # noqa: ARG002 -- the protocol's
        return None

    def initial_fields(
        self, trigger: Trigger, now: datetime, before: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        del trigger, now, before
        return {}

    async def describe(
        self,
        trigger: Trigger,
        record: TriggerRecord | None,  # noqa: ARG002 -- the protocol's
        database: AsyncDatabase[dict[str, Any]],  # noqa: ARG002 -- the protocol's
        settings: Settings,  # noqa: ARG002 -- the protocol's
    ) -> Mapping[str, Any]:
        spec = _form_spec(trigger)
        return {
            "addresses": call_paths(trigger, "/forms"),
            "fields": {name: _describe_input(field) for name, field in spec.inputs.items()},
        }

    def manual_event(self, trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Occurrence:
        """Validates `event` as the fields of a form, typed as a program sends them."""
        try:
            values = validate_form(_form_spec(trigger).inputs, SubmittedFields(event, from_text=False))
        except FormRefusedError as error:
            raise ExpressionError("; ".join(f"{name} {problem}" for name, problem in error.errors.items())) from None
        return Occurrence(trigger, app_id, f"manual:{ULID()}", now, values)


def _form_spec(trigger: Trigger) -> FormSpec:
    if not isinstance(trigger.spec, FormSpec):
        raise TypeError(f"{trigger.id} is no form")
    return trigger.spec


def _describe_input(spec: FormInput) -> Mapping[str, Any]:
    facts = {"type": spec.type, "format": spec.format, "required": spec.required, "default": spec.default}
    facts |= {"enum": list(spec.enum), "max_length": spec.max_length if spec.type == "string" else None}
    return {name: value for name, value in facts.items() if value is not None and value != []}


KIND = FormKind()
