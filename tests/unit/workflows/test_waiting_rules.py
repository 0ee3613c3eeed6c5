"""Rules that can never hold are found, and no rule that may hold is reported."""

import asyncio
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.workflows.chats import Chat, build_chat
from tests.unit.workflows.normal_form import (
    FindingKey,
    H,
    agents,
    findings_after_an_error,
    findings_of,
    messages,
    package,
    rules,
    tool,
)
from tests.unit.workflows.packages import write_tool
from workflows.context.expressions.routing_conditions import compile_condition
from workflows.context.observers.agent_text import AgentTextTrigger
from workflows.context.observers.handoff import HandoffTrigger
from workflows.context.observers.lifecycle import LifecycleTrigger
from workflows.context.observers.user_text import UserTextTrigger
from workflows.context.state.state_transitions import UNSET, StateTrigger, Transition
from workflows.package.checks.routing.unsatisfiable_rules import find_unsatisfiable_rules
from workflows.package.checks.variables.possible_values import END_MOMENTS
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import Hook, LifecycleTool, Limits, Package, Pattern, Rule, Variable
from workflows.package.normal_form.variable_sources import (
    ComputedSource,
    DatabaseSource,
    EnvSource,
    RuntimeSource,
    Source,
    StateSource,
    StaticSource,
)

WAITS = ("warning", "waits_for_ever", H, "handoff_rules[0]")
DB = DatabaseSource("d", "c", {"app_id": "{{app_id}}"}, ("f",))
CODE: list[dict[str, Any]] = [
    {"tools": (tool("save"),)},
    {"hooks": (Hook("update_agent_state", "A", Path("h.py"), "h"),)},
    {"lifecycle_tools": (LifecycleTool("before_chat", None, Path("t.py"), "t"),)},
]


def text_transition(agent: str, word: str = "NEXT", to: Any = UNSET, from_: Any = UNSET) -> Transition:
    return Transition(AgentTextTrigger(agent, equals=word), to=to, from_=from_)


def transition_on(trigger: StateTrigger, to: Any = UNSET, from_: Any = UNSET) -> Transition:
    return Transition(trigger, to=to, from_=from_)


def user_transition(to: Any) -> Transition:
    return Transition(UserTextTrigger(AgentTextTrigger("user", equals="yes")), to=to)


def variable(name: str, source: Source, default: Any = None, **fields: Any) -> Variable:
    return Variable(name, fields.pop("type", "string"), source, default, **fields)


def conditional(condition: str, *declared: Variable, **parts: Any) -> Package:
    given = {"rules": rules(f"A > B if {condition}", "A > B", "B > terminate"), **parts}
    return package(variables={each.name: each for each in declared}, **given)


def waiting_findings(checked: Package) -> list[FindingKey]:
    return [each for each in findings_of(checked) if each[1] == "waits_for_ever"]


def state(*transitions: Transition, default: Any = "new", name: str = "v", **fields: Any) -> Variable:
    return variable(name, StateSource(transitions), default, **fields)


PLAN = variable("plan", StaticSource(), "free")
STEP_TRANSITIONS = (
    text_transition("A", to="b"),
    text_transition("B", to="c", from_="b"),
    text_transition("B", to="z", from_="y"),
)
STEP = state(*STEP_TRANSITIONS)

WIDE = [state(*(text_transition("A", to=str(each)) for each in range(20)), name=name) for name in "uvw"]

