"""The worker loop: hanging threads of packages delay neither others nor the exit."""

import asyncio
import threading
from functools import partial

import pytest

from workers.process.event_loop import WorkerLoop


def test_names_are_found_while_every_other_thread_hangs() -> None:
    release = threading.Event()

    async def look() -> bool:
        hanging = [asyncio.create_task(asyncio.to_thread(release.wait)) for _ in range(3)]
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            found = await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)
        release.set()
        assert await asyncio.gather(*hanging) == [True] * 3
        return bool(found)

    with asyncio.Runner(loop_factory=partial(WorkerLoop, package_threads=2)) as runner:
        assert runner.run(look())


def test_its_threads_are_used_again_and_raise_where_they_are_awaited() -> None:
    def broken() -> None:
        raise KeyError("here")

    async def calls() -> set[str]:
        with pytest.raises(KeyError, match="here"):
            await asyncio.to_thread(broken)
        return {await asyncio.to_thread(lambda: threading.current_thread().name) for _ in range(20)}

    with asyncio.Runner(loop_factory=WorkerLoop) as runner:
        assert len(runner.run(calls())) <= 2
