"""What a scheduler measures. Counted only by the scheduler that moved a schedule on, so that sums are right."""

from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge

from triggers.schedule.plan import Plan
from triggers.schedule.store import Skip

LATE_FIRED = "late_fired"


class ScheduleMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = Gauge(
            "unattended_schedule_lag_seconds",
            "Seconds between the newest fired nominal time and its run",
            ["trigger"],
            registry=registry,
        )
        self._misfires = Counter(
            "unattended_schedule_misfires_total",
            "Nominal times seen only after the grace, by what became of them",
            ["trigger", "reason"],
            registry=registry,
        )
        self._skips = Counter(
            "unattended_schedule_skips_total",
            "Nominal times that started no run for an app, or for none",
            ["trigger", "reason"],
            registry=registry,
        )
        self._next = Gauge(
            "unattended_schedule_next_fire_timestamp_seconds",
            "Next nominal time as Unix time",
            ["trigger"],
            registry=registry,
        )

    def next_fire(self, trigger: str, at: datetime) -> None:
        self._next.labels(trigger).set(at.timestamp())

    def fired(self, trigger: str, plan: Plan, fired_at: datetime) -> None:
        if plan.fire:
            self._lag.labels(trigger).set(max(0.0, (fired_at - plan.fire[-1]).total_seconds()))
        if plan.late:
            self._misfires.labels(trigger, LATE_FIRED).inc(plan.late)
        if plan.missed is not None:
            self._misfires.labels(trigger, plan.missed.reason).inc(plan.missed.count)

    def skipped(self, trigger: str, skip: Skip) -> None:
        self._skips.labels(trigger, skip.reason).inc(skip.count)

    def forget(self, trigger: str) -> None:
        """A removed schedule must not look like one that is overdue."""
        for gauge in (self._lag, self._next):
            gauge.remove_by_labels({"trigger": trigger})
