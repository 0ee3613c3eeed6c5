"""Checks of the routing graph: who is never reached, what never ends, where a run stops without a rule."""

from collections.abc import Mapping
from dataclasses import dataclass

from workflows.package.checks.file_places import agent_place, agents_file, orchestrator_file, routing_file, rule_place
from workflows.package.checks.finding_texts import join_names
from workflows.package.checks.graph import find_cycles, reachable_nodes, reverse_graph
from workflows.package.checks.routing.certain_rules import CertainRules, find_certain_rules
from workflows.package.checks.routing.pattern_targets import (
    CHOICE,
    CHOOSING_PATTERNS,
    TURN_TAKING_PATTERNS,
    pattern_targets,
)
from workflows.package.checks.variables.constant_variables import has_task_batches
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import TERMINATE, USER, Package, Rule


@dataclass(frozen=True, slots=True)
class _RoutingGraph:
    """`ways` leads from every speaker to every target of a rule that can apply, and to whom the pattern may choose;
    `reached` is who may ever speak."""

    package: Package
    rules: Mapping[str, tuple[int, ...]]
    edges: Mapping[str, tuple[str, ...]]
    reachable: frozenset[str]
    always_hold: frozenset[int]

    @property
    def is_network(self) -> bool:
        return self.package.orchestrator.pattern == "ag2_network"

    def first_place(self, *agents: str) -> str:
        return rule_place(self.package, min(index for agent in agents for index in self.rules.get(agent, ())))

    def has_fallback(self, agent: str) -> bool:
        return not self.always_hold.isdisjoint(self.rules.get(agent, ()))


def check_routing(package: Package, findings: Findings, *, production: bool = False) -> None:
    if findings.has_errors_in(routing_file(package), agents_file(package)):
        return  # all that is missing here may be in what was refused
    routing = _build_routing_graph(package, find_certain_rules(package, findings, production=production))
    _check_start(routing, findings)
    if not routing.reachable - {USER}:
        return  # said already, and all else would follow from it
    _check_reachable(routing, findings)
    if package.rules:
        _check_next_speaker(routing, findings)
    _check_exits(routing, findings)
    _check_pattern_used(routing, findings)


def find_possible_speakers(package: Package, certain: CertainRules) -> frozenset[str]:
    """The agents that may ever speak; agents of task batches are reached by no rule."""
    return _build_routing_graph(package, certain).reachable


def _build_routing_graph(package: Package, certain: CertainRules) -> _RoutingGraph:
    rules: dict[str, list[int]] = {}
    for index, rule in enumerate(package.rules):
        if index not in certain.never_hold:
            rules.setdefault(rule.source, []).append(index)
    applying = {
        source: tuple(_find_applicable_rules(package, indices, certain.always_hold))
        for source, indices in rules.items()
    }
    decided = [index for index in certain.always_hold if not _keeps_turn(package.rules[index])]
    by_pattern = pattern_targets(package, applying, frozenset(decided))
    targets = {source: [package.rules[index].target for index in indices] for source, indices in applying.items()}
    ways = {
        source: tuple(dict.fromkeys((*targets.get(source, ()), *by_pattern.get(source, ()))))
        for source in (*targets, *(name for name in by_pattern if name not in targets))
    }
    named = {*package.agents, USER}
    reached = reachable_nodes(ways, {package.orchestrator.initial_agent} & named) & named
    return _RoutingGraph(package, applying, ways, frozenset(reached), certain.always_hold)


def _find_applicable_rules(package: Package, indices: list[int], always_hold: frozenset[int]) -> list[int]:
    """Without the rules that another one always wins over: see `workflows.chat.routing.router`."""
    rules = package.rules
    judged = [index for index in indices if rules[index].judgement is not None]
    plain = [index for index in indices if rules[index].judgement is None]
    before = _rules_up_to_winner([index for index in plain if rules[index].scope == "pre"], always_hold)
    after = [index for index in plain if rules[index].scope == "post"]
    if package.orchestrator.pattern != "ag2_network":
        fallbacks = [index for index in after if rules[index].condition is None]
        after = [*(index for index in after if rules[index].condition is not None), *fallbacks[-1:]]
    if before and before[-1] in always_hold and not _keeps_turn(rules[before[-1]]):
        return sorted([*judged, *before])
    # One that leads back to its own agent changes nothing but that no later one is asked.
    before = [index for index in before if index not in always_hold or rules[index].target == USER]
    return sorted([*judged, *before, *_rules_up_to_winner(after, always_hold)])


