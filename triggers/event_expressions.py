"""Payloads: `=expr` and `when` over an event, by JMESPath, which cannot execute anything, nor go on for ever."""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from jmespath.exceptions import JMESPathError
from typing_extensions import override

from workflows.context.expressions.bounded_expression import StepBudget, TooMuchWorkError, compile_bounded
from workflows.context.expressions.quick_expression import is_truthy

# Some 10 ms of CPU, for all expressions of one event together.
MAX_LOOP_STEPS = 10_000
# Of CPU: MOST_STEPS take half a second. On a busy machine an event is not refused that is taken on an idle one.
THREAD_TIMEOUT_CPU_S = 3.0
# With those that wait for the thread; senders hang up after ten seconds.
THREAD_WAIT_TIMEOUT_S = 6.0

Result = TypeVar("Result")

# One thread: with several, the loop would have to wait for each of them whenever it wants to go on.
_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="expressions")


class ExpressionError(ValueError):
    """An expression that this event does not satisfy; the text names the expression."""


def evaluate(expression: str, event: Any, effort: StepBudget | None = None) -> Any:
    """`effort`: what several expressions may cost together."""
    try:
        return compile_bounded(expression)(event, effort or StepBudget(event))
    # The library lets through what Python says about mixed types, a zero step or an infinite number.
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ExpressionError(f"expression {expression!r}: {str(error).partition(chr(10))[0]}") from None


def is_condition_met(expression: str | None, event: Any, effort: StepBudget | None = None) -> bool:
    """Truth as JMESPath has it: false, null, and empty text, lists and objects are false."""
    if expression is None:
        return True
    return is_truthy(evaluate(expression, event, effort))


def resolve(template: Any, event: Any, effort: StepBudget | None = None) -> Any:
    """A literal as it is; a string that begins with `=` as what it selects from the event."""
    return _resolve_value(template, event, effort or StepBudget(event))


def _resolve_value(template: Any, event: Any, effort: StepBudget) -> Any:
    if isinstance(template, str):
        return _resolve_expression(template[1:], event, effort) if template.startswith("=") else template
    if isinstance(template, Mapping):
        return {key: _resolve_value(value, event, effort) for key, value in template.items()}
    if isinstance(template, list):
        return [_resolve_value(value, event, effort) for value in template]
    return template


def _resolve_expression(expression: str, event: Any, effort: StepBudget) -> Any:
    """What is selected many times is kept many times, though it is one value here."""
    value = evaluate(expression, event, effort)
    try:
        effort.spend_on_value(value)
    except TooMuchWorkError as error:
        raise ExpressionError(f"expression {expression!r}: {error}") from None
    return value


def resolve_text(template: Any, event: Any, effort: StepBudget | None = None) -> str | None:
    """For names (app, user, message): text stays, numbers become text, structures are refused."""
    value = resolve(template, event, effort)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ExpressionError(f"{template!r} selects {type(value).__name__}, where text is needed")


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
