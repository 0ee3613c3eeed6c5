"""Bounded expressions: JMESPath that gives up when an event costs too much work.

Each part of an expression can double the result of the part before it, so one line of text can fill the memory, and the
key of one app is enough to write that line. So steps are counted, and composed values are weighed.
"""

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jmespath
from jmespath.functions import Functions
from jmespath.visitor import Options, TreeInterpreter
from typing_extensions import override

from workflows.context.expressions.quick_expression import compile_quick, materialize_event
from workflows.context.values.value_sizes import count_values

MAX_FREE_STEPS = 20_000  # for any event: some milliseconds, since a schedule may fire every second
STEPS_PER_VALUE = 50  # of the event: several projections may walk all of it
MAX_STEPS = 1_000_000  # half a second
_CHARACTERS_PER_STEP = 64
_COPIES_PER_STEP = 16
_WALKING_FUNCTIONS = frozenset({"contains", "to_string"})
_EQUALITY_OPERATORS = frozenset({"eq", "ne"})
_FUNCTIONS = Functions()
_OPTIONS = Options(custom_functions=_FUNCTIONS)


class TooMuchWorkError(ValueError):
    def __init__(self) -> None:
        super().__init__("takes too much work for this event")


class StepBudget:
    """The steps that an expression may still take on an event.

    The size of the event is measured only when the free steps are used up. `deadline` is on the thread's CPU clock, and
    is checked after every such portion of steps."""

    __slots__ = ("_deadline", "_event", "_reserve", "left")

    def __init__(self, event: Any, *, deadline: float | None = None) -> None:
        self._event = event
        self._deadline = deadline
        self._reserve = 0
        self.left = MAX_FREE_STEPS

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            self.refill()

    def refill(self) -> None:
        if self._deadline is not None and time.thread_time() > self._deadline:
            raise TooMuchWorkError
        event, self._event = self._event, None
        if event is not None:
            self._reserve = min(_count_steps(materialize_event(event), MAX_STEPS) * STEPS_PER_VALUE, MAX_STEPS)
        portion = min(self._reserve, MAX_FREE_STEPS - self.left)
        self._reserve -= portion
        self.left += portion
        if self.left < 0:
            raise TooMuchWorkError

    def spend_on_value(self, value: Any) -> None:
        """Charges for a value and all of its contents, each as often as it occurs in it.

        A later walk of the value visits them as often."""
        is_one = value is None or isinstance(value, int | float)
        # The reserve is only known once the event was measured; more than what is left is too much anyway.
        limit = MAX_STEPS if self._event is not None else max(self.left + self._reserve, 0)
        self.spend(1 if is_one else _count_steps(value, limit))


def _count_steps(value: Any, limit: int) -> int:
    return count_values(value, limit, characters_per_value=_CHARACTERS_PER_STEP)


class BoundedInterpreter(TreeInterpreter):
    def __init__(self, budget: StepBudget) -> None:
        super().__init__(_OPTIONS)
        self._budget = budget

    @override
    def visit(self, node: Any, *args: Any, **options: Any) -> Any:
        self._budget.left -= 1
        if self._budget.left < 0:
            self._budget.refill()
        return super().visit(node, *args, **options)

    @override
    def visit_literal(self, node: Any, value: Any) -> Any:
        return self._charge_value(super().visit_literal(node, value))

    @override
    def visit_multi_select_dict(self, node: Any, value: Any) -> Any:
        return self._charge_value(super().visit_multi_select_dict(node, value))

    @override
    def visit_multi_select_list(self, node: Any, value: Any) -> Any:
        return self._charge_value(super().visit_multi_select_list(node, value))

    @override
    def visit_flatten(self, node: Any, value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if not isinstance(base, list):
            return None
        self._budget.spend(len(base) // _COPIES_PER_STEP)  # charged before the walk
        merged: list[Any] = []
        for item in base:
            merged += item if isinstance(item, list) else (item,)
        return self._charge_value(merged)

    @override
    def visit_slice(self, node: Any, value: Any) -> Any:
        part = super().visit_slice(node, value)
        # Copied at once, but as often as the expression asks for it.
        self._budget.spend(_length(part) // _COPIES_PER_STEP)
        return part

    @override
    def visit_comparator(self, node: Any, value: Any) -> Any:
        if node["value"] not in _EQUALITY_OPERATORS:
            return super().visit_comparator(node, value)
        one, other = [self.visit(child, value) for child in node["children"]]
        if isinstance(one, list | Mapping) and isinstance(other, list | Mapping):
            self._budget.spend_on_value(one)  # comparing walks all of their contents
        return self.COMPARATOR_FUNC[node["value"]](one, other)

    @override
    def visit_function_expression(self, node: Any, value: Any) -> Any:
        name, arguments = node["value"], [self.visit(child, value) for child in node["children"]]
        for argument in arguments:
            if name in _WALKING_FUNCTIONS:
                self._budget.spend_on_value(argument)
            else:
                self._budget.spend(_length(argument))
        if name == "join" and len(arguments) == 2 and isinstance(arguments[0], str) and isinstance(arguments[1], list):
            self._budget.spend(len(arguments[0]) * len(arguments[1]) // _CHARACTERS_PER_STEP)
        return _FUNCTIONS.call_function(name, arguments)

    def _charge_value(self, result: Any) -> Any:
        self._budget.spend_on_value(result)
        return result


# Expressions are those of specs, so their number is bounded; the library's own cache drops half of its 128.
@lru_cache(maxsize=4_096)
def compile_bounded(expression: str) -> Callable[[Any, StepBudget], Any]:
    """Returns a function of an event and its budget.

    The function raises the library's errors, and TooMuchWorkError."""
    tree = jmespath.compile(expression).parsed
    simple = compile_quick(tree)
    if simple is not None:
        return lambda event, _budget: simple(event)
    return lambda event, budget: BoundedInterpreter(budget).visit(tree, materialize_event(event))


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value) // _CHARACTERS_PER_STEP
    return len(value) if isinstance(value, list | Mapping) else 0
