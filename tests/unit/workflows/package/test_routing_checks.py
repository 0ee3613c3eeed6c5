"""Checks of the routing graph."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workflows.normal_form import (
    ORCH,
    FindingKey,
    G,
    H,
    agents,
    findings_after_an_error,
    findings_of,
    messages,
    package,
    rules,
    states,
    tool,
    variables,
)
from workflows.package.checks.graph import find_cycles
from workflows.package.checks.routing.pattern_targets import CHOOSING_PATTERNS, TURN_TAKING_PATTERNS
from workflows.package.checks.routing.routing_checks import check_routing
from workflows.package.normal_form.package_model import Package, Pattern, Rule
from workflows.package.normal_form.variable_sources import EnvSource, StaticSource

UNREACHABLE_B = ("warning", "unreachable_agent", G, "agents.B")


def routed_package(*texts: str, **orchestrator: Any) -> Package:
    return package(rules=rules(*texts), orchestrator=orchestrator)


def test_a_way_from_start_to_end_is_no_finding() -> None:
    assert findings_of(package()) == []


@pytest.mark.design("D4-97")
@pytest.mark.parametrize(
    ("checked", "finding"),
    [
        (routed_package("A > terminate", "B > terminate"), UNREACHABLE_B),
        (routed_package(), UNREACHABLE_B),  # no rules: one turn is the whole chat
        (routed_package("A > B if False", "A > terminate", "B > terminate"), UNREACHABLE_B),
        (routed_package("A > B", "A > terminate", "B > terminate"), UNREACHABLE_B),  # of two, the last one holds
        (routed_package("A > terminate if True", "A > B", "B > terminate"), UNREACHABLE_B),
        (
            routed_package("A > terminate", "A > B", "B > terminate", pattern="ag2_network"),
            UNREACHABLE_B,
        ),  # the first one
        (package(rules=(Rule("A", "terminate", scope="pre"), *rules("A > B", "B > terminate"))), UNREACHABLE_B),
        (routed_package("A > B"), ("warning", "no_way_on", G, "agents.B")),
        (routed_package("A > B", pattern="ag2_network"), ("warning", "no_way_on", G, "agents.B")),
        (
            routed_package("A > B", "B > terminate if ${app_id}", pattern="ag2_network"),
            ("warning", "no_fallback", H, "handoff_rules[1]"),
        ),
        (routed_package("A > B", "B > A"), ("warning", "no_exit", H, "handoff_rules[0]")),
        (routed_package("A > B", "B > B"), ("warning", "no_exit", H, "handoff_rules[1]")),
        (routed_package("A > B", "B > A if ${app_id}"), ("warning", "no_exit", H, "handoff_rules[0]")),
        (
            routed_package("A > B", "B > terminate", initial_agent="user"),
            ("error", "no_first_speaker", ORCH, "initial_agent"),
        ),
    ],
)
def test_a_fault_of_the_way_is_found_where_it_is(checked: Package, finding: FindingKey) -> None:
    assert findings_of(checked, check_routing) == [finding]


@pytest.mark.parametrize(
    "checked",
    [
        package(agents=agents("A"), rules=()),
        routed_package("A > B if ${app_id}", "A > A", "B > terminate"),  # a cycle that a condition leaves
        routed_package("A > B", "B > A if ${app_id}", "B > user"),
        routed_package("A > terminate if ${app_id}", "A > B", "B > terminate"),
        routed_package("A > B", "B > terminate if ${app_id}"),  # classic: the chat ends if none holds
        routed_package("A > B if ${app_id}", "A > B", "B > terminate", pattern="ag2_network"),
        routed_package("A > terminate", "A > B if ${app_id}", "B > terminate"),  # classic evaluates conditions first
        routed_package("A > user", "user > B", "B > terminate"),  # entered after a user's answer
        routed_package("user > A", "A > B", "B > terminate", initial_agent="user"),
        routed_package(pattern="Pipeline"),  # its agents follow each other in file order
        routed_package("A > B if ${app_id}", pattern="Pipeline"),
        *(routed_package("B > terminate if ${app_id}", pattern=pattern) for pattern in CHOOSING_PATTERNS),
        routed_package(pattern="AutoPattern"),  # the manager ends it
        routed_package("A > terminate", initial_agent="nobody"),  # the reader reports it; no other finding follows
    ],
)
def test_what_is_well_routed_is_no_finding(checked: Package) -> None:
    assert findings_of(checked, check_routing) == []


@pytest.mark.parametrize("pattern", sorted(CHOOSING_PATTERNS))
def test_a_pattern_that_never_chooses_is_reported(pattern: str) -> None:
    never = routed_package("A > B", "B > terminate", pattern=pattern)
    sometimes = routed_package("A > B", "B > terminate if ${app_id}", pattern=pattern)

    assert findings_of(never, check_routing) == [("info", "pattern_never_decides", ORCH, "orchestration_pattern")]
    assert findings_of(sometimes, check_routing) == []


@pytest.mark.parametrize("pattern", sorted(TURN_TAKING_PATTERNS))
@pytest.mark.parametrize("texts", [[], ["B > A if ${app_id}"]])
def test_a_turn_cycle_without_an_exit_runs_until_max_turns(pattern: str, texts: list[str]) -> None:
    checked = routed_package(*texts, pattern=pattern)

    assert findings_of(checked, check_routing) == [("info", "no_exit", ORCH, "orchestration_pattern")]
    (message,) = messages(checked, "no_exit")
    assert message.startswith("A and B form a cycle without an exit: the chat ends only at max_turns")


@pytest.mark.parametrize("pattern", sorted(CHOOSING_PATTERNS))
def test_a_circle_of_rules_is_one_in_every_pattern(pattern: str) -> None:
    checked = routed_package("A > A", pattern=pattern)
    never = ("info", "pattern_never_decides", ORCH, "orchestration_pattern")

    assert findings_of(checked, check_routing) == [UNREACHABLE_B, ("warning", "no_exit", H, "handoff_rules[0]"), never]


def test_an_agent_of_a_pipeline_with_rules_of_its_own_is_left_to_them() -> None:
    checked = routed_package("A > terminate", pattern="Pipeline")
    assert findings_of(checked, check_routing) == [UNREACHABLE_B]


@pytest.mark.parametrize("pattern", [*sorted(CHOOSING_PATTERNS), "Pipeline"])
def test_a_user_without_rules_begins_no_pattern(pattern: str) -> None:
    checked = routed_package("A > B if ${app_id}", pattern=pattern, initial_agent="user")
    assert findings_of(checked, check_routing) == [("error", "no_first_speaker", ORCH, "initial_agent")]


def test_many_agents_under_one_manager_are_checked_in_linear_time() -> None:
    crowd = agents(*(f"A{number}" for number in range(3_000)))
    checked = package(agents=crowd, rules=(), orchestrator={"pattern": "RandomPattern", "initial_agent": "A0"})
    assert findings_of(checked, check_routing) == [("info", "no_exit", ORCH, "orchestration_pattern")]


def test_what_a_model_would_judge_for_a_user_is_no_way() -> None:
    checked = package(rules=(*rules("A > user"), Rule("user", "B", judgement="they agree"), *rules("B > terminate")))
    assert findings_of(checked, check_routing) == [UNREACHABLE_B]


@pytest.mark.parametrize("condition", ["false", "1 == 2", "not true", "'a' in ['b']", "FALSE"])
def test_a_condition_that_cannot_hold_is_no_way(condition: str) -> None:
    circle = routed_package("A > B", f"B > terminate if {condition}", "B > A")
    ahead = routed_package(f"A > B if {condition}", "A > terminate", "B > terminate")
    alone = routed_package("A > B", f"B > terminate if {condition}")

    assert findings_of(circle, check_routing) == [("warning", "no_exit", H, "handoff_rules[0]")]
    assert findings_of(ahead, check_routing) == [UNREACHABLE_B]
    assert findings_of(alone, check_routing) == [("warning", "no_way_on", G, "agents.B")]
    assert messages(alone, "no_way_on")[0].startswith("B has no rule that can hold: the chat ends after its turn")


@pytest.mark.parametrize("condition", ["true", "1 == 1", "not false"])
def test_a_condition_that_always_holds_hides_what_is_asked_after_it(condition: str) -> None:
    assert findings_of(routed_package(f"A > terminate if {condition}", "A > B", "B > terminate"), check_routing) == [
        UNREACHABLE_B
    ]
    fallback = routed_package("A > B", f"B > terminate if {condition}", pattern="ag2_network")
    assert findings_of(fallback, check_routing) == []


@pytest.mark.parametrize("condition", ["${e}", "not ${e}", "${e.part} == 1 or ${app_id}", "${monetization_enabled}"])
def test_a_condition_on_the_environment_is_no_way_in_production(condition: str) -> None:
    parts: dict[str, Any] = {"variables": variables(e=EnvSource("X"))}
    circle = package(rules=rules("A > B", f"B > terminate if {condition}", "B > A"), **parts)

    assert findings_of(circle, check_routing) == []
    assert findings_of(circle, check_routing, production=True) == [("warning", "no_exit", H, "handoff_rules[0]")]
    assert ("warning", "no_exit", H, "handoff_rules[0]") in findings_of(circle, production=True)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("${v} == 'done'", 1),
        ("${v}", 1),
        ("${v.part} == 1 and ${s} == 'fixed'", 1),
        ("${v} == 'done' or ${s} == 'other'", 1),
        ("${s} == 'other'", 1),
        ("not ${v}", 0),
        ("${s} == 'fixed'", 0),
        ("${v} == 'done' or ${app_id}", 0),
        ("${v} == 'done' or ${nobody_knows}", 0),
    ],
)
def test_a_condition_on_what_never_changes_is_no_way_unless_it_holds(condition: str, said: int) -> None:
    fixed = {"s": replace(variables(s=StaticSource())["s"], default="fixed")}
    way = rules("A > B", f"B > terminate if {condition}", "B > A")
    parts: dict[str, Any] = {"variables": {**states("v"), **fixed}, "rules": way}

    assert findings_of(package(**parts), check_routing) == [("warning", "no_exit", H, "handoff_rules[0]")] * said
    assert findings_of(package(**parts, tools=(tool("save"),)), check_routing) == []  # a tool may set either of them
    assert findings_of(package(**parts, orchestrator={"inputs": {"v": {}, "s": {}}}), check_routing) == []


def test_rules_before_a_reply_and_judged_ones_are_ways_too() -> None:
    early = Rule("A", "B", condition="${app_id}", scope="pre")
    judged = Rule("A", "B", judgement="the user agrees")
    rest = rules("A > terminate", "B > terminate")

    for first in (early, judged):
        for pattern in ("DefaultPattern", "ag2_network"):
            checked = package(rules=(*rest, first), orchestrator={"pattern": pattern})
            assert findings_of(checked, check_routing) == []


@pytest.mark.parametrize("pattern", ["DefaultPattern", "ag2_network", "RoundRobinPattern", "AutoPattern"])
@pytest.mark.parametrize("target", ["A", "user"])
def test_an_agent_that_speaks_after_a_rule_before_its_reply_hands_over(pattern: str, target: str) -> None:
    """The agent keeps its turn, or speaks after the user's answer. Then other rules or the pattern decide."""
    first = Rule("A", target, scope="pre")
    orchestrator = {"pattern": pattern, "human_in_the_loop": True}
    checked = package(rules=(first, *rules("A > B if ${app_id}", "B > terminate")), orchestrator=orchestrator)

    assert UNREACHABLE_B not in findings_of(checked, check_routing)


