"""Schedule triggers: triggers with a clock, and the state that they start with."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from triggers.register.trigger import Trigger, declared_triggers, shadowing_spec
from triggers.schedule.tick_plan import MILLISECOND, next_nominal
from workflows.package.normal_form.package_model import Package
from workflows.package.trigger_specs.schedule_spec import AppsOfCollection, ScheduleSpec


def declared_schedules(packages: Mapping[str, Package]) -> dict[str, Trigger]:
    return {trigger.id: trigger for trigger in declared_triggers(packages) if isinstance(trigger.spec, ScheduleSpec)}


def spec_of(trigger: Trigger) -> ScheduleSpec:
    assert isinstance(trigger.spec, ScheduleSpec), trigger.id  # noqa: S101 -- only schedules come here
    return trigger.spec


def app_source(trigger: Trigger) -> AppsOfCollection | None:
    """Returns the collection with a package schedule's apps.

    A runtime schedule has one app instead.
    """
    apps = spec_of(trigger).apps
    return apps if trigger.app_id is None and isinstance(apps, AppsOfCollection) else None


def has_apps(trigger: Trigger) -> bool:
    return bool(trigger.apps) or app_source(trigger) is not None


def spec_key(spec: ScheduleSpec) -> str:
    """Joins the fields that decide the nominal times.

    A change makes the stored next time invalid.
    """
    parts = {
        "cron": spec.cron,
        "every": spec.every,
        "at": spec.at_utc,
        "zone": spec.timezone,
        "from": spec.starts_at,
        "to": spec.ends_at,
    }
    return " ".join(f"{name} {value}" for name, value in parts.items() if value is not None)


def arm_schedule(spec: ScheduleSpec, now: datetime, *, due: datetime | None = None) -> dict[str, Any]:
    """Returns the state of a new clock, which waits for its next nominal time.

    `due`: the time that the clock before an edit waited for. It stays due if it has passed and is also a time of the
    new clock.
    """
    after = due - MILLISECOND if due is not None and due <= now and _is_nominal(spec, due) else now
    next_at = next_nominal(spec, after=after)
    when = {"ended_at": now} if next_at is None else {"next_at": next_at}
    return {"spec_key": spec_key(spec), **when}


def _is_nominal(spec: ScheduleSpec, time: datetime) -> bool:
    return next_nominal(spec, after=time - MILLISECOND) == time


def is_shadowed(packages: Mapping[str, Package], trigger: Trigger) -> bool:
    """Returns whether a package's trigger goes before this runtime trigger."""
    app_id = trigger.app_id
    return app_id is not None and shadowing_spec(packages, trigger.workflow, trigger.spec.name, app_id) is not None
