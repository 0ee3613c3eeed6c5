"""The service loop survives an outage, logs it once, and stops on request."""

import asyncio

import pytest
from pymongo.errors import AutoReconnect

from triggers.service_loop import MAX_PAUSE_S, Outage, repeat, wait_for_stop


def test_pauses_grow_up_to_a_limit_and_begin_anew_after_the_outage() -> None:
    outage = Outage("tick")

    pauses = [outage.record_failure(AutoReconnect()) for _ in range(2000)]
    outage.record_success()

    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert max(pauses) == MAX_PAUSE_S
    assert outage.record_failure(AutoReconnect()) == 0.5


def test_an_outage_is_logged_once_when_it_begins_and_once_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    outage = Outage("tick")

    outage.record_success()
    for _ in range(5):
        outage.record_failure(AutoReconnect("no server"))
    outage.record_success()
    outage.record_success()

    assert [record.message for record in caplog.records] == ["mongodb_unavailable", "mongodb_available"]


async def test_a_step_that_fails_for_mongodb_is_tried_again() -> None:
    stop = asyncio.Event()
    calls = 0

    async def step() -> float:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise AutoReconnect
        stop.set()
        return 60

    await repeat(step, step_name="tick", stop=stop, min_pause_s=0.0)

    assert calls == 3


async def test_any_other_error_ends_the_loop() -> None:
    async def step() -> float:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await repeat(step, step_name="tick", stop=asyncio.Event())


async def test_waiting_ends_at_once_on_stop() -> None:
    stop = asyncio.Event()
    stop.set()

    async with asyncio.timeout(1):
        await wait_for_stop(stop, 3600)
