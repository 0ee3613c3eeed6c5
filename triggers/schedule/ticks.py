"""A tick: one nominal time of a schedule for one app, and the run that is asked for."""

from dataclasses import dataclass, field
from datetime import datetime

from triggers.happening import build_run_request
from triggers.register.record import TriggerRecord
from triggers.register.trigger import Trigger
from triggers.schedule.happenings import tick_occurrence
from triggers.schedule.jitter import jittered_start
from triggers.schedule.schedules import spec_of
from triggers.schedule.store import DueSchedule
from workers.store.run import RunRequest


@dataclass(frozen=True, slots=True, eq=False)
class Tick:
    due: DueSchedule
    nominal: datetime
    request: RunRequest = field(repr=False)

    @property
    def trigger_id(self) -> str:
        return self.due.id

    @property
    def trigger(self) -> Trigger:
        return self.due.trigger

    @property
    def record(self) -> TriggerRecord:
        return self.due.record

    @property
    def app_id(self) -> str:
        return self.request.app_id


def make_tick(due: DueSchedule, nominal: datetime, app_id: str, *, fired_at: datetime) -> Tick:
    """Raises PayloadError for expressions that cannot be computed."""
    trigger = due.trigger
    happening = tick_occurrence(trigger, app_id, nominal, fired_at=fired_at)
    order_key = order_key_of(trigger)
    request = build_run_request(
        happening,
        not_before=jittered_start(spec_of(trigger), due.id, app_id, nominal),
        order_key=order_key,
        order_seq=order_key and happening.id,
    )
    return Tick(due, nominal, request)


def order_key_of(trigger: Trigger) -> str | None:
    """Of runs that may wait for each other: the store lets one of them be worked on at a time."""
    return f"schedule/{trigger.label}" if spec_of(trigger).overlap in ("buffer_one", "cancel_previous") else None
