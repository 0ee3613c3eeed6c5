"""Shared fixtures of the trigger tests: an acceptance that records its wake-ups."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.triggers import schedule_bench
from tests.integration.triggers.protocol_server import new_loop, server
from tests.integration.triggers.stream_bench import StreamBench
from triggers.acceptance import Acceptance
from workers.settings import Settings
from workers.store.run_store import RunStore

__all__ = ["new_loop", "server"]


class RecordedWakeups:
    def __init__(self) -> None:
        self.run_ids: list[str] = []

    def send(self, run_id: str) -> None:
        self.run_ids.append(run_id)


@pytest.fixture
def noted() -> RecordedWakeups:
    return RecordedWakeups()


@pytest.fixture
def acceptance(store: RunStore, noted: RecordedWakeups) -> Acceptance:
    return Acceptance(store, noted)


@pytest.fixture
async def bench(settings: Settings, store: RunStore, acceptance: Acceptance) -> AsyncIterator[StreamBench]:
    bench = StreamBench(settings, store, acceptance)
    await bench.triggers.ensure_indexes()
    yield bench
    await store.database.client.drop_database(bench.shop.name)


@pytest.fixture
def clock() -> schedule_bench.FakeClock:
    return schedule_bench.FakeClock()


@pytest.fixture
async def schedules(
    store: RunStore, acceptance: Acceptance, clock: schedule_bench.FakeClock
) -> schedule_bench.ScheduleBench:
    schedules = schedule_bench.ScheduleBench(store, acceptance, clock)
    await schedules.ensure_indexes()
    return schedules
