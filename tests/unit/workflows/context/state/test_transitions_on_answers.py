"""Transitions on answers: a gate opens for its answer, and a tool's value wins."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, build_chat
from tests.unit.workflows.packages import load, write_tool
from workflows.context.context_variables import ContextVariables
from workflows.context.state.state_derivation import derive_states
from workflows.context.state.state_transitions import ObservedToolResult, TurnObservation
from workflows.package.normal_form.package_model import Package

ASK = {"type": "ui_response", "tool": "approve", "response_key": "verdict"}
PAY = {"type": "tool_response", "tool": "approve", "response_key": "verdict"}
FORM = {"name": "Ann", "agreed": True}
PLACE = "definitions.gate.source.transitions"


def gate(*transitions: dict[str, Any], declared: str = "string", default: Any = "pending") -> dict[str, Any]:
    return {"type": declared, "source": {"type": "state", "default": default, "transitions": list(transitions)}}


def transition_to(
    target: Any, trigger: Mapping[str, Any] = ASK, *, start: Any = "pending", match: Any = None
) -> dict[str, Any]:
    return {"from": start, "to": target, "trigger": {**trigger, **({} if match is None else {"match": match})}}


def package(folder: Path, definition: dict[str, Any]) -> Package:
    write_tool(folder, "approve.py", "def approve(): return {'verdict': 'yes'}\n")
    tools = [{"agent": "A", "file": "approve.py", "function": "approve"}]
    return load(folder, tools=tools, context_variables={"definitions": {"gate": definition}})


def value_after(checked: Package, answer: Any) -> Any:
    variable = checked.variables["gate"]
    context = ContextVariables({"gate": variable.default})
    seen = TurnObservation(
        "A", "", (ObservedToolResult("approve", {"verdict": answer}),), ui_answers=(("approve", {"verdict": answer}),)
    )
    derive_states([variable], context, seen)
    return context["gate"]


def warning_texts(checked: Package, *codes: str) -> list[tuple[str, str, str]]:
    return [(each.level, each.code, each.path) for each in checked.findings if each.code in codes]


ACCEPTS = gate(transition_to("accepted"))
TWO_ENDS = gate(transition_to("accepted"), transition_to("rejected"))
WAYS = gate(transition_to("accepted", match={"in": ["yes", "ok"]}), transition_to("rejected", match={"equals": "no"}))


@pytest.mark.design("D1-51", "D4-20")
@pytest.mark.parametrize(
    ("definition", "answer", "value"),
    [
        (ACCEPTS, "accepted", "accepted"),
        (ACCEPTS, " ACCEPTED\n", "accepted"),
        (ACCEPTS, "adjustments_requested", "pending"),
        (ACCEPTS, "not accepted", "pending"),
        (ACCEPTS, "", "pending"),
        (ACCEPTS, True, "pending"),
        (ACCEPTS, False, "pending"),
        (ACCEPTS, None, "pending"),
        (ACCEPTS, FORM, "accepted"),
        (ACCEPTS, ["a"], "accepted"),
        (gate(transition_to("accepted", PAY)), "accepted", "accepted"),
        (gate(transition_to("accepted", PAY)), "declined", "pending"),
        (gate(transition_to(False)), False, False),
        (gate(transition_to(None)), None, None),
        (gate(transition_to(None)), False, "pending"),
        (gate(transition_to(True), declared="boolean"), "yes", True),
        (gate(transition_to(True), declared="boolean"), False, "pending"),
        (gate(transition_to(7), declared="integer"), "7", 7),
        (TWO_ENDS, "accepted", "accepted"),
        (TWO_ENDS, "rejected", "rejected"),
        (TWO_ENDS, FORM, "pending"),  # the form fits both
        (gate(transition_to("accepted"), transition_to("done", start="accepted")), FORM, "accepted"),
        (gate(transition_to("accepted"), transition_to("rejected", start=None)), FORM, "accepted"),
        (gate(transition_to("accepted"), {"to": "rejected", "trigger": ASK}), FORM, "pending"),
        (WAYS, "OK", "accepted"),
        (WAYS, "no", "rejected"),
        (WAYS, "later", "pending"),
        (WAYS, FORM, "pending"),
        (gate(transition_to("accepted", match={"any": True})), "no", "accepted"),
        (gate(transition_to("accepted", match={"equals": True})), "yes", "accepted"),
        (gate({"trigger": ASK}), "later", "later"),  # the answer itself becomes the value
        (gate({"trigger": ASK}, declared="object", default=None), FORM, FORM),
        (gate({"trigger": {**ASK, "match": {"in": ["yes", "no"]}}}), "later", "pending"),
        (gate({"trigger": {**ASK, "match": {"in": ["yes", "no"]}}}), "no", "no"),
        (gate(transition_to("accepted", {"type": "ui_response", "tool": "approve"})), "no", "accepted"),
        (gate(transition_to("done", {"type": "tool_response", "tool": "approve"})), "no", "done"),
    ],
)
def test_an_answer_opens_the_gate_that_waits_for_it(
    tmp_path: Path, definition: dict[str, Any], answer: Any, value: Any
) -> None:
    result = value_after(package(tmp_path, definition), answer)

    assert (type(result), result) == (type(value), value)


FLAT = {"type": "string", "source": {"type": "derived", "default": "pending", "triggers": [{**ASK, "to": "accepted"}]}}


@pytest.mark.parametrize(
    ("definition", "places"),
    [
        (ACCEPTS, [f"{PLACE}[0].trigger.match"]),
        (TWO_ENDS, [f"{PLACE}[0].trigger.match", f"{PLACE}[1].trigger.match"]),
        (gate(transition_to("accepted", PAY)), [f"{PLACE}[0].trigger.match"]),
        (FLAT, ["definitions.gate.source.triggers[0].match"]),
        (gate(transition_to("accepted", {"type": "ui_response", "tool": "approve"})), [f"{PLACE}[0].trigger.match"]),
        (gate(transition_to("accepted", {"type": "ui_response", "tool": "approve"}, match={"any": True})), []),
        (gate(transition_to("done", {"type": "tool_response", "tool": "approve"})), []),
        (gate({"trigger": ASK}), []),
        (WAYS, []),
    ],
)
def test_a_transition_without_its_firing_answer_is_a_warning(
    tmp_path: Path, definition: dict[str, Any], places: list[str]
) -> None:
    checked = package(tmp_path, definition)

    assert warning_texts(checked, "needs_match", "bad_trigger", "wrong_value") == [
        ("warning", "needs_match", place) for place in places
    ]
    assert not checked.is_refused


def test_the_warning_names_what_fires_it_now(tmp_path: Path) -> None:
    [message] = [each.message for each in package(tmp_path, ACCEPTS).findings if each.code == "needs_match"]
    assert "fires only if verdict is 'accepted'" in message


ANSWER_TRIGGER = {"type": "agent_text", "agent": "A", "match": {"equals": "NEXT"}}
ANY_ANSWER = {"type": "tool_response", "tool": "approve"}


@pytest.mark.parametrize(
    ("second_to_collide", "transitions"),
    [
        (True, [transition_to("a", match={"any": True}), transition_to("b", match={"equals": "no"})]),
        (True, [transition_to("a", match={"in": ["yes", "ok"]}), transition_to("b", match={"in": ["OK", "no"]})]),
        (True, [transition_to("a", match={"equals": True}), transition_to("b", match={"equals": "Yes"})]),
        (True, [transition_to("a"), transition_to("b", match={"equals": "A"})]),
        (True, [transition_to("a", match={"equals": "x"}), transition_to("b", PAY, match={"equals": "x"})]),
        (True, [transition_to("a", match={"equals": "x"}), {"to": "b", "trigger": {**ASK, "match": {"equals": "x"}}}]),
        (True, [transition_to("a", match={"equals": "x"}), {"from": "pending", "trigger": ASK}]),
        (True, [transition_to("a", ANY_ANSWER), transition_to("b", PAY, match={"equals": "x"})]),
        (
            True,
            [
                transition_to("a", ANY_ANSWER, match={"equals": {"verdict": "x"}}),
                transition_to("b", PAY, match={"equals": "x"}),
            ],
        ),
        (
            True,
            [
                transition_to("a", {**ANY_ANSWER, "status": "any"}),
                transition_to("b", {**ANY_ANSWER, "status": "error"}),
            ],
        ),
        (True, [transition_to("a", ANSWER_TRIGGER), transition_to("b", ANSWER_TRIGGER)]),
        (False, [transition_to("a"), transition_to("b")]),
        (False, [transition_to("a", match={"equals": "yes"}), transition_to("b", match={"equals": "no"})]),
        (False, [transition_to("a", match={"equals": True}), transition_to("b", match={"equals": "no"})]),
        (False, [transition_to("a", match={"any": True}), transition_to("b", match={"any": True}, start="a")]),
        (
            False,
            [
                transition_to("a", match={"any": True}),
                transition_to("b", {**ASK, "tool": "other"}, match={"any": True}),
            ],
        ),
        (
            False,
            [
                transition_to("a", match={"any": True}),
                transition_to("b", {**ASK, "response_key": "why"}, match={"any": True}),
            ],
        ),
        (False, [transition_to("a", match={"any": True}), transition_to("a", match={"equals": "x"})]),
        (False, [transition_to("a"), {"trigger": ASK}]),
        (
            False,
            [transition_to("a", ANY_ANSWER, match={"equals": "x"}), transition_to("b", PAY, match={"equals": "x"})],
        ),
        (False, [transition_to("a", ANY_ANSWER), transition_to("b", {**ANY_ANSWER, "status": "error"})]),
        (
            False,
            [transition_to("a", ANSWER_TRIGGER), transition_to("b", {**ANSWER_TRIGGER, "match": {"contains": "N"}})],
        ),
        (False, [{"to": "a", "trigger": ANSWER_TRIGGER}, {"from": "a", "to": "b", "trigger": ANSWER_TRIGGER}]),
    ],
)
def test_two_transitions_that_one_event_fires_from_one_state_are_an_error(
    tmp_path: Path, *, second_to_collide: bool, transitions: list[dict[str, Any]]
) -> None:
    checked = package(tmp_path, gate(*transitions))

    expected = [("error", "ambiguous_transitions", f"{PLACE}[1]")] if second_to_collide else []
    assert warning_texts(checked, "ambiguous_transitions") == expected
    assert checked.is_refused is bool(expected)


def test_an_ambiguous_pair_is_reported_once_with_both_ends(tmp_path: Path) -> None:
    three = gate(*(transition_to(end, match={"any": True}) for end in ("a", "b", "c")))

    found = [each for each in package(tmp_path, three).findings if each.code == "ambiguous_transitions"]

    assert [each.path for each in found] == [f"{PLACE}[1]", f"{PLACE}[2]"]
    assert "sets gate to 'b' on an event that also sets it to 'a'" in found[0].message
    assert f"({PLACE}[0])" in found[0].message


def test_more_transitions_than_are_compared_are_reported(tmp_path: Path) -> None:
    many = gate(
        *(transition_to(number, match={"equals": number}) for number in range(300)), declared="integer", default=-1
    )

    assert warning_texts(package(tmp_path, many), "not_compared", "ambiguous_transitions") == [
        ("warning", "not_compared", "definitions.gate")
    ]


ASKING = "from workflows.tools import use_ui_tool\n"
ANSWERED = {"approve": {"verdict": "accepted"}}


@pytest.mark.design("D1-32", "D1-36", "D4-20")
@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("pass", "accepted"),
        ("context_variables['gate'] = 'checked: ' + answer['verdict']", "checked: accepted"),
        ("context_variables.set('gate', None)", None),
        ("context_variables['gate'] = context_variables['gate']", "pending"),  # decided, though nothing changed
        ("context_variables['other'] = 'x'", "accepted"),
    ],
)
@pytest.mark.parametrize("trigger", [{"trigger": ASK}, transition_to("accepted", match={"any": True})])
async def test_what_a_tool_wrote_wins_over_the_raw_answer(
    tmp_path: Path, trigger: dict[str, Any], body: str, value: Any
) -> None:
    source = (
        f"{ASKING}async def approve(context_variables):\n    answer = await use_ui_tool('approve', 1)\n    {body}\n"
    )
    write_tool(tmp_path, "approve.py", source)
    tools = [{"agent": "A", "file": "approve.py", "function": "approve"}]
    checked = load(tmp_path, tools=tools, context_variables={"definitions": {"gate": gate(trigger)}})
    calls = {"answers": {"A": [{"tool_calls": [{"name": "approve"}]}, {"text": "done"}]}}

    _, kept = await Chat(build_chat(checked, calls, tmp_path), {"gate": "pending"}, ui_responses=ANSWERED).run()

    assert kept.context(1)["gate"] == value


def test_a_tool_wins_over_an_answer_and_over_nothing_else(tmp_path: Path) -> None:
    variable = package(tmp_path, gate(transition_to("paid", ANY_ANSWER))).variables["gate"]
    context = ContextVariables({"gate": "pending"})
    seen = TurnObservation("A", "", (ObservedToolResult("approve", "x"),), written_names={"gate"})

    assert derive_states([variable], context, seen) == {"gate": "paid"}
