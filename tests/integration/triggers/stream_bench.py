"""A bench for change streams: a shop's database, packages with triggers on it, and watchers in this process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from ulid import ULID

from tests.integration.triggers.condition_wait import wait_until
from tests.trigger_packages import package_with_triggers
from triggers.acceptance import Acceptance
from triggers.change_stream.stream_metrics import StreamMetrics
from triggers.change_stream.watcher import Pace, Watcher
from triggers.change_stream.watcher_role import build_watcher
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import TriggerRecord
from triggers.register.trigger_stats import TriggerStats
from triggers.register.trigger_store import TriggerStore
from triggers.role_context import RoleContext
from workers.broker.wakeups import Wakeups
from workers.settings import Settings
from workers.store.run_store import RunStore
from workflows.package.catalog import Catalog
from workflows.package.normal_form.package_model import Package
from workflows.package.trigger_specs.change_spec import ChangeSpec

Document = dict[str, Any]


class StreamBench:
    """What is shared by the watchers of one test: the shop's database, the packages, the runs."""

    def __init__(self, settings: Settings, store: RunStore, acceptance: Acceptance) -> None:
        self.store = store
        self.settings = settings
        self.shop: AsyncDatabase[Document] = store.database.client[f"shop_{ULID()}".lower()]
        self.orders: AsyncCollection[Document] = self.shop["orders"]
        self.streams: AsyncCollection[Document] = store.database["streams"]
        self.triggers = TriggerStore(store.database)
        self.tally = TriggerStats(self.triggers)
        self.packages: dict[str, Package] = {}
        self.registry = CollectorRegistry()
        self._acceptance = acceptance
        self._metrics = StreamMetrics(self.registry)
        self.declare({})

    def spec(self, **changes: Any) -> ChangeSpec:
        given = {
            "name": "paid",
            "database": self.shop.name,
            "collection": "orders",
            "apps": ("acme",),
            "input": {"order": "=documentKey._id"},
            **changes,
        }
        return ChangeSpec.model_validate(given)

    def declare(self, *changes: Document) -> None:
        self.packages = package_with_triggers(*(self.spec(**each) for each in changes), name="Orders")

    @property
    def trigger(self) -> Trigger:
        """The first one that is declared."""
        return Trigger("Orders", self.packages["Orders"].triggers[0])

    def watcher(self, *, patience_s: float = 30.0, check_interval_s: float = 0.3) -> Watcher:
        # Shorter waits, the same steps: what a test waits for is that something is noticed.
        shorter = Pace(check_interval_s=check_interval_s, patience_s=patience_s, max_await_ms=100)
        ground = RoleContext(
            self.settings,
            self.store.database,
            self.store,
            self._acceptance,
            Catalog(()),
            Wakeups(lambda _: None),
            self.triggers,
            self.tally,
        )
        return build_watcher(ground, self._metrics, packages=lambda: self.packages, pace=shorter)

    @asynccontextmanager
    async def watching(
        self, stream: str | None = None, *, watcher: Watcher | None = None
    ) -> AsyncIterator[asyncio.Task[None]]:
        """From when it has a position to when it has stopped."""
        stop = asyncio.Event()
        task = asyncio.create_task((watcher or self.watcher()).run(stop))

        async def has_position() -> bool:
            assert not task.done() or task.cancelled(), task.exception()
            found = await self.streams.find_one({"_id": stream or self.shop.name})
            if found is None:
                return False
            return found["resume_token"] is not None or found["state"] == "suspended" or "refused" in found

        try:
            await wait_until(has_position, "a first position")
            yield task
        finally:
            stop.set()
            await asyncio.gather(task, return_exceptions=True)

    async def stream(self, stream: str | None = None) -> Document:
        found = await self.streams.find_one({"_id": stream or self.shop.name})
        assert found is not None
        return found

    async def run_inputs(self) -> list[Any]:
        return sorted(run["input"]["order"] for run in await self.store.list())

    async def wait_for_runs(self, *orders: Any) -> None:
        async def condition() -> bool:
            return len(await self.run_inputs()) >= len(orders)

        await wait_until(condition, f"runs for {len(orders)} orders")
        assert await self.run_inputs() == sorted(orders)

    async def record(self, trigger: Trigger | None = None) -> TriggerRecord:
        """The record for `triggers show`, once it is written."""
        await self.tally.write()
        record = await self.triggers.find((trigger or self.trigger).id)
        assert record is not None
        return record

    async def wait_for_skips(
        self, reason: str, count: int, *, trigger: Trigger | None = None
    ) -> list[Mapping[str, Any]]:
        """The notes of that reason, once there are so many skips."""
        label = (trigger or self.trigger).label

        async def so_many() -> bool:
            return self.metric("stream_events_skipped_total", trigger=label, reason=reason) == count

        await wait_until(so_many, f"{count} skips for {reason}")
        record = await self.record(trigger)
        assert record.counts[f"skipped.{reason}"] == count
        return [note for note in record.notes if note["reason"] == reason]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"unattended_{name}", labels)

    async def wait_for_metric(self, metric: str, value: float, *, stream: str | None = None) -> None:
        async def check() -> bool:
            return self.metric(metric, stream=stream or self.shop.name) == value

        await wait_until(check, f"{metric} is {value}")

    async def wait_for_stream(
        self, condition: Callable[[Document], bool], what: str, *, stream: str | None = None
    ) -> None:
        async def check() -> bool:
            return condition(await self.stream(stream))

        await wait_until(check, what)
