"""Occurrences: an event of any kind of trigger, and its run request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from triggers.event_expressions import ExpressionError, resolve, resolve_text
from triggers.register.trigger import Trigger
from workers.store.run import RunRequest, TriggerEvent
from workflows.context.expressions.bounded_expression import StepBudget

MAX_APP_ID_LENGTH = 200
CLOUD_EVENTS_VERSION = "1.0"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event of a trigger. Its expressions see `data`.

    `id` is unique within the source: a nominal time, a resume token or a delivery id.
    """

    trigger: Trigger
    app_id: str
    id: str
    time: datetime
    data: Any = field(repr=False)
    nominal_at: datetime | None = None

    @property
    def source(self) -> str:
        return f"/apps/{self.app_id}/workflows/{self.trigger.workflow}/triggers/{self.trigger.spec.name}"

    @property
    def type(self) -> str:
        return f"unattended.trigger.{self.trigger.spec.type}"

    def as_cloud_event(self) -> Mapping[str, Any]:
        """Leaves out the data, which may be large and private."""
        return {
            "specversion": CLOUD_EVENTS_VERSION,
            "id": self.id,
            "source": self.source,
            "type": self.type,
            "time": self.time.isoformat(),
        }


def build_run_request(
    occurrence: Occurrence,
    *,
    run_input: Mapping[str, Any] | None = None,
    budget: StepBudget | None = None,
    **request_fields: Any,
) -> RunRequest:
    """Maps an occurrence to a run request.

    Raises ExpressionError when the trigger's expressions do not fit it.

    `run_input` replaces the mapped input. `request_fields` are further fields, such as `not_before` and `order_key`.
    """
    spec = occurrence.trigger.spec
    return RunRequest(
        app_id=occurrence.app_id,
        workflow=occurrence.trigger.workflow,
        trigger=TriggerEvent(
            type=spec.type,
            name=spec.name,
            id=occurrence.id,
            fired_at=occurrence.time,
            nominal_at=occurrence.nominal_at,
        ),
        input=resolve(spec.input, occurrence.data, budget) if run_input is None else run_input,
        message=resolve_text(spec.message, occurrence.data, budget),
        priority=spec.priority,
        ui_responses=None if occurrence.trigger.app_id is None else spec.ui_responses,
        **request_fields,
    )


def select_app(template: Any, data: Any, budget: StepBudget | None = None) -> str:
    """Returns the app that `app_id: =expr` selects from this event."""
    app_id = parse_app_id(resolve_text(template, data, budget))
    if app_id is None:
        raise ExpressionError(f"app_id {template!r} selects no usable name")
    return app_id


def parse_app_id(text: str | None) -> str | None:
    """Returns the text if it can be an app's id, else None."""
    return text if text and len(text) <= MAX_APP_ID_LENGTH and text.isprintable() else None
