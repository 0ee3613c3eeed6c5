"""What the trigger tests share: a run store of their own, and an acceptance whose wake-ups are only noted."""

from collections.abc import AsyncIterator

import pytest

from triggers.acceptance import Acceptance
from workers.run_store import RunStore, connect
from workers.settings import Settings


class Noted:
    def __init__(self) -> None:
        self.run_ids: list[str] = []

    def send(self, run_id: str) -> None:
        self.run_ids.append(run_id)


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[RunStore]:
    database = connect(settings.mongodb_url or "", database=settings.database)
    store = RunStore(database)
    await store.ensure_indexes()
    yield store
    await database.client.close()


@pytest.fixture
def noted() -> Noted:
    return Noted()


@pytest.fixture
def acceptance(store: RunStore, noted: Noted) -> Acceptance:
    return Acceptance(store, noted)
