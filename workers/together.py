"""Side by side: run awaitables at once and wait for all of them, also when one fails."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def gather_all(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """Results in order, or the first error, but only once nothing is left running behind it."""
    outcomes = await asyncio.gather(*awaitables, return_exceptions=True)
    results: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results