def _keeps_turn(rule: Rule) -> bool:
    """Whether its agent keeps the turn when this rule of scope pre holds: at once, or after the user's answer."""
    return rule.scope == "pre" and rule.target in (rule.source, USER)


def _rules_up_to_winner(indices: list[int], always_hold: frozenset[int]) -> list[int]:
    winner = next((number for number, index in enumerate(indices) if index in always_hold), len(indices))
    return indices[: winner + 1]


def _check_start(routing: _RoutingGraph, findings: Findings) -> None:
    package = routing.package
    if package.orchestrator.initial_agent == USER and USER not in routing.rules:
        message = "is user, and no rule of user can apply: nobody speaks first; name an agent, or add such a rule"
        findings.add("error", "no_first_speaker", orchestrator_file(package), "initial_agent", message)


def _check_reachable(routing: _RoutingGraph, findings: Findings) -> None:
    package = routing.package
    if has_task_batches(package):  # their workers are reached by no rule, and the file is reported by itself
        return
    for name in package.agents:
        if name not in routing.reachable:
            start = package.orchestrator.initial_agent
            message = f"rules never lead from {start} to {name}: it never speaks; hand over to it, or remove it"
            findings.add("warning", "unreachable_agent", agents_file(package), agent_place(package, name), message)


def _check_next_speaker(routing: _RoutingGraph, findings: Findings) -> None:
    package = routing.package
    written = {rule.source for rule in package.rules}
    for name in package.agents:
        if name not in routing.reachable:
            continue
        if name not in routing.edges:
            ends = (
                "the run fails after its turn, with no_transition" if routing.is_network else "the chat ends after it"
            )
            none = "no rule leads" if name not in written else "no rule can ever lead"
            message = f"{none} on from {name}: {ends}; add a rule to terminate, or to the next agent"
            findings.add("warning", "no_way_on", agents_file(package), agent_place(package, name), message)
        elif routing.is_network and not routing.has_fallback(name):
            message = (
                f"every rule of {name} has a condition: a run in which none holds fails with no_transition;"
                " add a last rule without one"
            )
            findings.add("warning", "no_fallback", routing_file(package), routing.first_place(name), message)


def _check_exits(routing: _RoutingGraph, findings: Findings) -> None:
    """An exit is terminate, a hand-off to user, or an agent after which nobody is next."""
    package = routing.package
    silent = {name for name in package.agents if name not in routing.edges}
    leaving = reachable_nodes(reverse_graph(routing.edges), {TERMINATE, USER} | silent)
    named = [name for name in (*package.agents, CHOICE) if name in routing.reachable or name == CHOICE]
    for circle in find_cycles(
        {name: routing.edges[name] for name in named if name in routing.edges and name not in leaving}
    ):
        _report_cycle(routing, tuple(name for name in circle if name != CHOICE), findings)


def _report_cycle(routing: _RoutingGraph, cycle: tuple[str, ...], findings: Findings) -> None:
    package = routing.package
    taking_turns = package.orchestrator.pattern in TURN_TAKING_PATTERNS
    fallible = frozenset() if taking_turns else frozenset(name for name in cycle if not routing.has_fallback(name))
    ends = f"when no condition of {join_names(fallible)} holds, or at max_turns" if fallible else "at max_turns"
    message = f"{join_names(cycle)} go round without an exit: the chat ends only {ends}; add a rule to terminate"
    if len(cycle) == 1:
        message = message.replace(" go round", " hands over to itself", 1)
    if taking_turns and not all(routing.has_fallback(name) for name in cycle):
        findings.add("info", "no_exit", orchestrator_file(package), "orchestration_pattern", message)
    else:
        findings.add("warning", "no_exit", routing_file(package), routing.first_place(*cycle), message)


def _check_pattern_used(routing: _RoutingGraph, findings: Findings) -> None:
    package = routing.package
    pattern = package.orchestrator.pattern
    if pattern in CHOOSING_PATTERNS and all(routing.has_fallback(name) for name in routing.reachable - {USER}):
        message = (
            f"{pattern} never chooses: each agent that speaks has a rule that always holds, and rules come first;"
            " write DefaultPattern, or leave such rules out"
        )
        findings.add("info", "pattern_never_decides", orchestrator_file(package), "orchestration_pattern", message)
