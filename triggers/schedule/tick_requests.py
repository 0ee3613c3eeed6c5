"""Tick requests: one nominal time of a schedule for one app becomes a run request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any

from ulid import ULID

from triggers.occurrence import Occurrence, build_run_request
from triggers.register.trigger import Trigger
from triggers.schedule.schedule_store import DueSchedule
from triggers.schedule.schedule_triggers import spec_of
from triggers.schedule.tick_plan import MILLISECOND, next_nominal
from workers.store.run import RunRequest
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

_BITS = 64


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
    def app_id(self) -> str:
        return self.request.app_id


def make_tick(due: DueSchedule, nominal: datetime, app_id: str, *, fired_at: datetime) -> Tick:
    """Raises ExpressionError for expressions that cannot be computed."""
    trigger = due.trigger
    occurrence = tick_occurrence(trigger, app_id, nominal, fired_at=fired_at)
    order_key = order_key_of(trigger)
    request = build_run_request(
        occurrence,
        not_before=jittered_start(spec_of(trigger), due.id, app_id, nominal),
        order_key=order_key,
        order_seq=order_key and occurrence.id,
    )
    return Tick(due, nominal, request)


def order_key_of(trigger: Trigger) -> str | None:
    """Returns the order key of runs of which the store releases one at a time."""
    return f"schedule/{trigger.label}" if spec_of(trigger).overlap in ("buffer_one", "cancel_previous") else None


def tick_occurrence(trigger: Trigger, app_id: str, nominal: datetime, *, fired_at: datetime) -> Occurrence:
    """Builds an id from the nominal time alone, so that no time runs twice."""
    at = nominal.isoformat()
    data = {"nominal_at": at, "fired_at": fired_at.isoformat(), "app_id": app_id}
    return Occurrence(trigger, app_id, at, fired_at, data, nominal_at=nominal)


def manual_tick_occurrence(trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Occurrence:
    at = now.isoformat()
    data = {"nominal_at": at, "fired_at": at, "app_id": app_id, **event}
    return Occurrence(trigger, app_id, f"manual:{ULID()}", now, data)


def jittered_start(spec: ScheduleSpec, trigger_id: str, app_id: str, nominal: datetime) -> datetime | None:
    """Returns when a run may start, before the next nominal time; None without jitter."""
    if not spec.jitter:
        return None
    widest = spec.jitter
    following = next_nominal(spec, after=nominal)
    if following is not None:
        widest = min(widest, following - nominal - MILLISECOND)
    return (
        nominal
        + (widest * _hash_fraction(f"{trigger_id}\0{app_id}\0{nominal.isoformat()}")) // MILLISECOND * MILLISECOND
    )


def _hash_fraction(text: str) -> float:
    """Maps a text to a number from 0 to 1."""
    digest = blake2b(text.encode(), digest_size=_BITS // 8).digest()
    return int.from_bytes(digest, "big") / float((1 << _BITS) - 1)
