"""The cache of external values: time, size, and one call for concurrent misses."""

import asyncio

import pytest

from workflows.context.external.value_cache import ValueCache
from workflows.context.reads.missing_values import NoValueError


class FakeService:
    """Counts its calls; tests can block it or make it fail."""

    def __init__(self) -> None:
        self.calls = 0
        self.open = asyncio.Event()
        self.open.set()
        self.error: Exception | None = None
        self.text = ""

    async def __call__(self) -> str:
        self.calls += 1
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return self.text or str(self.calls)


class FakeClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_value_is_kept_for_its_time() -> None:
    clock, service = FakeClock(), FakeService()
    cache = ValueCache(clock)

    seen = []
    for clock.now in (0, 9.9, 10.0, 15.0):
        seen.append(await cache.get("k", service, ttl_s=10))

    assert seen == ["1", "1", "2", "2"]


async def test_each_reader_brings_how_old_a_value_may_be() -> None:
    clock, service = FakeClock(), FakeService()
    cache = ValueCache(clock)
    await cache.get("k", service, ttl_s=100)
    clock.now = 5

    assert await cache.get("k", service, ttl_s=1) == "2"


async def test_concurrent_misses_share_one_call() -> None:
    service = FakeService()
    service.open.clear()
    cache = ValueCache(FakeClock())

    waiting = [asyncio.create_task(cache.get("k", service, ttl_s=10)) for _ in range(50)]
    await asyncio.sleep(0)
    service.open.set()

    assert set(await asyncio.gather(*waiting)) == {"1"}
    assert service.calls == 1


async def test_a_failure_is_shared_but_not_kept() -> None:
    service = FakeService()
    service.open.clear()
    service.error = NoValueError("it answered 503", is_transient=True)
    cache = ValueCache(FakeClock())
    waiting = [asyncio.create_task(cache.get("k", service, ttl_s=10)) for _ in range(3)]
    await asyncio.sleep(0)
    service.open.set()

    results = await asyncio.gather(*waiting, return_exceptions=True)
    service.error = None

    assert [type(each) for each in results] == [NoValueError] * 3
    assert await cache.get("k", service, ttl_s=10) == "2"


async def test_a_cancelled_caller_takes_nothing_from_the_others() -> None:
    service = FakeService()
    service.open.clear()
    cache = ValueCache(FakeClock())
    first, second = (asyncio.create_task(cache.get("k", service, ttl_s=10)) for _ in range(2))
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.wait([first])
    service.open.set()

    assert first.cancelled()
    assert await second == "1"


async def test_the_least_recently_used_goes_first() -> None:
    service = FakeService()
    cache = ValueCache(FakeClock(), max_entries=2)
    for key in ("a", "b", "a", "c"):
        await cache.get(key, service, ttl_s=10)

    assert await cache.get("a", service, ttl_s=10) == "1"
    assert await cache.get("b", service, ttl_s=10) == "4"


async def test_all_values_together_are_bounded() -> None:
    service = FakeService()
    service.text = "x" * 60
    cache = ValueCache(FakeClock(), max_bytes=100)
    for key in ("a", "b"):
        await cache.get(key, service, ttl_s=10)

    await cache.get("b", service, ttl_s=10)
    await cache.get("a", service, ttl_s=10)

    assert service.calls == 3


async def test_closing_ends_what_is_under_way() -> None:
    service = FakeService()
    service.open.clear()
    cache = ValueCache(FakeClock())
    waiting = asyncio.create_task(cache.get("k", service, ttl_s=10))
    await asyncio.sleep(0)

    await cache.close()

    with pytest.raises(asyncio.CancelledError):
        await waiting