NEVER = [
    conditional("False"),
    conditional("1 > 2 or 'a' == 'b'"),
    conditional("${no}"),
    conditional("${no} == 'a'"),
    conditional("${no.part} == 1 and ${run_id}"),
    conditional("${no} > 0"),
    conditional("len(${no}) >= 0"),
    conditional("${plan} == 'pro'", PLAN),
    conditional("${plan} != 'free'", PLAN),
    conditional("not ${plan}", PLAN),
    conditional("${v} == 'done'", state()),
    conditional("${v}", variable("v", ComputedSource())),
    conditional("${v} == 'gone'", STEP),
    conditional("${u} == 'gone' and ${v} == ${w}", *WIDE),
    conditional("${v} == 'z'", STEP),  # its transition starts at an unreachable value
    conditional("${v} in ['x', 'y']", STEP),
    conditional("${v} > 5", STEP),
    conditional("${v} == 'gone' or ${v} == 'lost'", STEP),
    conditional("${v} == 'b' and ${plan} == 'pro'", STEP, PLAN),
    conditional("${v} == 'b' and ${v} == 'c'", STEP),
    conditional("${v} == 'true'", state(text_transition("A"), default=False, type="string")),  # its value is no text
    conditional("${app_id} == 'a' and ${app_id} == 'b'"),
    conditional("1 == ${n} and ${run_id} and ${n} == true", variable("n", RuntimeSource())),
    conditional("${v} == 'yes'", state(user_transition("yes"))),
    conditional("${kind} == 'car'", orchestrator={"inputs": {"kind": {"enum": ["bus", "tram"]}}}),
    conditional("${given} == 'maybe'", orchestrator={"inputs": {"given": {"type": "boolean"}}}),
    conditional("${v} == 'gone'", state(enum=("new", "done")), **CODE[0]),
    # no rule is evaluated after these moments
    *(conditional("${v} == 'go'", state(transition_on(LifecycleTrigger(each), "go"))) for each in END_MOMENTS),
    # it waits for its own hand-off
    package(
        variables={"v": state(transition_on(HandoffTrigger("B"), "go"))},
        rules=rules("A > B if ${v} == 'go'", "A > terminate", "B > terminate"),
    ),
    package(
        variables={"v": state(transition_on(HandoffTrigger("A", "B"), "go"))},
        rules=rules("A > B if ${v} == 'go'", "A > terminate", "B > A"),
    ),
    # only B sets the text, and B speaks only after this rule
    package(
        variables={"v": state(text_transition("B", to="go"))},
        rules=rules("A > B if ${v} == 'go'", "A > terminate", "B > terminate"),
    ),
    package(
        agents=agents("A", "B", "C"),
        variables={"v": state(text_transition("C", to="go"))},
        rules=rules("A > B if ${v} == 'go'", "A > B", "B > terminate"),
    ),
    package(rules=(*rules("user > A if ${no} == 1"), *rules("A > B", "B > terminate"))),
    package(rules=(*rules("A > B if ${no} == 1", scope="pre"), *rules("A > B", "B > terminate"))),
]

MAY_HOLD = [
    conditional("${u} == '3' and ${v} == '4' and ${w} == ${u}", *WIDE),  # too many combinations to try each
    conditional("${no} == 1", **CODE[0]),
    conditional("${no} == 1", **CODE[1]),
    conditional("${no} == 1", **CODE[2]),
    conditional("${plan} == 'pro'", PLAN, **CODE[0]),
    conditional("${v} == 'gone'", STEP, **CODE[0]),
    conditional("${v} == 'done'", state(enum=("new", "done")), **CODE[0]),
    conditional("not ${no}"),
    conditional("${no} != 1"),
    conditional("${no} == null"),
    conditional("${no} == 1 or ${run_id}"),
    conditional("not (${no} and ${run_id})"),
    conditional("${plan} == 'free'", PLAN),
    conditional("${v} == 'b'", STEP),
    conditional("${v} == 'c'", STEP),
    conditional("${v} == 'go'", state(transition_on(LifecycleTrigger("after_agent", "A"), "go"))),
    conditional(
        "${v} == 'go'",
        state(transition_on(LifecycleTrigger("after_chat"), "go"), transition_on(HandoffTrigger("B"), "go")),
    ),
    conditional("${v} == 'go'", state(transition_on(HandoffTrigger("terminate"), "go"))),
    conditional("${v} == null", STEP),
    conditional("${v} == 'new' and ${v} != 'b'", STEP),
    conditional("${v} == 'b' or ${v} == 'c'", STEP),
    conditional("${v} == true", state(text_transition("A"), default=False, type="boolean")),
    conditional("${v} == 'anything'", state(Transition(AgentTextTrigger("A", regex="x(.*)", groups=1), to="$1"))),
    conditional("${v} == 'yes'", state(user_transition("yes")), orchestrator={"human_in_the_loop": True}),
    # An earlier version of the package may have left another value.
    conditional("${v} == 'old'", variable("v", StateSource(STEP_TRANSITIONS, "user_id"), "new")),
    conditional("${v} == 'old'", variable("v", StateSource((), "none"), "new")),
    conditional("${v} == 'gone'", STEP, orchestrator={"inputs": {"v": {}}}),
    conditional("${v} == 'pro'", PLAN, variable("v", ComputedSource("w", {"w": "plan"}))),
    conditional("${v} == 'pro'", variable("v", DB)),
    conditional("${v} == 'pro'", variable("v", RuntimeSource())),
    conditional("${v} == 'pro'", variable("v", EnvSource("V"))),  # vanishes_in_production reports it
    conditional("${context_aware} and ${app_id} == 'x'"),
    conditional("${app_id} == 1 and ${app_id} == 1.0"),
    conditional("${a} == 1 and ${b} == 2", variable("a", RuntimeSource()), variable("b", RuntimeSource())),
    conditional("(${a} == 1 or ${a} == 2) and ${a} == 2", variable("a", RuntimeSource())),
    conditional("${kind} == 'bus' or ${kind} == null", orchestrator={"inputs": {"kind": {"enum": ["bus", "tram"]}}}),
    conditional("${kind} == 'car'", orchestrator={"inputs": {"kind": {}}}),
    conditional("${given} == false", orchestrator={"inputs": {"given": {"type": "boolean"}}}),
    conditional("${given} == null", orchestrator={"inputs": {"given": {"type": "boolean"}}}),
    conditional("${given} == 'maybe'", orchestrator={"inputs": {"given": {"type": "boolean"}}}, **CODE[0]),
    package(
        agents=agents("A", "B", "C"),
        variables={"v": state(text_transition("C", to="go"))},
        rules=(
            *rules("A > B if ${v} == 'go'", "A > B", "B > terminate"),
            Rule("A", "C", judgement="C is wanted", place="handoff_rules[3]"),
        ),
    ),
    package(
        variables={"v": state(text_transition("B", to="go"))},
        rules=rules("A > B if ${v} == 'go'"),
        orchestrator={"pattern": "AutoPattern"},
    ),
]


