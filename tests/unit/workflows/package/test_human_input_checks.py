"""Checks for people: parts of a package that wait for an absent person."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.normal_form import (
    ORCH,
    FindingKey,
    H,
    V,
    findings_of,
    messages,
    package,
    rules,
    states,
    tool,
    variables,
)
from tests.unit.workflows.package.test_state_checks import WatchedTrigger
from tests.unit.workflows.packages import write_tool
from workflows.context.observers.agent_text import AgentTextTrigger
from workflows.context.observers.user_text import UserTextTrigger
from workflows.context.state.state_transitions import Transition
from workflows.package.checks import human_input_checks
from workflows.package.normal_form.package_model import Package, Rule
from workflows.package.normal_form.variable_sources import StateSource
from workflows.package.readers.code.context_writes import find_unconditional_writes
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

RESPONSE = Transition(WatchedTrigger("ui_response", tool="form", response_key="choice"))
FORM = tool("form", kind="UI_Tool")
WAITS = ("warning", "waits_for_ui", H, "handoff_rules[0]")
NEEDS_UI = ("warning", "needs_ui", V, "definitions.v")


SMALL = {"when": "arguments.amount < `5`", "answer": {"choice": 1}}


def routed_package(*texts: str, **orchestrator: Any) -> Package:
    return package(rules=rules(*texts), orchestrator=orchestrator)


def answering_schedule(**ui_responses: Any) -> ScheduleSpec:
    parts = {"name": "nightly", "every": "1h", "apps": ["a"], "ui_responses": ui_responses}
    return ScheduleSpec.model_validate(parts)


def waiting_package(*transitions: Transition, **parts: Any) -> Package:
    given = {"tools": (FORM,), "rules": rules("A > B if ${v} == 'yes'", "A > B", "B > terminate"), **parts}
    return package(variables=variables(v=StateSource(transitions)), **given)


@pytest.mark.design("D4-26")
@pytest.mark.parametrize(
    ("checked", "findings"),
    [
        (routed_package("A > user"), [("warning", "hands_to_user", H, "handoff_rules[0]")]),
        (
            routed_package("A > B if ${run_id}", "A > user", "B > user", human_in_the_loop=True),
            [
                ("warning", "human_in_the_loop", ORCH, "human_in_the_loop"),
                ("info", "hands_to_user", H, "handoff_rules[1]"),
            ],
        ),
        (
            package(orchestrator={"human_in_the_loop": True}),
            [("warning", "human_in_the_loop", ORCH, "human_in_the_loop")],
        ),
        (
            routed_package("A > user", "user > B", "user > A", "B > terminate"),
            [
                ("warning", "hands_to_user", H, "handoff_rules[0]"),
                ("warning", "rule_of_user", H, "handoff_rules[1]"),
            ],
        ),
        (routed_package("user > A", "A > B", "B > terminate", initial_agent="user"), []),
        (waiting_package(RESPONSE), [NEEDS_UI, WAITS]),
        (waiting_package(RESPONSE, rules=rules("A > B", "B > terminate")), [NEEDS_UI]),
        (waiting_package(RESPONSE, triggers=(answering_schedule(form={"choice": 1}),)), []),
        (
            waiting_package(RESPONSE, triggers=(answering_schedule(form={"choice": 1}), answering_schedule())),
            [NEEDS_UI, WAITS],
        ),
        (waiting_package(RESPONSE, triggers=(answering_schedule(form={"other": 1}),)), [NEEDS_UI, WAITS]),
        (
            waiting_package(RESPONSE, triggers=(answering_schedule(form=[SMALL]),)),
            [NEEDS_UI, WAITS],
        ),  # the others ask a person
        (waiting_package(RESPONSE, triggers=(answering_schedule(form=[SMALL, {"answer": {"choice": 2}}]),)), []),
        (
            waiting_package(RESPONSE, triggers=(answering_schedule(form=[SMALL, {"answer": {"other": 2}}]),)),
            [NEEDS_UI, WAITS],
        ),
        (waiting_package(), []),
        (package(variables=states("v")), []),
    ],
)
def test_what_waits_for_a_person_is_found(checked: Package, findings: list[FindingKey]) -> None:
    reported = [finding for finding in findings_of(checked) if finding[1] not in ("unreachable_agent", "no_way_on")]
    assert reported == findings


ACCEPTED = Transition(WatchedTrigger("ui_response", tool="form", response_key="choice"), to="yes")
CONFIRMED = Transition(WatchedTrigger("ui_response", tool="form"))
USER_TEXT_CONDITION = AgentTextTrigger("A", equals="yes")


@pytest.mark.design("D1-13")
@pytest.mark.parametrize(
    ("transitions", "needs_ui"),
    [
        ((RESPONSE, Transition(USER_TEXT_CONDITION, to="yes")), False),  # any answer: another way on
        ((ACCEPTED, Transition(USER_TEXT_CONDITION, to="yes")), False),
        ((ACCEPTED, Transition(USER_TEXT_CONDITION, to="no")), True),  # only a person leads to yes
        ((ACCEPTED, Transition(USER_TEXT_CONDITION)), True),
        ((CONFIRMED, Transition(USER_TEXT_CONDITION)), False),  # both say true
        ((CONFIRMED, Transition(USER_TEXT_CONDITION, to="yes")), True),
        ((ACCEPTED, CONFIRMED, Transition(USER_TEXT_CONDITION, to="yes")), True),
        ((ACCEPTED, Transition(AgentTextTrigger("A", regex="(.*)", groups=1), to="$1")), False),
        ((ACCEPTED, Transition(WatchedTrigger("tool_response", tool="save"), to="yes")), False),
        ((ACCEPTED, Transition(WatchedTrigger("tool_response", tool="form"), to="yes")), True),  # of the form itself
        (
            (ACCEPTED, Transition(UserTextTrigger(AgentTextTrigger("user", equals="yes")), to="yes")),
            True,
        ),  # no person is asked
    ],
)
def test_a_variable_that_is_also_set_without_a_person_needs_none(
    transitions: tuple[Transition, ...], needs_ui: bool
) -> None:
    checked = waiting_package(*transitions, tools=(FORM, tool("save")))
    assert (NEEDS_UI in findings_of(checked)) is needs_ui


@pytest.mark.parametrize(
    ("code", "needs_ui"),
    [
        ("def save(context_variables): context_variables.set('v', 1)", False),
        ("def save(context_variables): context_variables['v'] = 1", False),
        ("def save(context_variables): context_variables.update({'w': 1, 'v': 2})", False),
        ("def save(context_variables): context_variables.update(v=2)", False),
        ("def save(c): set_context_variable(c, 'v', 2)", False),
        ("def save(ctx: ContextVariables): ctx.data['v'] = 2", False),
        ("def save(order): result['v'] = order.set('v', 1)", True),  # of something else
        ("def save(context_variables): return context_variables.get('v')", True),
        ("def save(context_variables): return context_variables['v']", True),
        ("def save(context_variables): context_variables.set('w', 'v')", True),
        ("async def save(context_variables): context_variables.set('v', await use_ui_tool('form'))", True),
        ("def save(:", True),
    ],
)
def test_a_variable_that_a_tool_sets_without_asking_needs_no_person(tmp_path: Path, code: str, needs_ui: bool) -> None:
    save = replace(tool("save"), file=write_tool(tmp_path, "save.py", code))
    assert (NEEDS_UI in findings_of(waiting_package(ACCEPTED, tools=(FORM, save)))) is needs_ui


def test_code_is_read_once_for_all_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def names_of(file: Path) -> frozenset[str]:
        read.append(file)
        return find_unconditional_writes(file)

    monkeypatch.setattr(human_input_checks, "find_unconditional_writes", names_of)
    save = replace(tool("save"), file=write_tool(tmp_path, "save.py", "def save(ctx): ctx['v2'] = 1"))
    many = variables(**{f"v{number}": StateSource((ACCEPTED,)) for number in range(3)})

    checked = package(variables=many, tools=(save, replace(save, function="again")))

    assert [place for _, code, _, place in findings_of(checked) if code == "needs_ui"] == [
        "definitions.v0",
        "definitions.v1",
    ]
    assert read == [save.file]


@pytest.mark.parametrize("human", [True, False])
def test_a_users_text_fires_only_where_a_person_is_asked(human: bool) -> None:
    heard = Transition(
        UserTextTrigger(AgentTextTrigger("user", equals="yes")), to="yes", trigger_place="definitions.v.source.trigger"
    )
    checked = package(variables=variables(v=StateSource((heard,))), orchestrator={"human_in_the_loop": human})

    assert (("warning", "never_fires", V, "definitions.v.source.trigger.type") in findings_of(checked)) is not human


def test_an_answer_may_stand_under_the_name_that_the_tool_asks_for(tmp_path: Path) -> None:
    file = write_tool(tmp_path, "form.py", "async def form():\n    return await use_ui_tool('Card', {})\n")
    asks = replace(FORM, file=file)

    answered = waiting_package(RESPONSE, tools=(asks,), triggers=(answering_schedule(Card={"choice": 1}),))
    other = waiting_package(RESPONSE, tools=(asks,), triggers=(answering_schedule(Card={"other": 1}),))

    assert NEEDS_UI not in findings_of(answered)
    assert NEEDS_UI in findings_of(other)


def test_a_person_has_no_model_that_could_judge() -> None:
    judged = Rule("user", "B", judgement="they agree", place="handoff_rules[0]")
    checked = package(rules=(judged, *rules("A > B", "B > terminate")))

    assert ("warning", "judged_for_user", H, "handoff_rules[0]") in findings_of(checked)


def test_the_end_at_a_user_is_reported_as_it_will_be() -> None:
    alone, together = routed_package("A > user"), routed_package("A > user", human_in_the_loop=True)

    assert "completed" in messages(alone, "hands_to_user")[0]
    assert "needs_human" in messages(together, "hands_to_user")[0]