@pytest.mark.parametrize(("file", "count"), [(H, 0), (G, 0), (ORCH, 2)])
def test_a_rule_or_an_agent_that_was_refused_is_not_missed(file: str, count: int) -> None:
    faulty = package(agents=agents("A", "B", "C"), rules=rules("A > B"))
    silent = package(rules=(), orchestrator={"initial_agent": "user"})

    assert len(findings_after_an_error(faulty, file)) == count
    assert len(findings_after_an_error(silent, file)) == count // 2


def test_task_batches_reach_their_workers(tmp_path: Path) -> None:
    batched = package(folder=tmp_path, rules=rules("A > terminate"))
    assert findings_of(batched, check_routing) == [UNREACHABLE_B]

    (tmp_path / "extended_orchestration").mkdir()
    (tmp_path / "extended_orchestration" / "task_batches.yaml").touch()

    assert findings_of(batched, check_routing) == []


def test_a_circle_is_named_once_with_what_may_end_it() -> None:
    (certain,) = messages(routed_package("A > B", "B > A"), "no_exit")
    (fallible,) = messages(routed_package("A > B", "B > A if ${app_id}"), "no_exit")
    (alone,) = messages(routed_package("A > B", "B > B"), "no_exit")

    assert certain.startswith("A and B form a cycle without an exit: the chat ends only at max_turns")
    assert "only when no condition of B holds, or at max_turns" in fallible
    (judged,) = messages(package(rules=(*rules("A > B"), Rule("B", "A", judgement="it is not done"))), "no_exit")

    assert "only when no condition of B holds" in judged
    assert alone.startswith("B hands over to itself without an exit")


