"""Uninterrupted: what must be written is written to its end, also when a cancellation arrives meanwhile."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


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


async def gather_all(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """Results in order, or the first error, but only once nothing is left running behind it."""
    outcomes = await asyncio.gather(*awaitables, return_exceptions=True)
    results: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results
