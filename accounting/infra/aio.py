"""Helpers for asyncio: uninterrupted work, and gathering without leftovers."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def run_shielded(work: Awaitable[None]) -> None:
    """Runs `work` to its end, even if the caller is cancelled meanwhile.

    The cancellation is raised afterwards.
    """
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
    """Returns the results in order, or raises the first error.

    Either way all awaitables have ended, so no task is left running.
    """
    outcomes = await asyncio.gather(*awaitables, return_exceptions=True)
    results: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results