def test_the_file_is_the_one_that_was_read() -> None:
    both = {"handoffs": "handoffs.json", "transition_graph": "transition_graph.yaml"}
    faulty = rules("A > B", "B > A")

    for pattern, file in (("DefaultPattern", "handoffs.json"), ("ag2_network", "transition_graph.yaml")):
        ((_, _, named, _),) = findings_of(
            package(rules=faulty, file_names=both, orchestrator={"pattern": pattern}), check_routing
        )
        assert named == file
    ((_, _, stem, _),) = findings_of(package(rules=faulty, file_names={}), check_routing)
    assert stem == "handoffs"


def test_a_place_that_the_reader_gave_is_used() -> None:
    one = agents("A", "B")
    object.__setattr__(one["B"], "place", "agents[1]")

    assert findings_of(package(agents=one, rules=()), check_routing) == [
        ("warning", "unreachable_agent", G, "agents[1]")
    ]


NAMES = "ABCDE"
TARGETS = (*NAMES, "user", "terminate")
graphs = st.tuples(
    st.sampled_from(get_args(Pattern)),
    st.lists(
        st.tuples(
            st.sampled_from([*NAMES, "user"]),
            st.sampled_from(TARGETS),
            st.sampled_from([None, "${app_id}", "True", "False"]),
        ),
        max_size=12,
    ),
)


