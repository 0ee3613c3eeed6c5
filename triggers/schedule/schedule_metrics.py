"""Schedule metrics, counted by the scheduler that advanced a schedule."""

from collections.abc import Collection, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge

from triggers.capped_labels import OTHER, CappedLabels
from triggers.register.trigger import Trigger
from triggers.schedule.due_schedules import ScheduleFire

LATE_FIRED = "late_fired"
MAX_RUNTIME_TRIGGERS = 100  # created at run time; further ones share one label


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
        self._shown_labels: set[str] = set()
        self._runtime_labels: dict[str, str] = {}  # labels by id, of those created at run time whose next time is shown
        self._capped_labels = CappedLabels(MAX_RUNTIME_TRIGGERS)

    def runtime_trigger_ids(self) -> Collection[str]:
        return tuple(self._runtime_labels)

    def set_next_fires(self, times: Mapping[str, datetime]) -> None:
        """Sets all next times, and removes labels of removed schedules."""
        self._runtime_labels = {id_: label for id_, label in self._runtime_labels.items() if id_ in times}
        earliest: dict[str, datetime] = {}
        for id_, at in times.items():
            label = self._runtime_labels.get(id_, id_)
            earliest[label] = min(at, earliest.get(label, at))
        for label in self._shown_labels - earliest.keys():
            self._remove_label(label)
        for label, at in earliest.items():
            self._set_next(label, at)

    def observe_fire(self, fire: ScheduleFire, now: datetime) -> None:
        trigger, plan = fire.due.trigger, fire.plan
        label = self._label(trigger)
        if plan.next_at is None:
            self._remove_label(label)
        elif trigger.app_id is None or trigger.id in self._runtime_labels:
            self._set_next(label, plan.next_at)
        if fire.fire_times:
            self._lag.labels(label).set(max(0.0, (now - fire.fire_times[-1]).total_seconds()))
            self._shown_labels.add(label)
        if plan.late and fire.fire_times:
            self._misfires.labels(label, LATE_FIRED).inc(plan.late)
        if plan.missed is not None:
            self._misfires.labels(label, plan.missed.reason).inc(plan.missed.count)
        for reason, count in fire.skips.counts.items():
            self._skips.labels(label, reason).inc(count)

    def _label(self, trigger: Trigger) -> str:
        if trigger.app_id is None:
            return trigger.label
        label = self._capped_labels.label_for(trigger.label)
        if label != OTHER and len(self._runtime_labels) < MAX_RUNTIME_TRIGGERS:
            self._runtime_labels[trigger.id] = label
        return label

    def _set_next(self, label: str, next_at: datetime) -> None:
        self._next.labels(label).set(next_at.timestamp())
        self._shown_labels.add(label)

    def _remove_label(self, label: str) -> None:
        self._shown_labels.discard(label)
        for gauge in (self._lag, self._next):
            gauge.remove_by_labels({"trigger": label})
