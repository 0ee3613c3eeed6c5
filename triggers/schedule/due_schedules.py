"""Due schedules: reads them, and plans which nominal times fire."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from triggers.bounded_cache import BoundedCache
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import read_record
from triggers.schedule.schedule_store import DueSchedule, ScheduleMove, read_state
from triggers.schedule.schedule_triggers import app_source, is_shadowed, spec_key, spec_of
from triggers.schedule.tick_plan import (
    EPOCH,
    NO_WORKFLOW,
    PAUSED,
    SHADOWED,
    Skip,
    Skips,
    TickPlan,
    missed_skips,
    plan_tick,
    skip_paused,
    skips_of_plan,
)
from triggers.schedule.tick_starter import StartResult
from workflows.package.normal_form.package_model import Package
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

log = logging.getLogger(__name__)

HANDOVER_TIMEOUT = timedelta(minutes=1)
MAX_LOGGED = 1000
MAX_CACHED = 10_000
MAX_CACHED_SPEC_LENGTH = 4096  # characters: ten thousand specs of 64 KB would not fit a scheduler's memory
_NO_TIMES: tuple[datetime, ...] = ()

Document = Mapping[str, Any]


class DueReader:
    def __init__(self) -> None:
        self._logged: dict[str, None] = {}
        self._cache: BoundedCache[tuple[Any, Trigger]] = BoundedCache(MAX_CACHED)  # with the version that was read

    def read_due(self, document: Document, declared_triggers: Mapping[str, Trigger]) -> DueSchedule | None:
        """Returns None for a schedule of other packages or an unreadable one."""
        try:
            if document.get("app_id") is None:
                return _read_declared(document, declared_triggers)
            trigger = self._read_runtime_trigger(document)
            return DueSchedule(trigger.id, trigger, _read_next_at(document), read_record({**document, "spec": None}))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._log_unreadable(str(document["_id"]), f"{type(error).__name__}: {error}")
        return None

    def _read_runtime_trigger(self, document: Document) -> Trigger:
        """Validates a spec once: that costs more than the rest of its tick."""
        id_, version = document["_id"], (document["revision"], document["spec"]["json"])
        cached_version, trigger = self._cache.get(id_) or (None, None)
        if trigger is None or cached_version != version:
            trigger = read_record(document).trigger
            if trigger is None or not isinstance(trigger.spec, ScheduleSpec):
                raise ValueError("its spec was written by another version, or names a zone that is not known here")
        if len(version[1]) <= MAX_CACHED_SPEC_LENGTH:
            self._cache.put(id_, (version, trigger))
        return trigger

    def _log_unreadable(self, id_: str, reason: str) -> None:
        """Logs once per schedule, not with each tick."""
        if id_ in self._logged:
            return
        if len(self._logged) >= MAX_LOGGED:
            self._logged.clear()
        self._logged[id_] = None
        log.error("schedule_unreadable", extra={"trigger": id_, "error": reason[:300]})


def _read_declared(document: Document, declared_triggers: Mapping[str, Trigger]) -> DueSchedule | None:
    id_, state = document["_id"], document["schedule"]
    trigger = declared_triggers.get(id_)
    if trigger is None or spec_key(spec_of(trigger)) != state.get("spec_key"):
        return None
    identified = {**document, "workflow": trigger.workflow, "name": trigger.spec.name}
    return DueSchedule(id_, trigger, _read_next_at(document), read_record(identified))


def _read_next_at(document: Document) -> datetime:
    next_at, _ = read_state(document)
    if next_at is None:
        raise ValueError("its next time is missing")
    return next_at


@dataclass(slots=True)
class ScheduleFire:
    """One schedule that is due: its plan, and the results so far."""

    due: DueSchedule
    plan: TickPlan
    fire_times: Sequence[datetime]  # of the plan; empty when the trigger is skipped as a whole
    skips: Skips = field(default_factory=Skips)
    accepted: int = 0
    has_failed: bool = False  # a run was refused: the schedule stays due

    @property
    def id(self) -> str:
        return self.due.id

    @property
    def run_count(self) -> int:
        """The number of runs, as far as the apps are known before."""
        return len(self.fire_times) * len(self.due.trigger.apps)

    @property
    def has_app_collection(self) -> bool:
        return bool(self.fire_times) and app_source(self.due.trigger) is not None

    def add(self, result: StartResult) -> None:
        self.accepted += result.accepted
        self.skips.add(result.skips)
        self.has_failed = self.has_failed or result.has_failed

    def as_move(self) -> ScheduleMove:
        last_at = self.fire_times[-1] if self.fire_times else None
        return ScheduleMove(self.due, self.plan.next_at, last_at=last_at, skips=self.skips, accepted=self.accepted)


def plan_fire(due: DueSchedule, now: datetime, packages: Mapping[str, Package]) -> ScheduleFire:
    spec, nominal = spec_of(due.trigger), max(due.next_at, EPOCH)
    until = _paused_until(due, now)
    skips: list[Skip] = []
    if until is not None and nominal <= until:
        missed, following = skip_paused(spec, due=nominal, until=until)
        skips = missed_skips(missed)
        if following is None:
            return ScheduleFire(due, TickPlan(_NO_TIMES, 0, None, None), _NO_TIMES, Skips(skips))
        nominal = following
    plan = plan_tick(spec, due=nominal, now=now)
    skips += missed_skips(plan.missed)
    reason = _skip_reason(due, packages)
    if reason is not None:
        return ScheduleFire(due, plan, _NO_TIMES, Skips([*skips, *skips_of_plan(plan, reason)]))
    return ScheduleFire(due, plan, plan.fire_times, Skips(skips))


def is_for_another_scheduler(
    due: DueSchedule, now: datetime, packages: Mapping[str, Package], *, ticking_since: datetime
) -> bool:
    """Leaves a schedule without its package to other schedulers for a minute.

    In a rollout another scheduler may have the package already, or still. The minute begins anew after an outage.
    """
    return due.trigger.workflow not in packages and now - max(due.next_at, ticking_since) < HANDOVER_TIMEOUT


def _skip_reason(due: DueSchedule, packages: Mapping[str, Package]) -> str | None:
    if due.trigger.workflow not in packages:
        return NO_WORKFLOW
    return SHADOWED if is_shadowed(packages, due.trigger) else None


def _paused_until(due: DueSchedule, now: datetime) -> datetime | None:
    """Returns the end of the pause, also of one that is over."""
    if due.record.paused is not None:
        return now
    resumed = due.record.document.get("resumed_at")
    return min(resumed, now) if isinstance(resumed, datetime) else None


def log_fire(fire: ScheduleFire) -> None:
    extra = {"trigger": fire.id, "runs": fire.accepted, "ticks": len(fire.fire_times)}
    if fire.fire_times and log.isEnabledFor(logging.INFO):
        log.info("schedule_fired", extra={**extra, "nominal_at": fire.fire_times[-1].isoformat()})
    for reason, last in fire.skips.last_by_reason.items():
        level = logging.DEBUG if reason == PAUSED else logging.WARNING
        log.log(
            level,
            "schedule_skipped",
            extra={
                "trigger": fire.id,
                "app_id": last.app_id,
                "reason": reason,
                "count": fire.skips.counts[reason],
                "nominal_at": last.nominal_at.isoformat(),
            },
        )