@given(graphs)
def test_random_graphs_are_judged_as_by_trying_every_way(graph: tuple[str, list[tuple[str, str, str | None]]]) -> None:
    pattern, given_rules = graph
    checked = package(
        agents=agents(*NAMES),
        rules=tuple(Rule(source, target, condition) for source, target, condition in given_rules),
        orchestrator={"pattern": pattern},
    )

    said = [(path, code) for _, code, _, path in findings_of(checked, check_routing)]
    circled = {
        frozenset(re.findall(r"\b[A-E]\b", re.split(" go round| hands over", text)[0]))
        for text in messages(checked, "no_exit")
    }

    steps = possible_steps(pattern, given_rules)
    ways = every_way(steps)
    reached = {"A"} | (ways["A"] & set(NAMES))
    silent = {name for name in NAMES if not steps[name]}
    stuck = {name for name in reached if name in ways[name] and not ways[name] & ({"terminate", "user"} | silent)}
    assert {path for path, code in said if code == "unreachable_agent"} == {f"agents.{n}" for n in set(NAMES) - reached}
    assert circled == {frozenset(other for other in ways[name] & stuck if name in ways[other]) for name in stuck}
    if given_rules:
        assert {path for path, code in said if code == "no_way_on"} == {f"agents.{n}" for n in reached & silent}


def possible_steps(pattern: str, given_rules: list[tuple[str, str, str | None]]) -> dict[str, set[str]]:
    """Computes the next speakers by trying every truth value of the conditions."""
    steps: dict[str, set[str]] = {name: set() for name in (*NAMES, "user", "terminate")}
    for name in steps:
        own = [(target, condition) for source, target, condition in given_rules if source == name]
        for truths in range(2 ** len(own)):
            holding = [
                (target, condition)
                for number, (target, condition) in enumerate(own)
                if condition in (None, "True") or (condition != "False" and truths >> number & 1)
            ]
            if pattern != "ag2_network":
                conditional = [rule for rule in holding if rule[1] is not None]
                holding = conditional or [rule for rule in holding if rule[1] is None][-1:]
            steps[name] |= {target for target, _ in holding[:1]} or choices_of(pattern, name, any_rule=bool(own))
    return steps


def choices_of(pattern: str, name: str, *, any_rule: bool) -> set[str]:
    """Returns the agents that a pattern may choose after this agent if no rule applies."""
    if name not in NAMES:
        return set()
    last = name == NAMES[-1]
    following = NAMES[(NAMES.index(name) + 1) % len(NAMES)]
    return {
        "AutoPattern": {*NAMES, "terminate"},
        "RandomPattern": set(NAMES),
        "RoundRobinPattern": {following},
        "Pipeline": set() if any_rule else {"terminate" if last else following},
    }.get(pattern, set())


def every_way(steps: dict[str, set[str]]) -> dict[str, set[str]]:
    ways = {name: set(targets) for name, targets in steps.items()}
    for middle, further in ways.items():
        for targets in ways.values():
            if middle in targets:
                targets.update(further)
    return ways


def test_long_chains_need_no_deep_stack() -> None:
    names = [f"N{number}" for number in range(20_000)]
    chain = dict(zip(names, [[name] for name in names[1:]], strict=False))

    assert list(find_cycles(chain)) == []
    assert [len(circle) for circle in find_cycles({**chain, names[-1]: [names[0]]})] == [20_000]


def test_many_rules_of_one_agent_are_checked_in_linear_time() -> None:
    early = [Rule("A", "B", "${app_id}", scope="pre")] * 30_000
    late = [Rule("A", "B", "${app_id}")] * 30_000
    assert findings_of(package(rules=(*early, *late, *rules("B > terminate"))), check_routing) == []
