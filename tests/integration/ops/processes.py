"""Waiting for a named condition, never for a time."""

import asyncio
import time
from collections.abc import Callable

import psutil


async def wait_until(what: str, condition: Callable[[], bool], *, within_s: float = 10.0) -> None:
    give_up_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up_at, f"not within {within_s} s: {what}"
        await asyncio.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether a process lives; a zombie is dead, and waits for its parent only."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def descendants(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


async def wait_until_gone(pids: list[int], *, within_s: float = 5.0) -> None:
    await wait_until(f"processes {pids} are gone", lambda: not any(is_running(pid) for pid in pids), within_s=within_s)