@pytest.mark.parametrize("checked", NEVER)
def test_a_condition_that_nothing_can_make_true_is_found(checked: Package) -> None:
    assert waiting_findings(checked) == [WAITS]


@pytest.mark.parametrize("checked", MAY_HOLD)
def test_a_condition_that_may_hold_is_no_finding(checked: Package) -> None:
    assert waiting_findings(checked) == []


@pytest.mark.parametrize(
    "file", [H, "agents.yaml", "context_variables.json", "orchestrator.yaml", "tools.yaml", "hooks"]
)
def test_what_was_refused_may_have_made_it_true(file: str) -> None:
    told = findings_after_an_error(conditional("${no} == 1"), file)
    assert [each for each in told if each[1] == "waits_for_ever"] == []


def test_batches_of_tasks_may_make_it_true(tmp_path: Path) -> None:
    (tmp_path / "extended_orchestration").mkdir()
    (tmp_path / "extended_orchestration" / "task_batches.yaml").touch()

    assert waiting_findings(conditional("${no} == 1", folder=tmp_path)) == []


@pytest.mark.parametrize(
    ("code", "waits"),
    [
        ("def save(order: str) -> str: return order", True),
        ("def save(order: str, context_variables) -> str: return order", False),
        ("def save(order: str, **runtime) -> str: return order", False),
    ],
)
def test_a_tool_that_is_not_given_the_context_makes_nothing_true(tmp_path: Path, code: str, waits: bool) -> None:
    checked = conditional(
        "${v} == 'gone'", STEP, tools=(replace(tool("save"), file=write_tool(tmp_path, "save.py", code)),)
    )

    assert waiting_findings(checked) == [WAITS] * waits


@pytest.mark.parametrize(
    ("checked", "message"),
    [
        (conditional("${no} == 1"), "nothing sets no; declare it as a variable or an input"),
        (
            conditional("${v} == 1", state(default=None)),
            "nothing ever sets v: it keeps its default None;"
            " correct it, or let a transition, a computation or a tool set what it needs",
        ),
        (
            conditional("${run_id} and ${plan} == 'pro'", PLAN),
            "plan is always 'free'; correct it, or let a transition, a computation or a tool set what it needs",
        ),
        (
            conditional("${v} == 'gone' or ${v} == 'lost'", STEP),
            "v is only ever 'new' or 'b' or 'c';"
            " correct it, or let a transition, a computation or a tool set what it needs",
        ),
        (
            conditional("${v} == 'yes'", state(user_transition("yes"))),
            "v is only ever 'new': none of its transitions can fire before the chat ends;"
            " correct it, or let a transition, a computation or a tool set what it needs",
        ),
        (conditional("${v} == 'b' and ${v} == 'c'", STEP), "v would have to be 'b' and 'c' at once; correct it"),
        (conditional("False"), "it compares nothing that a run sets; correct it, or remove the rule"),
        (
            conditional("${v} == 'x'", state(enum=("a", "b")), **CODE[0]),
            "the enum of v allows only 'a' or 'b';"
            " correct it, or let a transition, a computation or a tool set what it needs",
        ),
    ],
)
def test_the_message_gives_the_reason_it_never_holds(checked: Package, message: str) -> None:
    assert messages(checked, "waits_for_ever") == [f"this condition never holds: {message}"]


