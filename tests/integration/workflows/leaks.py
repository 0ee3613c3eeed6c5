"""Leaks: tasks, threads, file descriptors and sockets that a chat leaves open."""

import asyncio
import gc
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def checking_leaks(*, within_s: float = 2.0) -> AsyncIterator[None]:
    """Waits a moment for objects that close themselves.

    An unclosed socket or file is an error of pytest's own, too."""
    before = _open_resources()
    yield
    give_up_at = time.monotonic() + within_s
    while left := _added(_open_resources(), before):
        assert time.monotonic() < give_up_at, f"left behind: {left}"
        await asyncio.sleep(0.01)
    gc.collect()


def _open_resources() -> Counter[str]:
    tasks = (f"task {task.get_coro()}" for task in asyncio.all_tasks())
    # Except the loop's own pool, which is bounded and resolves names.
    threads = (f"thread {each.name}" for each in threading.enumerate() if not each.name.startswith("asyncio_"))
    return Counter([*tasks, *threads, *_descriptors()])


def _descriptors() -> list[str]:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        return []
    opened = []
    for each in folder.iterdir():
        try:
            opened.append(f"descriptor {each.readlink()}")
        except OSError:  # that of this listing
            continue
    return opened


def _added(now: Counter[str], before: Counter[str]) -> Counter[str]:
    return now - before
