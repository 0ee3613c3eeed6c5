"""What the trigger tests share: an acceptance whose wake-ups are only noted."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.triggers import schedule_bench
from tests.integration.triggers.protocol_server import new_loop, server
from tests.integration.triggers.stream_bench import Bench
from triggers.acceptance import Acceptance
from workers.settings import Settings
from workers.store.run_store import RunStore

__all__ = ["new_loop", "server"]


class Noted:
    def __init__(self) -> None:
        self.run_ids: list[str] = []

    def send(self, run_id: str) -> None:
        self.run_ids.append(run_id)


@pytest.fixture
def noted() -> Noted:
    return Noted()


@pytest.fixture
def acceptance(store: RunStore, noted: Noted) -> Acceptance:
    return Acceptance(store, noted)


@pytest.fixture
async def bench(settings: Settings, store: RunStore, acceptance: Acceptance) -> AsyncIterator[Bench]:
    bench = Bench(settings, store, acceptance)
    await bench.triggers.ensure_indexes()
    yield bench
    await store.database.client.drop_database(bench.shop.name)


@pytest.fixture
def clock() -> schedule_bench.Clock:
    return schedule_bench.Clock()


@pytest.fixture
async def schedules(store: RunStore, acceptance: Acceptance, clock: schedule_bench.Clock) -> schedule_bench.Bench:
    schedules = schedule_bench.Bench(store, acceptance, clock)
    await schedules.ensure_indexes()
    return schedules
