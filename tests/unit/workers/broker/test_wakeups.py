"""Wake-ups: published together, without delay for callers; one log line per outage."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from workers.broker.wakeups import MAX_WAITING, Wakeups


class FakeBroker:
    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.away = False
        self.open = threading.Event()
        self.open.set()

    def publish(self, run_ids: Sequence[str]) -> None:
        self.open.wait(5)
        if self.away:
            raise ConnectionError("nobody there")
        self.batches.append(list(run_ids))


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
async def wakeups(broker: FakeBroker) -> AsyncIterator[Wakeups]:
    started = Wakeups(broker.publish)
    started.start()
    yield started
    broker.open.set()
    await started.stop()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


async def test_what_waits_is_published_together_and_in_order(wakeups: Wakeups, broker: FakeBroker) -> None:
    for number in range(100):
        wakeups.send(f"run_{number}")
    await wakeups.wait_until_published()

    assert broker.batches == [[f"run_{number}" for number in range(100)]]


async def test_an_outage_is_two_lines_however_many_are_left(
    wakeups: Wakeups, broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broker.away = True
    for number in range(3):
        wakeups.send(f"run_{number}")
        await wakeups.wait_until_published()
    broker.away = False
    wakeups.send("run_3")
    await wakeups.wait_until_published()

    assert lines(caplog) == ["wakeups_left_to_reconciler", "wakeups_flow_again"]
    assert vars(caplog.records[1])["left_to_reconciler"] == 3
    assert broker.batches == [["run_3"]]


async def test_an_unresponsive_broker_delays_no_caller_and_fills_no_memory(
    wakeups: Wakeups, broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.open.clear()
    wakeups.send("first")
    await asyncio.sleep(0)
    for number in range(MAX_WAITING + 50):
        wakeups.send(f"run_{number}")
    broker.open.set()
    await wakeups.wait_until_published()

    assert sum(map(len, broker.batches)) == MAX_WAITING + 1
    assert lines(caplog) == ["wakeups_left_to_reconciler"]


async def test_a_stop_waits_only_for_its_grace(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    wakeups = Wakeups(broker.publish)
    wakeups.start()
    broker.open.clear()
    wakeups.send("run_1")
    await asyncio.sleep(0)

    await wakeups.stop(grace_s=0.05)
    broker.open.set()

    assert lines(caplog) == ["wakeups_left_to_reconciler"]
    assert vars(caplog.records[0])["count"] == 1
