"""Firing one schedule: what is due of it now, what a pause or the misfire policy passes over, and what came of it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from triggers.schedule.plan import EPOCH, PAUSED, TickPlan, skip_paused, plan_tick
from triggers.schedule.schedules import app_source, is_shadowed, spec_of
from triggers.schedule.skips import NO_WORKFLOW, SHADOWED, Skip, Skips, missed_skips, skips_of_plan
from triggers.schedule.starting import StartResult
from triggers.schedule.store import DueSchedule, ScheduleMove
from workflows.package.models import Package

log = logging.getLogger(__name__)

HANDOVER_TIMEOUT = timedelta(minutes=1)
_NO_TIMES: tuple[datetime, ...] = ()


@dataclass(slots=True)
class ScheduleFire:
    due: DueSchedule
    plan: TickPlan
    fire_times: Sequence[datetime]  # of the plan, unless the trigger is passed over as a whole
    skips: Skips = field(default_factory=Skips)
    accepted: int = 0
    has_failed: bool = False  # some of it is not over: it stays due

    @property
    def id(self) -> str:
        return self.due.id

    @property
    def run_count(self) -> int:
        """How many runs, where that is known before."""
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
        passed, following = skip_paused(spec, due=nominal, until=until)
        skips = missed_skips(passed)
        if following is None:
            return ScheduleFire(due, TickPlan(_NO_TIMES, 0, None, None), _NO_TIMES, Skips(skips))
        nominal = following
    plan = plan_tick(spec, due=nominal, now=now)
    skips += missed_skips(plan.missed)
    why = _skip_reason(due, packages)
    if why is not None:
        return ScheduleFire(due, plan, _NO_TIMES, Skips([*skips, *skips_of_plan(plan, why)]))
    return ScheduleFire(due, plan, plan.fire_times, Skips(skips))


def is_for_another_scheduler(due: DueSchedule, now: datetime, packages: Mapping[str, Package], *, ticking_since: datetime) -> bool:
    """In a rollout another scheduler may have the package already, or still: it gets the time to fire, also after an
    outage that both have waited through."""
    return due.trigger.workflow not in packages and now - max(due.next_at, ticking_since) < HANDOVER_TIMEOUT


def _skip_reason(due: DueSchedule, packages: Mapping[str, Package]) -> str | None:
    if due.trigger.workflow not in packages:
        return NO_WORKFLOW
    return SHADOWED if is_shadowed(packages, due.trigger) else None


def _paused_until(due: DueSchedule, now: datetime) -> datetime | None:
    """A paused tick is not made up for, also when nobody looked before the trigger was resumed."""
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
