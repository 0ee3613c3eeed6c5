"""gather_all: results in order; an error only after all have ended."""

import asyncio

import pytest

from accounting.infra.aio import gather_all


async def test_results_come_in_order() -> None:
    async def number(value: int) -> int:
        await asyncio.sleep(0)
        return value

    assert await gather_all(number(value) for value in range(5)) == [0, 1, 2, 3, 4]


async def test_an_error_is_raised_after_the_others_ended() -> None:
    ended = []

    async def fails() -> None:
        raise KeyError("first")

    async def lasts() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        ended.append(True)

    with pytest.raises(KeyError, match="first"):
        await gather_all([fails(), lasts()])

    assert ended == [True]
