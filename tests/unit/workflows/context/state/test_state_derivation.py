"""State derivation: a turn sets a variable once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.context.context_variables import ContextVariables
from workflows.context.observers.agent_text import AgentTextTrigger
from workflows.context.observers.agent_turn_count import AgentTurnCountTrigger
from workflows.context.observers.timer_expired import TimerExpiredTrigger
from workflows.context.observers.tool_response import ToolResponseTrigger
from workflows.context.observers.ui_response import UiResponseTrigger
from workflows.context.state.answer_match import AnswerMatch
from workflows.context.state.state_derivation import changes_since, derive_states, take_snapshot
from workflows.context.state.state_transitions import (
    UNSET,
    ObservedToolResult,
    StateTrigger,
    Transition,
    TurnObservation,
)
from workflows.context.values.value_types import ValueType
from workflows.package.normal_form.package_model import Variable
from workflows.package.normal_form.variable_sources import StateSource, StaticSource

X = AgentTextTrigger("A", contains="x")


def variable(*transitions: Transition | StateTrigger, name: str = "done", declared: ValueType = "boolean") -> Variable:
    made = tuple(each if isinstance(each, Transition) else Transition(each) for each in transitions)
    return Variable(name=name, type=declared, source=StateSource(made))


def turn_saying(text: str, agent: str = "A") -> TurnObservation:
    return TurnObservation(agent, text)


@pytest.mark.design("D1-35")
def test_only_the_named_agent_sets_it() -> None:
    context = ContextVariables({"done": False})

    assert derive_states([variable(X)], context, turn_saying("x", agent="B")) == {}
    assert context["done"] is False


@pytest.mark.design("D1-34")
def test_a_value_of_its_own_is_set_and_belongs_to_the_run() -> None:
    becomes = Transition(X, to=["first"])
    one, other = ContextVariables(), ContextVariables()
    derive_states([variable(becomes)], one, turn_saying("x"))
    one["done"].append("second")

    derive_states([variable(becomes)], other, turn_saying("x"))

    assert other["done"] == ["first"]


def test_a_variable_that_already_has_the_value_is_not_set() -> None:
    items = ["first"]
    context = ContextVariables({"done": items})

    assert derive_states([variable(Transition(X, to=["first"]))], context, turn_saying("x")) == {}
    assert context["done"] is items


def test_a_variable_goes_back_to_null() -> None:
    context = ContextVariables({"done": True})

    assert derive_states([variable(Transition(X, to=None))], context, turn_saying("x")) == {"done": None}


@pytest.mark.parametrize(("value", "after"), [("new", "asked"), ("other", "other"), (None, None), (True, True), (1, 1)])
def test_a_guard_lets_pass_only_from_its_value(value: Any, after: Any) -> None:
    context = ContextVariables({"done": value})

    derive_states([variable(Transition(X, to="asked", from_="new"), declared="string")], context, turn_saying("x"))

    assert context["done"] == after


def test_a_guard_may_wait_for_null() -> None:
    context = ContextVariables({"done": None, "other": False})
    guarded = Transition(X, to=True, from_=None)

    derive_states([variable(guarded), variable(guarded, name="other")], context, turn_saying("x"))

    assert (context["done"], context["other"]) == (True, False)


@pytest.mark.design("D4-43")
def test_a_turn_moves_a_state_machine_one_step() -> None:
    context = ContextVariables({"done": "a"})
    machine = variable(Transition(X, "b", "a"), Transition(X, "c", "b"), Transition(X, "d", "c"), declared="string")

    seen = [derive_states([machine], context, turn_saying("x"))["done"] for _ in range(3)]

    assert seen == ["b", "c", "d"]


def test_what_a_pattern_captured_becomes_the_value_in_the_declared_type() -> None:
    pattern = AgentTextTrigger("A", regex=r"score: (\d+) of (\w+)?", groups=2)
    context = ContextVariables({"score": 0, "word": "?"})

    derive_states(
        [
            variable(Transition(pattern, to="$1"), name="score", declared="integer"),
            variable(Transition(pattern, to="$2"), name="word", declared="string"),
        ],
        context,
        turn_saying("My score: 42 of "),
    )

    assert dict(context) == {"score": 42, "word": ""}


@pytest.mark.parametrize(
    ("declared", "answer", "value"),
    [("boolean", "true", True), ("integer", "7", 7), ("boolean", "perhaps", "perhaps"), ("string", "true", "true")],
)
def test_an_answer_is_typed_as_the_variable_where_there_is_one_way_to(
    declared: ValueType, answer: str, value: Any
) -> None:
    context = ContextVariables()
    turn = TurnObservation("A", "", (ObservedToolResult("form", {"answer": answer}),))

    derive_states([variable(UiResponseTrigger("form", "answer"), declared=declared)], context, turn)

    assert context["done"] == value
    assert type(context["done"]) is type(value)


@pytest.mark.design("D1-13", "D1-53")
@pytest.mark.parametrize(
    ("turn", "value"),
    [
        (turn_saying("x"), True),
        (TurnObservation("B", "", ui_answers=(("form", {"ready": "yes"}),)), True),
        (TurnObservation("B", "x", ui_answers=(("form", {"ready": "no"}),)), False),
        (turn_saying("x", agent="B"), None),
    ],
)
def test_a_text_and_an_answer_may_set_the_same_variable(turn: TurnObservation, value: Any) -> None:
    context = ContextVariables({"done": None})

    derive_states([variable(X, UiResponseTrigger("form", "ready"))], context, turn)

    assert context["done"] is value


@pytest.mark.design("D2-6")
def test_without_derived_variables_nothing_is_set() -> None:
    context = ContextVariables({"tier": "x"})
    constant = Variable(name="tier", type="string", source=StaticSource())

    assert derive_states([], context, turn_saying("x")) == {}
    assert derive_states([constant], context, turn_saying("x")) == {}
    assert dict(context) == {"tier": "x"}


@pytest.mark.design("D2-11")
def test_true_is_not_one() -> None:
    context = ContextVariables({"done": 1})

    assert derive_states([variable(X)], context, turn_saying("x")) == {"done": True}


def test_the_identity_of_the_run_is_never_derived() -> None:
    context = ContextVariables({"app_id": "acme"})

    assert (
        derive_states(
            [variable(Transition(X, to="globex"), name="app_id", declared="string")], context, turn_saying("x")
        )
        == {}
    )
    assert context["app_id"] == "acme"


def test_a_value_that_refuses_to_be_compared_is_replaced() -> None:
    class Odd:
        def __eq__(self, _other: object) -> bool:
            raise RuntimeError("no")

        __hash__ = None  # type: ignore[assignment]  # -- as Python does for classes that compare

    context = ContextVariables({"done": Odd()})

    derive_states([variable(X, Transition(X, to="y", from_="z"))], context, turn_saying("x"))

    assert context["done"] is True


names = st.sampled_from(["A", "B"])
triggers: st.SearchStrategy[StateTrigger] = st.one_of(
    st.builds(AgentTextTrigger, agent=names, contains=st.sampled_from(["", "x", "y"])),
    st.builds(AgentTextTrigger, agent=names, equals=st.sampled_from(["x", "y"])),
    st.builds(AgentTurnCountTrigger, agent=names, count=st.integers(1, 3)),
    st.builds(UiResponseTrigger, tool=names, response_key=st.sampled_from(["k", "l"])),
    st.builds(
        ToolResponseTrigger,
        tool=names,
        status=st.sampled_from(["success", "error", "any"]),
        response_key=st.sampled_from([None, "k"]),
        match=st.sampled_from([None, *(AnswerMatch((each,)) for each in (1, "v", None))]),
    ),
    st.builds(TimerExpiredTrigger, after_s=st.sampled_from([1.0, 10.0])),
)
values = st.sampled_from([True, False, "stage", None, 1, 0, ["x"], {"k": 1}])
turns = st.builds(
    TurnObservation,
    agent=names,
    text=st.sampled_from(["", "x", "xy"]),
    tool_results=st.lists(
        st.builds(ObservedToolResult, tool=names, value=st.one_of(values, st.just({"l": "v"})), ok=st.booleans()),
        max_size=3,
    ).map(tuple),
    turns_by_agent=st.dictionaries(names, st.integers(0, 3)),
    elapsed_s=st.sampled_from([0.0, 1.0, 30.0]),
)
targets = st.one_of(values, st.just(UNSET))
free = st.lists(st.builds(Transition, trigger=triggers, to=targets), max_size=4)
# No guard waits for the result of another transition: that is a step of its own, tested above.
guarded = st.lists(
    st.builds(Transition, trigger=triggers, to=targets, from_=st.sampled_from(["begin", "else"])), max_size=4
)


@pytest.mark.design("D1-34")
@given(st.one_of(free, guarded), turns, st.sampled_from(["begin", "", False, None]))
def test_applying_it_again_changes_nothing(
    given_transitions: list[Transition], turn: TurnObservation, begin: Any
) -> None:
    state = variable(*given_transitions)
    context = ContextVariables({"done": begin})
    derive_states([state], context, turn)
    after_once = take_snapshot(context)

    again = derive_states([state], context, turn)

    assert again == {}
    assert take_snapshot(context) == after_once


@pytest.mark.design("D1-14", "D1-50", "D1-77", "D2-17")
@given(st.tuples(free, guarded).map(lambda both: [*both[0], *both[1]]), turns)
def test_another_worker_derives_the_same(given_transitions: list[Transition], turn: TurnObservation) -> None:
    one, other = ContextVariables({"done": "begin"}), ContextVariables({"done": "begin"})

    assert derive_states([variable(*given_transitions)], one, turn) == derive_states(
        [variable(*given_transitions)], other, turn
    )
    assert take_snapshot(one) == take_snapshot(other)


def test_changes_name_what_is_new_other_or_gone() -> None:
    before = take_snapshot({"a": 1, "b": 2, "c": 3})

    assert changes_since(before, {"a": 1, "b": 5, "d": None}) == {"b": 5, "c": None, "d": None}


def test_a_list_that_was_changed_in_place_is_a_change() -> None:
    context = {"items": [1], "kept": [1]}
    before = take_snapshot(context)

    context["items"].append(2)

    assert changes_since(before, context) == {"items": [1, 2]}
