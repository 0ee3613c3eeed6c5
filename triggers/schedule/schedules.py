"""Schedules: what the packages declare, as the scheduler works with it."""

from collections.abc import Mapping
from dataclasses import dataclass

from workflows.package.models import Package
from workflows.package.trigger_specs.schedule import ScheduleSpec


@dataclass(frozen=True, slots=True)
class Schedule:
    workflow: str
    spec: ScheduleSpec

    @property
    def id(self) -> str:
        return f"{self.workflow}/{self.spec.name}"

    @property
    def apps(self) -> tuple[str, ...]:
        return self.spec.listed_apps

    @property
    def spec_key(self) -> str:
        """What decides the nominal times: when it changes, the stored next one means nothing any more."""
        clock = f"cron {self.spec.cron}" if self.spec.cron is not None else f"every {self.spec.every}"
        return f"{clock} {self.spec.timezone}"


def declared_schedules(packages: Mapping[str, Package]) -> dict[str, Schedule]:
    schedules = (
        Schedule(workflow, spec)
        for workflow, package in packages.items()
        for spec in package.triggers
        if isinstance(spec, ScheduleSpec)
    )
    return {schedule.id: schedule for schedule in schedules}
