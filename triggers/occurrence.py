"""A happening: what every kind of trigger makes of the outside world, in the shape of a CloudEvent, and the one way
from there to a run request.
"""

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
    """`id` makes it unlike any other of its source: a nominal time, a resume token, a delivery id. `data` is what the
    trigger's expressions see."""

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
        """Without its data, which may be large and private."""
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
    effort: StepBudget | None = None,
    **request_fields: Any,
) -> RunRequest:
    """Raises PayloadError for what the trigger's expressions cannot be computed from. `run_input` is for a kind whose
    data is the input, `effort` what the expressions may cost; `more` are further fields of the request, such as
    `not_before` and `order_key`."""
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
        input=resolve(spec.input, occurrence.data, effort) if run_input is None else run_input,
        message=resolve_text(spec.message, occurrence.data, effort),
        priority=spec.priority,
        ui_responses=None if occurrence.trigger.app_id is None else spec.ui_responses,
        **request_fields,
    )


def select_app(template: Any, data: Any, effort: StepBudget | None = None) -> str:
    """The app that `app_id: =expr` names in this event."""
    app_id = resolve_text(template, data, effort)
    if not app_id or len(app_id) > MAX_APP_ID_LENGTH or not app_id.isprintable():
        raise ExpressionError(f"app_id {template!r} selects no usable name")
    return app_id
