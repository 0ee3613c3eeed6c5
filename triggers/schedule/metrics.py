"""What a scheduler measures. Counted only by the scheduler that moved a schedule on, so that sums are right."""

from collections.abc import Collection, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge

from triggers.capped_labels import OTHER, CappedLabels
from triggers.register.trigger import Trigger
from triggers.schedule.firing import Firing

LATE_FIRED = "late_fired"
MOST_AT_RUN_TIME = 100  # of the triggers that were made at run time; the others are counted as one


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
        self._gauged: set[str] = set()
        self._made: dict[str, str] = {}  # of those made at run time whose next time is shown: by id the label
        self._made_labels = CappedLabels(MOST_AT_RUN_TIME)

    def shown_at_run_time(self) -> Collection[str]:
        return tuple(self._made)

    def next_fires(self, times: Mapping[str, datetime]) -> None:
        """Of all that are shown: a removed schedule must not look like one that is overdue."""
        self._made = {id_: label for id_, label in self._made.items() if id_ in times}
        earliest: dict[str, datetime] = {}
        for id_, at in times.items():
            label = self._made.get(id_, id_)
            earliest[label] = min(at, earliest.get(label, at))
        for label in self._gauged - earliest.keys():
            self._forget(label)
        for label, at in earliest.items():
            self._show(label, at)

    def fired(self, firing: Firing, now: datetime) -> None:
        trigger, plan = firing.due.trigger, firing.plan
        label = self._label(trigger)
        if plan.next_at is None:
            self._forget(label)
        elif trigger.app_id is None or trigger.id in self._made:
            self._show(label, plan.next_at)
        if firing.fire:
            self._lag.labels(label).set(max(0.0, (now - firing.fire[-1]).total_seconds()))
            self._gauged.add(label)
        if plan.late and firing.fire:
            self._misfires.labels(label, LATE_FIRED).inc(plan.late)
        if plan.missed is not None:
            self._misfires.labels(label, plan.missed.reason).inc(plan.missed.count)
        for reason, count in firing.skips.counts.items():
            self._skips.labels(label, reason).inc(count)

    def _label(self, trigger: Trigger) -> str:
        if trigger.app_id is None:
            return trigger.label
        label = self._made_labels.of(trigger.label)
        if label != OTHER and len(self._made) < MOST_AT_RUN_TIME:
            self._made[trigger.id] = label
        return label

    def _show(self, label: str, next_at: datetime) -> None:
        self._next.labels(label).set(next_at.timestamp())
        self._gauged.add(label)

    def _forget(self, label: str) -> None:
        self._gauged.discard(label)
        for gauge in (self._lag, self._next):
            gauge.remove_by_labels({"trigger": label})
