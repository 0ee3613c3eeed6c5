"""What the trigger tests share: an acceptance whose wake-ups are only noted."""

import pytest

from triggers.acceptance import Acceptance
from workers.store.run_store import RunStore


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
