"""Loops: what is one, and what only looks like one."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.chat.loops import (
    PERIODS,
    ROUNDS_OVER,
    SAME_ROUNDS,
    SAME_TURNS,
    TURNS_OVER,
    Repetition,
    repeated_rounds,
    repeated_turns,
    turns_in_a_row,
)
from workflows.chat.transcript import Turn

Line = Mapping[str, Any]


def wanted(name: str, arguments: str = "{}") -> Line:
    return {"text": None, "tool_calls": [{"id": "1", "name": name, "arguments": arguments}]}


def answered(name: str, text: str = "same") -> Line:
    return {"tool_results": [{"id": "1", "name": name, "text": text}]}


def called(*names: str) -> list[Line]:
    """Rounds of one call each, all of them answered but the last."""
    lines = [line for name in names for line in (wanted(name), answered(name))]
    return lines[:-1]


def turn(agent: str = "A", text: str = "ok", *, events: Sequence[Line] = (), changed: bool = False) -> Turn:
    return Turn(agent, text, events, {"n": 1} if changed else {})


@pytest.mark.design("D5-32")
def test_the_same_round_again_and_again_is_a_loop_before_it_runs_again() -> None:
    assert repeated_rounds([], "A", called(*"t" * (SAME_ROUNDS - 1))) is None
    assert repeated_rounds([], "A", called(*"t" * SAME_ROUNDS)) == Repetition(1, SAME_ROUNDS)


@pytest.mark.parametrize("names", ["ab", "abc", "abcd", "aab", "abcb"])
def test_rounds_that_take_turns_are_a_loop(names: str) -> None:
    assert repeated_rounds([], "A", called(*names * ROUNDS_OVER)) == Repetition(len(names), ROUNDS_OVER)
    assert repeated_rounds([], "A", called(*(names * ROUNDS_OVER)[1:])) is None


def test_five_rounds_that_take_turns_are_work() -> None:
    assert repeated_rounds([], "A", called(*"abcde" * 10)) is None


@pytest.mark.parametrize("arguments", [[json.dumps({"page": number}) for number in range(20)], ["{}", '{"x": 1}'] * 2])
def test_other_arguments_are_other_calls(arguments: list[str]) -> None:
    lines = [line for each in arguments for line in (wanted("t", each), answered("t"))]

    assert repeated_rounds([], "A", lines[:-1]) is None


def test_the_same_arguments_may_be_written_in_many_ways() -> None:
    ways = ['{"a": 1, "b": 2}', '{"b":2,"a":1}', '{ "a" : 1 , "b" : 2 }', '{"a":1,"b":2}', '{"b": 2, "a": 1}']
    lines = [line for each in ways for line in (wanted("t", each), answered("t"))]

    assert repeated_rounds([], "A", lines[:-1]) == Repetition(1, 5)


def test_the_same_call_with_other_answers_is_somebody_who_waits_or_takes_the_next_of_many() -> None:
    lines = [line for number in range(30) for line in (wanted("next"), answered("next", f"item {number}"))]

    assert repeated_rounds([], "A", lines[:-1]) is None


def test_calls_of_one_answer_are_one_round_whatever_their_results_order() -> None:
    def round_of(*results: str) -> list[Line]:
        calls = [{"id": name, "name": name, "arguments": "{}"} for name in "ab"]
        return [{"text": None, "tool_calls": calls},
                {"tool_results": [{"id": name, "name": name, "text": "x"} for name in results]}]  # fmt: skip

    lines = [line for number in range(5) for line in round_of(*("ab" if number % 2 else "ba"))]

    assert repeated_rounds([], "A", lines[:-1]) == Repetition(1, 5)


def test_a_loop_goes_on_over_turns_that_say_nothing_new() -> None:
    earlier = [turn(events=[*called("t", "t"), answered("t")]) for _ in range(2)]

    assert repeated_rounds(earlier, "A", called("t")) == Repetition(1, 5)


def test_a_loop_over_two_agents_is_one() -> None:
    earlier = [turn(agent, events=[*called(tool), answered(tool)]) for agent, tool in [("A", "x"), ("B", "y")] * 4]

    assert repeated_rounds(earlier[:-1], "B", called("y")) == Repetition(2, 4)


@pytest.mark.parametrize("new", [{"text": "something new"}, {"changed": True}], ids=["said", "changed"])
def test_turns_that_get_somewhere_begin_anew(new: dict[str, Any]) -> None:
    """As an agent does that reads the same guideline in each of its turns."""
    looked_up = [*called("read"), answered("read")]
    earlier = [turn(text=f"{number}", events=looked_up) for number in range(10)]
    repeated = [turn(events=looked_up) for _ in range(3)]

    assert repeated_rounds(earlier, "A", called("read")) is None
    assert repeated_rounds([*repeated, turn(events=looked_up, **new)], "A", called("read")) is None


def test_the_same_turn_again_and_again_is_a_loop() -> None:
    assert repeated_turns([turn()] * (SAME_TURNS - 1)) is None
    assert repeated_turns([turn()] * SAME_TURNS) == Repetition(1, SAME_TURNS)


@pytest.mark.parametrize("agents", ["AB", "ABC", "ABCD"])
def test_turns_that_take_turns_are_a_loop(agents: str) -> None:
    turns = [turn(agent) for agent in agents * TURNS_OVER]

    assert repeated_turns(turns[1:]) is None
    assert repeated_turns(turns) == Repetition(len(agents), TURNS_OVER)


def test_five_agents_in_a_circle_are_bounded_by_the_turns_alone() -> None:
    assert repeated_turns([turn(agent) for agent in "ABCDE" * 10]) is None


@pytest.mark.parametrize(
    "other",
    [turn("B"), turn(text="new"), turn(events=called("t")), turn(changed=True)],
    ids=["who", "text", "calls", "context"],
)
def test_one_other_turn_is_no_loop_yet(other: Turn) -> None:
    for place in range(SAME_TURNS):
        turns = [turn()] * SAME_TURNS
        turns[place] = other
        assert repeated_turns(turns) is None


def test_turns_that_change_the_context_are_progress_for_ever() -> None:
    assert repeated_turns([turn(changed=True)] * 100) is None


def test_results_do_not_tell_turns_apart_since_texts_do() -> None:
    turns = [turn(events=[wanted("now"), answered("now", f"{number} o'clock")]) for number in range(SAME_TURNS)]

    assert repeated_turns(turns) == Repetition(1, SAME_TURNS)


@given(st.lists(st.sampled_from("ab"), max_size=40))
def test_a_loop_is_found_by_its_definition(agents: list[str]) -> None:
    found = repeated_turns([turn(agent) for agent in agents])

    def loops(period: int, times: int) -> bool:
        end = agents[-period * times :]
        return len(end) == period * times and end == end[:period] * times

    expected = [Repetition(1, SAME_TURNS)] if loops(1, SAME_TURNS) else []
    expected += [Repetition(period, TURNS_OVER) for period in PERIODS if loops(period, TURNS_OVER)]
    assert found == (expected[0] if expected else None)


def test_a_loop_survives_the_store() -> None:
    turns = [
        Turn.from_document(json.loads(json.dumps(turn(events=called("t")).as_document())))
        for _ in range(SAME_TURNS - 1)
    ]

    assert repeated_turns([*turns, turn(events=called("t"))]) == Repetition(1, SAME_TURNS)


@pytest.mark.parametrize(("agents", "row"), [("", 0), ("A", 1), ("AAB", 0), ("BAA", 2), ("AAA", 3)])
def test_turns_in_a_row_are_the_last_ones(agents: str, row: int) -> None:
    assert turns_in_a_row([turn(agent) for agent in agents], "A") == row


def test_a_repetition_in_words() -> None:
    assert Repetition(1, 6).words("turn") == "the same turn 6 times in a row"
    assert Repetition(2, 5).words("turn") == "the same 2 turns 5 times over"
