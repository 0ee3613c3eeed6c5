"""Acceptance: durable first, then one wake-up.

With a reconciler, a missing wake-up would not show.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from triggers.acceptance import Acceptance
from workers.store.run import Accepted, RunRequest, TriggerEvent
from workers.store.run_store import RunStore


@dataclass
class AcceptanceRecorder(RunStore):
    """A store and wake-ups that record their calls in one list, in order."""

    created: bool = True
    broken: bool = False
    happened: list[str] = field(default_factory=list)

    async def insert(self, request: RunRequest) -> Accepted:  # noqa: ARG002 -- the store's signature
        if self.broken:
            raise ConnectionError("the store is away")
        self.happened.append("inserted")
        return Accepted("run_1", created=self.created)

    def send(self, run_id: str) -> None:
        self.happened.append(f"woken {run_id}")


def request() -> RunRequest:
    return RunRequest("acme", "Digest", TriggerEvent("webhook", "hook", "1", fired_at=datetime(2026, 3, 1, tzinfo=UTC)))


@pytest.mark.design("U-5")
async def test_a_run_is_durable_before_its_wakeup_is_sent() -> None:
    desk = AcceptanceRecorder()

    accepted = await Acceptance(desk, desk).accept(request())

    assert accepted == Accepted("run_1", created=True)
    assert desk.happened == ["inserted", "woken run_1"]


async def test_a_duplicate_sends_no_wakeup() -> None:
    desk = AcceptanceRecorder(created=False)

    accepted = await Acceptance(desk, desk).accept(request())

    assert accepted == Accepted("run_1", created=False)
    assert desk.happened == ["inserted"]


async def test_an_unstored_request_is_not_accepted_and_sends_no_wakeup() -> None:
    desk = AcceptanceRecorder(broken=True)

    with pytest.raises(ConnectionError):
        await Acceptance(desk, desk).accept(request())

    assert desk.happened == []
