"""Event expressions: `=expr` and `when` over an event, in JMESPath.

Expressions can execute nothing, and their work is bounded. They run on the event loop; one that takes longer than
some 10 ms moves to a thread.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from jmespath.exceptions import JMESPathError
from typing_extensions import override

from workflows.context.expressions.bounded_expression import StepBudget, TooMuchWorkError, compile_bounded
from workflows.context.expressions.quick_expression import is_truthy

# Some 10 ms of CPU, for all expressions of one event together.
MAX_LOOP_STEPS = 10_000
# CPU time, so that a busy machine refuses no event that an idle one accepts. The maximum of steps takes 0.5 s.
THREAD_TIMEOUT_CPU_S = 3.0
# Includes the wait for the thread. Senders close the connection after ten seconds.
THREAD_WAIT_TIMEOUT_S = 6.0

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class EvaluationLimits:
    """How much work one event may cause on the event loop, and in the thread."""

    loop_steps: int = MAX_LOOP_STEPS
    thread_cpu_s: float = THREAD_TIMEOUT_CPU_S
    thread_wait_s: float = THREAD_WAIT_TIMEOUT_S


# One thread only: with several, the event loop would wait for the GIL behind each of them.
_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="expressions")


class ExpressionError(ValueError):
    """The event does not fit an expression; the text names the expression."""


class EvaluatorBusyError(Exception):
    """No thread was free in time to evaluate the expressions of a large event."""

    def __init__(self) -> None:
        super().__init__("too many large events at once; try again")


def evaluate(expression: str, event: Any, budget: StepBudget | None = None) -> Any:
    """Evaluates one expression. Several expressions may share one `budget`."""
    try:
        return compile_bounded(expression)(event, budget or StepBudget(event))
    # The library passes on Python's errors about mixed types, a zero step or an infinite number.
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ExpressionError(f"expression {expression!r}: {str(error).partition(chr(10))[0]}") from None


def is_condition_met(expression: str | None, event: Any, budget: StepBudget | None = None) -> bool:
    """Follows JMESPath: false, null, and empty text, lists and objects are false."""
    if expression is None:
        return True
    return is_truthy(evaluate(expression, event, budget))


def resolve(template: Any, event: Any, budget: StepBudget | None = None) -> Any:
    """Replaces each string that begins with `=` by its value in the event."""
    return _resolve_value(template, event, budget or StepBudget(event))


def _resolve_value(template: Any, event: Any, budget: StepBudget) -> Any:
    if isinstance(template, str):
        return _resolve_expression(template[1:], event, budget) if template.startswith("=") else template
    if isinstance(template, Mapping):
        return {key: _resolve_value(value, event, budget) for key, value in template.items()}
    if isinstance(template, list):
        return [_resolve_value(value, event, budget) for value in template]
    return template


def _resolve_expression(expression: str, event: Any, budget: StepBudget) -> Any:
    """Charges the size of a value each time that it is selected and stored."""
    value = evaluate(expression, event, budget)
    try:
        budget.spend_on_value(value)
    except TooMuchWorkError as error:
        raise ExpressionError(f"expression {expression!r}: {error}") from None
    return value


def resolve_text(template: Any, event: Any, budget: StepBudget | None = None) -> str | None:
    """Resolves text: numbers become text, and structures are refused."""
    value = resolve(template, event, budget)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ExpressionError(f"{template!r} selects {type(value).__name__}, where text is needed")


class OffLoopError(Exception):
    """The work takes too long for the event loop; the expression itself may be fine."""


class _LoopBudget(StepBudget):
    __slots__ = ()

    def __init__(self, steps: int) -> None:
        super().__init__(None)
        self.left = steps

    @override
    def refill(self) -> None:
        raise OffLoopError


class ExpressionEvaluator:
    """Evaluates a trigger's expressions over one event, within one budget."""

    def __init__(self, event: Any, limits: EvaluationLimits | None = None) -> None:
        self._event = event
        self._limits = limits or EvaluationLimits()
        self._loop_budget: _LoopBudget | None = _LoopBudget(self._limits.loop_steps)

    async def evaluate(self, work: Callable[[StepBudget], Result]) -> Result:
        """Runs `work`, which may be called twice and must change nothing.

        Raises EvaluatorBusyError.
        """
        if self._loop_budget is not None:
            try:
                return work(self._loop_budget)
            except OffLoopError:
                self._loop_budget = None
        try:
            async with asyncio.timeout(self._limits.thread_wait_s):
                return await asyncio.get_running_loop().run_in_executor(_THREAD, self._in_thread, work)
        except TimeoutError:
            raise EvaluatorBusyError from None

    def _in_thread(self, work: Callable[[StepBudget], Result]) -> Result:
        return work(StepBudget(self._event, deadline=time.thread_time() + self._limits.thread_cpu_s))
