"""Standing answers: the first whose condition holds; any condition is cheap."""

import logging
import time
from collections.abc import Mapping
from typing import Any

import pytest

from workflows.context.context_variables import ContextVariables
from workflows.context.expressions.bounded_expression import StepBudget, TooMuchWorkError
from workflows.context.state.standing_answers import find_standing_answer

YES, NO = {"verdict": "yes"}, {"verdict": "no"}
SMALL = {"when": "arguments.amount <= `50`", "answer": YES}
EXPONENTIAL = "arguments" + " | [@, @]" * 60
SLOW_WALK = "contains(to_string(context), 'x') || context.many[*].[@, @][] | sort_by(@, &to_string(@))"


def answer(responses: Any, *, names: tuple[str, ...] = ("pay",), **options: Any) -> Mapping[str, Any] | None:
    event = {"arguments": {}, "payload": None, "context": {}, **options}
    return find_standing_answer(responses, names, **event)


@pytest.mark.parametrize(
    ("written", "given", "expected"),
    [
        (YES, {}, YES),
        ({}, {}, {}),
        ([{"answer": YES}], {}, YES),
        ([SMALL], {"arguments": {"amount": 12}}, YES),
        ([SMALL], {"arguments": {"amount": 9_000}}, None),
        ([SMALL], {"arguments": {"amount": "12"}}, None),
        ([SMALL], {"arguments": {"amount": True}}, None),
        ([SMALL], {}, None),
        ([SMALL], {"arguments": "amount=12"}, None),
        ([SMALL, {"answer": NO}], {"arguments": {"amount": 9_000}}, NO),
        ([SMALL, {"answer": NO}], {"arguments": {"amount": 12}}, YES),
        ([{"when": "payload.items[?price > `9`]", "answer": YES}], {"payload": {"items": [{"price": 10}]}}, YES),
        ([{"when": "payload.items[?price > `9`]", "answer": YES}], {"payload": {"items": [{"price": 9}]}}, None),
        ([{"when": "context.tier == 'gold'", "answer": YES}], {"context": ContextVariables({"tier": "gold"})}, YES),
        ([{"when": "length(keys(context)) == `1`", "answer": YES}], {"context": ContextVariables({"tier": 1})}, YES),
        ([{"when": "arguments.count", "answer": YES}], {"arguments": {"count": 0}}, YES),  # zero is true in JMESPath
        ([{"when": "arguments.text", "answer": YES}], {"arguments": {"text": ""}}, None),
        ([{"when": None, "answer": YES}], {}, None),
        ([{"when": 5, "answer": YES}], {}, None),
        ([{"when": "arguments.", "answer": YES}], {}, None),
        ([{"when": "ceil(arguments.amount)", "answer": YES}], {"arguments": {"amount": "x"}}, None),
        ([{"when": "ceil(arguments.amount)", "answer": YES}, {"answer": NO}], {"arguments": {"amount": "x"}}, NO),
        (["yes", {"answer": "yes"}, None], {}, None),
        ([], {}, None),
        ("yes", {}, None),
    ],
)
def test_the_first_answer_whose_condition_holds_is_given(
    written: Any, given: Mapping[str, Any], expected: Mapping[str, Any] | None
) -> None:
    assert answer({"pay": written}, **given) == expected


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        ({"Card": YES, "pay": NO}, YES),
        ({"pay": NO}, NO),
        ({"Card": [SMALL], "pay": NO}, NO),
        ({"other": YES}, None),
    ],
)
def test_names_are_tried_in_their_order(responses: Any, expected: Mapping[str, Any] | None) -> None:
    assert answer(responses, names=("Card", "pay")) == expected


class RaisingContext:
    def get(self, name: str) -> Any:
        raise OSError(name)

    def __eq__(self, other: object) -> bool:
        raise OSError

    __hash__ = None  # type: ignore[assignment]  # as of any class that compares and does not hash


@pytest.mark.parametrize(
    ("condition", "reason", "level"),
    [
        ("[context.thing.name]", "OSError", logging.WARNING),
        ("context.thing", "OSError", logging.WARNING),
        ("ceil(arguments.secret)", "JMESPathTypeError", logging.WARNING),
        ("arguments.secret < `5`", "TypeError", logging.WARNING),
        (EXPONENTIAL, "TooMuchWorkError", logging.WARNING),
        ("arguments.none", "yields null", logging.INFO),
    ],
)
def test_a_condition_that_cannot_be_evaluated_does_not_hold_and_is_logged(
    condition: str, reason: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    context = {"run_id": "r-1", "thing": RaisingContext()}

    with caplog.at_level(logging.INFO):
        given = answer({"pay": [{"when": condition, "answer": YES}]}, arguments={"secret": "hunter2"}, context=context)

    [record] = caplog.records
    assert (given, record.getMessage(), record.levelno) == (None, "standing_answer_not_evaluated", level)
    assert {name: getattr(record, name) for name in ("run_id", "tool", "position", "reason")} == {
        "run_id": "r-1",
        "tool": "pay",
        "position": 0,
        "reason": reason,
    }
    assert "hunter2" not in str(record.__dict__)


@pytest.mark.parametrize("condition", [EXPONENTIAL, SLOW_WALK, "context == context", "context.many[*].a[*].b"])
def test_all_conditions_of_a_call_together_cost_little(condition: str) -> None:
    context = {"many": [{"a": ["x" * 100] * 10}] * 20_000}
    began = time.thread_time()

    given = answer({"pay": [{"when": condition, "answer": YES}] * 50}, arguments={"a": 1}, context=context)

    assert given is None
    assert time.thread_time() - began < 0.5  # measured: 0.02 s


def test_a_large_value_is_looked_at_no_further_than_the_steps_reach() -> None:
    effort = StepBudget(None)

    with pytest.raises(TooMuchWorkError):
        effort.spend_on_value([0] * 1_000_000)

    assert effort.left > -10
