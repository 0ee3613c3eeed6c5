"""Firing one schedule: what is due of it now, what a pause or the misfire policy passes over, and what came of it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from triggers.schedule.plan import EPOCH, PAUSED, Plan, pass_over, plan_tick
from triggers.schedule.schedules import app_source, is_shadowed, spec_of
from triggers.schedule.skips import NO_WORKFLOW, SHADOWED, Skip, Skips, missed, none_of
from triggers.schedule.starting import Started
from triggers.schedule.store import Due, Move
from workflows.package.models import Package

log = logging.getLogger(__name__)

PATIENCE = timedelta(minutes=1)
_NOTHING: tuple[datetime, ...] = ()


@dataclass(slots=True)
class Firing:
    due: Due
    plan: Plan
    fire: Sequence[datetime]  # of the plan, unless the trigger is passed over as a whole
    skips: Skips = field(default_factory=Skips)
    accepted: int = 0
    failed: bool = False  # some of it is not over: it stays due

    @property
    def id(self) -> str:
        return self.due.id

    @property
    def starts(self) -> int:
        """How many runs, where that is known before."""
        return len(self.fire) * len(self.due.trigger.apps)

    @property
    def has_collection(self) -> bool:
        return bool(self.fire) and app_source(self.due.trigger) is not None

    def add(self, started: Started) -> None:
        self.accepted += started.accepted
        self.skips.add(started.skips)
        self.failed = self.failed or started.failed

    def move(self) -> Move:
        last_at = self.fire[-1] if self.fire else None
        return Move(self.due, self.plan.next_at, last_at=last_at, skips=self.skips, accepted=self.accepted)


def firing_of(due: Due, now: datetime, packages: Mapping[str, Package]) -> Firing:
    spec, nominal = spec_of(due.trigger), max(due.next_at, EPOCH)
    until = _passed_until(due, now)
    skips: list[Skip] = []
    if until is not None and nominal <= until:
        passed, following = pass_over(spec, due=nominal, until=until)
        skips = missed(passed)
        if following is None:
            return Firing(due, Plan(_NOTHING, 0, None, None), _NOTHING, Skips(skips))
        nominal = following
    plan = plan_tick(spec, due=nominal, now=now)
    skips += missed(plan.missed)
    why = _passed_over(due, packages)
    if why is not None:
        return Firing(due, plan, _NOTHING, Skips([*skips, *none_of(plan, why)]))
    return Firing(due, plan, plan.fire, Skips(skips))


def is_anothers(due: Due, now: datetime, packages: Mapping[str, Package], *, looking_since: datetime) -> bool:
    """In a rollout another scheduler may have the package already, or still: it gets the time to fire, also after an
    outage that both have waited through."""
    return due.trigger.workflow not in packages and now - max(due.next_at, looking_since) < PATIENCE


def _passed_over(due: Due, packages: Mapping[str, Package]) -> str | None:
    if due.trigger.workflow not in packages:
        return NO_WORKFLOW
    return SHADOWED if is_shadowed(packages, due.trigger) else None


def _passed_until(due: Due, now: datetime) -> datetime | None:
    """A paused tick is not made up for, also when nobody looked before the trigger was resumed."""
    if due.record.paused is not None:
        return now
    resumed = due.record.document.get("resumed_at")
    return min(resumed, now) if isinstance(resumed, datetime) else None


def report(firing: Firing) -> None:
    extra = {"trigger": firing.id, "runs": firing.accepted, "ticks": len(firing.fire)}
    if firing.fire and log.isEnabledFor(logging.INFO):
        log.info("schedule_fired", extra={**extra, "nominal_at": firing.fire[-1].isoformat()})
    for reason, last in firing.skips.last.items():
        level = logging.DEBUG if reason == PAUSED else logging.WARNING
        log.log(
            level,
            "schedule_skipped",
            extra={
                "trigger": firing.id,
                "app_id": last.app_id,
                "reason": reason,
                "count": firing.skips.counts[reason],
                "nominal_at": last.nominal_at.isoformat(),
            },
        )
