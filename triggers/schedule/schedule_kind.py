"""The kind `schedule`: a clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pymongo.asynchronous.database import AsyncDatabase

from triggers.occurrence import Occurrence
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import TriggerRecord
from triggers.schedule.schedule_apps import source_refusal
from triggers.schedule.schedule_store import read_state
from triggers.schedule.schedule_triggers import app_source, arm_schedule, has_apps, spec_key, spec_of
from triggers.schedule.tick_plan import nominal_times
from triggers.schedule.tick_requests import manual_tick_occurrence
from workers.settings import Settings
from workflows.package.trigger_specs.schedule_spec import AppsOfCollection, ScheduleSpec
from workflows.package.trigger_specs.spec_field_types import format_duration
from workflows.package.trigger_specs.trigger_spec import TriggerSpec

MAX_TIMES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class ScheduleKind:
    type: str = "schedule"
    role: Literal["scheduler"] = "scheduler"

    def inactive_reason(self, trigger: Trigger, settings: Settings) -> str | None:
        if not has_apps(trigger):
            return "names no apps, so it starts nothing; add apps: [...]"
        source = app_source(trigger)
        return None if source is None else source_refusal(source, own_database=settings.database)

    def app_key_refusal(self, spec: TriggerSpec) -> str | None:
        if isinstance(spec.apps, AppsOfCollection):
            return "its apps come from a collection, which may hold those of others; leave apps out"
        return None

    def initial_fields(
        self, trigger: Trigger, now: datetime, before: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Returns the new schedule state; nothing when the clock is unchanged.

        Of the state before an edit, only a tick that is due at this moment remains.
        """
        spec, state = spec_of(trigger), (before or {}).get("schedule") or {}
        due, _ = read_state({"schedule": state})
        if due is not None and state.get("spec_key") == spec_key(spec):
            return {}
        return {"schedule": arm_schedule(spec, now, due=due)}

    async def describe(
        self,
        trigger: Trigger,
        record: TriggerRecord | None,
        database: AsyncDatabase[dict[str, Any]],  # noqa: ARG002 -- the protocol's
        settings: Settings,
    ) -> Mapping[str, Any]:
        spec, now = spec_of(trigger), datetime.now(UTC)
        state = {} if record is None else record.document.get("schedule") or {}
        next_at, has_ended = read_state({"schedule": state})
        inactive = self.inactive_reason(trigger, settings)
        times = [] if inactive or has_ended else list(islice(nominal_times(spec, after=now), MAX_TIMES_SHOWN))
        zone = ZoneInfo(spec.timezone)
        return {
            "clock": _describe_clock(spec),
            "timezone": spec.timezone,
            "next": [{"utc": time, "local": time.astimezone(zone).isoformat()} for time in times],
            "nothing_next": _idle_reason(inactive, record, has_ended=has_ended, any_time=bool(times)),
            "last_nominal_at": state.get("last_at"),
            "ended_at": state.get("ended_at"),
            # A scheduler is behind, or none is running.
            "late_s": None if next_at is None or next_at > now else round((now - next_at).total_seconds(), 3),
        }

    def manual_event(self, trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Occurrence:
        return manual_tick_occurrence(trigger, app_id, event, now)


def _describe_clock(spec: ScheduleSpec) -> str:
    if spec.cron is not None:
        return spec.cron
    return f"at {spec.at}" if spec.every is None else f"every {format_duration(spec.every)}"


def _idle_reason(inactive: str | None, record: TriggerRecord | None, *, has_ended: bool, any_time: bool) -> str | None:
    """Returns why it starts no run at its next times."""
    if inactive is not None:
        return inactive
    if has_ended or not any_time:
        return "its last time has passed"
    paused = None if record is None else record.paused
    return None if paused is None else "it is paused: these times pass without a run"


KIND = ScheduleKind()
