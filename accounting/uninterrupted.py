"""Uninterrupted: what must be written is written to its end, also when a cancellation arrives meanwhile."""

import asyncio
from collections.abc import Awaitable


async def run_shielded(work: Awaitable[None]) -> None:
    """Raises the cancellation afterwards: it was not lost, it waited."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled
