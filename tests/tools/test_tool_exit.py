"""The exit of a process in which a tool hangs."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workflows.chat.package_code.tool_threads import ToolThreads

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pool() -> Iterator[ToolThreads]:
    threads = ToolThreads(2, name="some")
    yield threads
    threads.close()


async def run(pool: ToolThreads, function: Callable[[], Any], timeout_s: float = 5.0) -> Any:
    return await pool.run(function, name="f", timeout_s=timeout_s)


def test_a_tool_that_hangs_does_not_hold_up_the_exit_of_the_process() -> None:
    code = (
        "import asyncio, sys, threading, types\n"
        "light = sys.modules['workflows.chat'] = types.ModuleType('workflows.chat')  # without AG2\n"
        "light.__path__ = ['workflows/chat']\n"
        "from workflows.chat.package_code.tool_threads import ToolThreads\n"
        "lock = threading.Lock()\n"
        "lock.acquire()\n"
        "try: asyncio.run(ToolThreads(1).run(lock.acquire, name='t', timeout_s=0.1))\n"
        "except TimeoutError: print('over')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, cwd=ROOT, check=True
    )
    assert done.stdout == "over\n"