def test_one_cause_is_reported_once() -> None:
    """At the rule, and not again as an undefined name or an orphan state."""
    checked = conditional("${no} == 1 and ${w} == 1", state(text_transition("A", to="b")), state(name="w"))
    also_there = conditional("${no} == 1", rules=rules("A > B if ${no} == 1", "A > B if not ${no}", "B > terminate"))

    of_another = conditional("${w} == 1 and not ${no}", state(name="w"))

    assert findings_of(checked) == [WAITS]
    assert [each[1] for each in findings_of(of_another)] == ["waits_for_ever", "undefined_variable"]
    assert sorted(each[1] for each in findings_of(also_there)) == [
        "undefined_variable",
        "undefined_variable",
        "waits_for_ever",
    ]


def test_production_changes_nothing_of_it() -> None:
    checked = conditional("${v} == 'pro' and ${plan} == 'free'", PLAN, variable("v", EnvSource("V")))
    assert [each for each in findings_of(checked, production=True) if each[1] == "waits_for_ever"] == []


def test_large_packages_are_checked_in_time() -> None:
    """A chain of agents, each unlocking the next one; many rules over many values."""
    names = [f"a{number}" for number in range(150)]
    chain = {
        f"v{number}": state(text_transition(name, to="go"), name=f"v{number}") for number, name in enumerate(names[:-1])
    }
    steps = [f"{one} > {two} if ${{v{number}}} == 'go'" for number, (one, two) in enumerate(pairwise(names))]
    states = [text_transition(names[0], to=str(number), from_=str(number - 1)) for number in range(1, 190)]
    many = [f"{names[0]} > terminate if ${{w}} == 'x{number}'" for number in range(300)]
    checked = package(
        agents=agents(*names),
        variables={**chain, "w": state(*states, default="0", name="w")},
        rules=rules(*steps, *many),
        orchestrator={"initial_agent": names[0]},
    )

    assert len(find_unsatisfiable_rules(checked, Findings()).reasons) == 300


NAMES = "ABC"
values = st.sampled_from([UNSET, "x", "y", True]), st.sampled_from([UNSET, UNSET, "x", False])
spoken = st.builds(text_transition, st.sampled_from(NAMES), st.sampled_from(["on", "off"]), *values)
handed = st.builds(HandoffTrigger, st.sampled_from([*NAMES, "terminate"]), st.sampled_from([None, *NAMES]))
passed = st.builds(LifecycleTrigger, st.sampled_from(["before_chat", "before_agent", "after_chat"]))
sources = st.lists(spoken | st.builds(transition_on, handed | passed, *values), max_size=3)
declared = st.fixed_dictionaries(dict.fromkeys("vw", sources))
terms = st.sampled_from(
    [
        "${v} == 'x'",
        "${v} == 'y'",
        "${w} == true",
        "${w}",
        "not ${v}",
        "${v} != ${w}",
        "${w} in ['x', 'y']",
        "${no} == 1",
    ]
)
conditions = terms | st.builds("{} and {}".format, terms, terms) | st.builds("not ({} or {})".format, terms, terms)
table = st.lists(
    st.builds(
        Rule,
        source=st.sampled_from(NAMES),
        target=st.sampled_from([*NAMES, "terminate"]),
        condition=conditions | st.none(),
        scope=st.sampled_from(["pre", "post"]),
    ),
    max_size=8,
)
texts = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from([{"text": "on"}, {"text": "off"}]), max_size=6) for name in NAMES}
)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(get_args(Pattern)), table, declared, texts)
def test_no_rule_that_waits_for_ever_holds_in_any_chat(
    pattern: Pattern, written: list[Rule], transitions: dict[str, list[Transition]], said: dict[str, Any]
) -> None:
    checked = package(
        agents=agents(*NAMES),
        rules=tuple(written),
        variables={name: state(*each, name=name, default=False) for name, each in transitions.items()},
        orchestrator={"limits": Limits(max_turns=8), "pattern": pattern},
    )
    never = [
        compile_condition(checked.rules[index].condition or "")
        for index in find_unsatisfiable_rules(checked, Findings()).reasons
    ]
    script = {"answers": said, "default": {"text": "on"}}
    with tempfile.TemporaryDirectory() as folder:
        chat = Chat(build_chat(checked, script, Path(folder) / "p"), {"v": False, "w": False})
        _, kept = asyncio.run(chat.run())

    contexts = [{"v": False, "w": False}, *(kept.context(number) for number in range(1, len(kept.turns) + 1))]
    assert [(each.text, context) for each in never for context in contexts if each.holds(context)] == []
