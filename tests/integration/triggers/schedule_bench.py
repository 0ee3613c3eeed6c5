"""A scheduler on a real MongoDB and on a clock that the test moves."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from tests.trigger_packages import package_with_triggers
from triggers.acceptance import Acceptance
from triggers.register.trigger import Trigger
from triggers.register.trigger_store import TriggerStore
from triggers.role_context import RoleContext, build_role_context
from triggers.schedule.schedule_kind import KIND
from triggers.schedule.schedule_metrics import ScheduleMetrics
from triggers.schedule.scheduler import Scheduler
from workers.broker.wakeups import Wakeups
from workers.settings import Settings
from workers.store.run_store import RunStore
from workflows.package.catalog import Catalog
from workflows.package.normal_form.package_model import Package
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

START = datetime(2026, 6, 1, 11, 59, 30, tzinfo=UTC)
NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def scheduler_context(store: RunStore, acceptance: Acceptance) -> RoleContext:
    """Builds a role's context on this store, with the acceptance of the test."""
    context = build_role_context(store.database, Settings(), catalog=Catalog(()), wakeups=Wakeups(lambda _: None))
    return replace(context, store=store, acceptance=acceptance)


class FakeClock:
    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


class ScheduleBench:
    """One scheduler, with the controls and observations of a test."""

    def __init__(self, store: RunStore, acceptance: Acceptance, clock: Callable[[], datetime]) -> None:
        self.registry = CollectorRegistry()
        self.packages: dict[str, Package] = package_with_triggers()
        self.store = store
        self.triggers = TriggerStore(store.database)
        self.clock = clock
        self.context = scheduler_context(store, acceptance)
        self.scheduler = Scheduler(
            self.context, metrics=ScheduleMetrics(self.registry), clock=clock, packages=lambda: self.packages
        )

    async def ensure_indexes(self) -> None:
        await self.triggers.ensure_indexes()
        await self.scheduler.ensure_indexes()

    def declare(self, **spec: Any) -> Trigger:
        declared = ScheduleSpec.model_validate({"name": "nightly", "apps": ("acme",), **spec})
        self.packages = package_with_triggers(declared)
        return Trigger("Digest", declared)

    async def create_schedule(self, *, app_id: str = "acme", **spec: Any) -> Trigger:
        """At run time, as API and CLI do."""
        made = Trigger("Digest", ScheduleSpec.model_validate({"name": "made", **spec}), app_id, revision=1)
        await self.triggers.create(made, extra_fields=KIND.initial_fields(made, self.clock()))
        return made

    async def ticks_at(self, clock: FakeClock, *times: datetime) -> None:
        for time in times:
            clock.now = time
            await self.scheduler.tick()
            await self.scheduler.wait_until_idle()

    def metric(self, name: str, *, trigger: str = "Digest/nightly", **labels: str) -> float | None:
        return self.registry.get_sample_value(f"unattended_{name}", {"trigger": trigger, **labels})

    async def document(self, id_: str = "Digest/nightly") -> dict[str, Any]:
        found = await self.triggers.triggers.find_one({"_id": id_})
        assert found is not None
        return found

    async def stored_schedule(self, id_: str = "Digest/nightly") -> dict[str, Any]:
        kept: dict[str, Any] = (await self.document(id_))["schedule"]
        return kept

    async def skip_counts(self, id_: str = "Digest/nightly") -> Mapping[str, int]:
        found = await self.triggers.find(id_)
        assert found is not None
        return {
            name.removeprefix("skipped."): number for name, number in found.counts.items() if name.startswith("skipped")
        }


async def nominal_times(store: RunStore) -> list[datetime]:
    found = store.runs.find({}, {"trigger.nominal_at": 1}).sort("trigger.nominal_at", 1)
    return [run["trigger"]["nominal_at"] async for run in found]


async def finish_all(store: RunStore, state: str = "succeeded") -> None:
    await store.runs.update_many({}, {"$set": {"state": state}, "$unset": {"order_head": 1, "lane": 1}})
