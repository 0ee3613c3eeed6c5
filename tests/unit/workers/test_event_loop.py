"""The worker loop: hanging threads of packages delay neither others nor the exit."""

import asyncio
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from workers.process.event_loop import WorkerLoop

ROOT = Path(__file__).parents[3]


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


def test_a_call_that_hangs_does_not_hold_up_the_exit_of_the_process() -> None:
    code = (
        "import asyncio, threading\n"
        "from workers.process.event_loop import WorkerLoop\n"
        "async def hang():\n"
        "    await asyncio.wait_for(asyncio.to_thread(threading.Event().wait), 0.05)\n"
        "try: \n  with asyncio.Runner(loop_factory=WorkerLoop) as runner: runner.run(hang())\n"
        "except TimeoutError: print('over')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, cwd=ROOT, check=True
    )
    assert done.stdout == "over\n"
