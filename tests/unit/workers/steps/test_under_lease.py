"""The cancellation count of a task that goes on with another run."""

import asyncio
import contextlib

from workers.steps.under_lease import clear_cancellation


async def test_a_swallowed_cancellation_does_not_mark_the_next_run() -> None:
    async def swallowing() -> tuple[int, int]:
        task = asyncio.current_task()
        assert task is not None
        for _ in range(2):
            asyncio.get_running_loop().call_soon(task.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        before = task.cancelling()
        clear_cancellation()
        return before, task.cancelling()

    assert await asyncio.create_task(swallowing()) == (2, 0)
