"""Waiting for a named condition, with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable


async def wait_until(condition: Callable[[], Awaitable[bool]], what: str, *, within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not await condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what}")
        await asyncio.sleep(0.02)
