"""Repetitions: what is a loop, and what only looks like one."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.chat.history.transcript import Turn
from workflows.chat.limits.repetitions import (
    CYCLE_LENGTHS,
    MAX_ROUND_CYCLES,
    MAX_SAME_ROUNDS,
    MAX_SAME_TURNS,
    MAX_TURN_CYCLES,
    Repetition,
    count_turns_in_a_row,
    find_repeated_rounds,
    find_repeated_turns,
)

Line = Mapping[str, Any]


def tool_request(name: str, arguments: str = "{}") -> Line:
    return {"text": None, "tool_calls": [{"id": "1", "name": name, "arguments": arguments}]}


def result_event(name: str, text: str = "same") -> Line:
    return {"tool_results": [{"id": "1", "name": name, "text": text}]}


def call_and_result(*names: str) -> list[Line]:
    """Makes rounds of one call each, all of them answered but the last."""
    lines = [line for name in names for line in (tool_request(name), result_event(name))]
    return lines[:-1]


def turn(agent: str = "A", text: str = "ok", *, events: Sequence[Line] = (), changed: bool = False) -> Turn:
    return Turn(agent, text, events, {"n": 1} if changed else {})


@pytest.mark.design("D5-32")
def test_the_same_round_again_and_again_is_a_loop_before_it_runs_again() -> None:
    assert find_repeated_rounds([], "A", call_and_result(*"t" * (MAX_SAME_ROUNDS - 1))) is None
    assert find_repeated_rounds([], "A", call_and_result(*"t" * MAX_SAME_ROUNDS)) == Repetition(1, MAX_SAME_ROUNDS)


@pytest.mark.parametrize("names", ["ab", "abc", "abcd", "aab", "abcb"])
def test_rounds_that_take_turns_are_a_loop(names: str) -> None:
    assert find_repeated_rounds([], "A", call_and_result(*names * MAX_ROUND_CYCLES)) == Repetition(
        len(names), MAX_ROUND_CYCLES
    )
    assert find_repeated_rounds([], "A", call_and_result(*(names * MAX_ROUND_CYCLES)[1:])) is None


def test_five_rounds_that_take_turns_are_work() -> None:
    assert find_repeated_rounds([], "A", call_and_result(*"abcde" * 10)) is None


@pytest.mark.parametrize("arguments", [[json.dumps({"page": number}) for number in range(20)], ["{}", '{"x": 1}'] * 2])
def test_other_arguments_are_other_calls(arguments: list[str]) -> None:
    lines = [line for each in arguments for line in (tool_request("t", each), result_event("t"))]

    assert find_repeated_rounds([], "A", lines[:-1]) is None


def test_the_same_arguments_may_be_written_in_many_ways() -> None:
    ways = ['{"a": 1, "b": 2}', '{"b":2,"a":1}', '{ "a" : 1 , "b" : 2 }', '{"a":1,"b":2}', '{"b": 2, "a": 1}']
    lines = [line for each in ways for line in (tool_request("t", each), result_event("t"))]

    assert find_repeated_rounds([], "A", lines[:-1]) == Repetition(1, 5)


def test_the_same_call_with_other_answers_is_polling_and_no_loop() -> None:
    lines = [line for number in range(30) for line in (tool_request("next"), result_event("next", f"item {number}"))]

    assert find_repeated_rounds([], "A", lines[:-1]) is None


def test_calls_of_one_answer_are_one_round_whatever_their_results_order() -> None:
    def round_of(*results: str) -> list[Line]:
        calls = [{"id": name, "name": name, "arguments": "{}"} for name in "ab"]
        return [{"text": None, "tool_calls": calls},
                {"tool_results": [{"id": name, "name": name, "text": "x"} for name in results]}]  # fmt: skip

    lines = [line for number in range(5) for line in round_of(*("ab" if number % 2 else "ba"))]

    assert find_repeated_rounds([], "A", lines[:-1]) == Repetition(1, 5)


def test_a_loop_continues_over_turns_without_news() -> None:
    earlier = [turn(events=[*call_and_result("t", "t"), result_event("t")]) for _ in range(2)]

    assert find_repeated_rounds(earlier, "A", call_and_result("t")) == Repetition(1, 5)


def test_a_loop_over_two_agents_is_one() -> None:
    earlier = [
        turn(agent, events=[*call_and_result(tool), result_event(tool)]) for agent, tool in [("A", "x"), ("B", "y")] * 4
    ]

    assert find_repeated_rounds(earlier[:-1], "B", call_and_result("y")) == Repetition(2, 4)


@pytest.mark.parametrize("new", [{"text": "something new"}, {"changed": True}], ids=["said", "changed"])
def test_turns_that_get_somewhere_begin_anew(new: dict[str, Any]) -> None:
    """As an agent does that reads the same guideline in each of its turns."""
    looked_up = [*call_and_result("read"), result_event("read")]
    earlier = [turn(text=f"{number}", events=looked_up) for number in range(10)]
    repeated = [turn(events=looked_up) for _ in range(3)]

    assert find_repeated_rounds(earlier, "A", call_and_result("read")) is None
    assert find_repeated_rounds([*repeated, turn(events=looked_up, **new)], "A", call_and_result("read")) is None


def test_the_same_turn_again_and_again_is_a_loop() -> None:
    assert find_repeated_turns([turn()] * (MAX_SAME_TURNS - 1)) is None
    assert find_repeated_turns([turn()] * MAX_SAME_TURNS) == Repetition(1, MAX_SAME_TURNS)


@pytest.mark.parametrize("agents", ["AB", "ABC", "ABCD"])
def test_turns_that_take_turns_are_a_loop(agents: str) -> None:
    turns = [turn(agent) for agent in agents * MAX_TURN_CYCLES]

    assert find_repeated_turns(turns[1:]) is None
    assert find_repeated_turns(turns) == Repetition(len(agents), MAX_TURN_CYCLES)


def test_five_agents_in_a_circle_are_bounded_by_the_turns_alone() -> None:
    assert find_repeated_turns([turn(agent) for agent in "ABCDE" * 10]) is None


@pytest.mark.parametrize(
    "other",
    [turn("B"), turn(text="new"), turn(events=call_and_result("t")), turn(changed=True)],
    ids=["who", "text", "calls", "context"],
)
def test_one_other_turn_is_no_loop_yet(other: Turn) -> None:
    for place in range(MAX_SAME_TURNS):
        turns = [turn()] * MAX_SAME_TURNS
        turns[place] = other
        assert find_repeated_turns(turns) is None


def test_turns_that_change_the_context_are_progress_for_ever() -> None:
    assert find_repeated_turns([turn(changed=True)] * 100) is None


def test_results_do_not_distinguish_turns_since_texts_do() -> None:
    turns = [
        turn(events=[tool_request("now"), result_event("now", f"{number} o'clock")]) for number in range(MAX_SAME_TURNS)
    ]

    assert find_repeated_turns(turns) == Repetition(1, MAX_SAME_TURNS)


@given(st.lists(st.sampled_from("ab"), max_size=40))
def test_a_loop_is_found_by_its_definition(agents: list[str]) -> None:
    found = find_repeated_turns([turn(agent) for agent in agents])

    def loops(period: int, times: int) -> bool:
        end = agents[-period * times :]
        return len(end) == period * times and end == end[:period] * times

    expected = [Repetition(1, MAX_SAME_TURNS)] if loops(1, MAX_SAME_TURNS) else []
    expected += [Repetition(period, MAX_TURN_CYCLES) for period in CYCLE_LENGTHS if loops(period, MAX_TURN_CYCLES)]
    assert found == (expected[0] if expected else None)


def test_a_loop_survives_the_store() -> None:
    turns = [
        Turn.from_document(json.loads(json.dumps(turn(events=call_and_result("t")).as_document())))
        for _ in range(MAX_SAME_TURNS - 1)
    ]

    assert find_repeated_turns([*turns, turn(events=call_and_result("t"))]) == Repetition(1, MAX_SAME_TURNS)


@pytest.mark.parametrize(("agents", "row"), [("", 0), ("A", 1), ("AAB", 0), ("BAA", 2), ("AAA", 3)])
def test_turns_in_a_row_are_the_last_ones(agents: str, row: int) -> None:
    assert count_turns_in_a_row([turn(agent) for agent in agents], "A") == row


def test_a_repetition_in_words() -> None:
    assert Repetition(1, 6).describe("turn") == "the same turn 6 times in a row"
    assert Repetition(2, 5).describe("turn") == "the same 2 turns 5 times over"
