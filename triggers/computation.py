"""Computation: a trigger's expressions over one event, on the event loop while they are short, else in a thread.

An event loop that computes for half a second answers nobody else. So what expressions may cost there is counted; what
takes longer begins anew in one thread for all, where Python lets the loop go on every few milliseconds.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from typing_extensions import override

from workflows.context.bounded_expression import StepBudget

# Some 10 ms of CPU, for all expressions of one event together.
MAX_LOOP_STEPS = 10_000
# Of CPU: MOST_STEPS take half a second. On a busy machine an event is not refused that is taken on an idle one.
THREAD_TIMEOUT_CPU_S = 3.0
# With those that wait for the thread; senders hang up after ten seconds.
THREAD_WAIT_TIMEOUT_S = 6.0

Result = TypeVar("Result")

# One thread: with several, the loop would have to wait for each of them whenever it wants to go on.
_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="expressions")


class OffLoopError(Exception):
    """The work is too long for the event loop; not an error of the expression."""


class _LoopEffort(StepBudget):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)
        self.left = MAX_LOOP_STEPS

    @override
    def refill(self) -> None:
        raise OffLoopError


class ExpressionEvaluator:
    """What the expressions of one trigger cost for one event, however many of them there are."""

    def __init__(self, event: Any) -> None:
        self._event = event
        self._loop_effort: _LoopEffort | None = _LoopEffort()

    async def evaluate(self, work: Callable[[StepBudget], Result]) -> Result:
        """`work` may be called twice, so it must change nothing. Raises TimeoutError if no thread was free in time."""
        if self._loop_effort is not None:
            try:
                return work(self._loop_effort)
            except OffLoopError:
                self._loop_effort = None
        async with asyncio.timeout(THREAD_WAIT_TIMEOUT_S):
            return await asyncio.get_running_loop().run_in_executor(_THREAD, self._in_thread, work)

    def _in_thread(self, work: Callable[[StepBudget], Result]) -> Result:
        return work(StepBudget(self._event, deadline=time.thread_time() + THREAD_TIMEOUT_CPU_S))
