"""Checks of the routing graph: unreachable agents and missing exits."""

from collections.abc import Mapping
from dataclasses import dataclass

from workflows.package.checks.file_places import agent_place, agents_file, orchestrator_file, routing_file, rule_place
from workflows.package.checks.graph import find_cycles, reachable_nodes, reverse_graph
from workflows.package.checks.message_parts import join_names
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
    """The possible hand-offs of a package.

    `edges`: from every speaker to the targets of its applicable rules and of the pattern. `reachable`: the agents that
    may ever speak.
    """

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
        return  # missing parts may be in the refused ones
    routing = _build_routing_graph(package, find_certain_rules(package, findings, production=production))
    _check_start(routing, findings)
    if not routing.reachable - {USER}:
        return  # reported already; other findings would only follow from it
    _check_reachable(routing, findings)
    if package.rules:
        _check_next_speaker(routing, findings)
    _check_exits(routing, findings)
    _check_pattern_used(routing, findings)


def find_possible_speakers(package: Package, certain: CertainRules) -> frozenset[str]:
    """Returns the agents that may ever speak. No rule reaches agents of task batches."""
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
    edges = {
        source: tuple(dict.fromkeys((*targets.get(source, ()), *by_pattern.get(source, ()))))
        for source in (*targets, *(name for name in by_pattern if name not in targets))
    }
    speakers = {*package.agents, USER}
    reachable = reachable_nodes(edges, {package.orchestrator.initial_agent} & speakers) & speakers
    return _RoutingGraph(package, applying, edges, frozenset(reachable), certain.always_hold)


def _find_applicable_rules(package: Package, indices: list[int], always_hold: frozenset[int]) -> list[int]:
    """Drops rules that another rule always precedes.

    `workflows.chat.routing.router` decides the same in a chat.
    """
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
    # A rule to its own agent only keeps later rules from being evaluated.
    before = [index for index in before if index not in always_hold or rules[index].target == USER]
    return sorted([*judged, *before, *_rules_up_to_winner(after, always_hold)])


def _keeps_turn(rule: Rule) -> bool:
    """Returns whether the agent keeps its turn when this pre rule holds.

    It does so at once, or after a user's answer.
    """
    return rule.scope == "pre" and rule.target in (rule.source, USER)


def _rules_up_to_winner(indices: list[int], always_hold: frozenset[int]) -> list[int]:
    winner = next((number for number, index in enumerate(indices) if index in always_hold), len(indices))
    return indices[: winner + 1]


def _check_start(routing: _RoutingGraph, findings: Findings) -> None:
    package = routing.package
    if package.orchestrator.initial_agent == USER and USER not in routing.rules:
        message = "is user, but no rule of user can apply, so there is no first speaker; name an agent, or add a rule"
        findings.add("error", "no_first_speaker", orchestrator_file(package), "initial_agent", message)


def _check_reachable(routing: _RoutingGraph, findings: Findings) -> None:
    package = routing.package
    if has_task_batches(package):  # no rule reaches their agents; the file has a finding of its own
        return
    for name in package.agents:
        if name not in routing.reachable:
            start = package.orchestrator.initial_agent
            message = f"no rules lead from {start} to {name}, so it never speaks; add a hand-off to it, or remove it"
            findings.add("warning", "unreachable_agent", agents_file(package), agent_place(package, name), message)


def _check_next_speaker(routing: _RoutingGraph, findings: Findings) -> None:
    package = routing.package
    sources = {rule.source for rule in package.rules}
    for name in package.agents:
        if name not in routing.reachable:
            continue
        if name not in routing.edges:
            ends = (
                "the run fails after its turn with no_transition"
                if routing.is_network
                else "the chat ends after its turn"
            )
            none = "has no rule" if name not in sources else "has no rule that can hold"
            message = f"{name} {none}: {ends}; add a rule to terminate, or to the next agent"
            findings.add("warning", "no_way_on", agents_file(package), agent_place(package, name), message)
        elif routing.is_network and not routing.has_fallback(name):
            message = (
                f"every rule of {name} has a condition: if none holds, the run fails with no_transition;"
                " add a last rule without a condition"
            )
            findings.add("warning", "no_fallback", routing_file(package), routing.first_place(name), message)


def _check_exits(routing: _RoutingGraph, findings: Findings) -> None:
    """Reports cycles without an exit.

    An exit is terminate, a hand-off to user, or an agent without a next speaker.
    """
    package = routing.package
    final = {name for name in package.agents if name not in routing.edges}
    with_exit = reachable_nodes(reverse_graph(routing.edges), {TERMINATE, USER} | final)
    speakers = [name for name in (*package.agents, CHOICE) if name in routing.reachable or name == CHOICE]
    for cycle in find_cycles(
        {name: routing.edges[name] for name in speakers if name in routing.edges and name not in with_exit}
    ):
        _report_cycle(routing, tuple(name for name in cycle if name != CHOICE), findings)


def _report_cycle(routing: _RoutingGraph, cycle: tuple[str, ...], findings: Findings) -> None:
    package = routing.package
    taking_turns = package.orchestrator.pattern in TURN_TAKING_PATTERNS
    fallible = frozenset() if taking_turns else frozenset(name for name in cycle if not routing.has_fallback(name))
    ends = f"when no condition of {join_names(fallible)} holds, or at max_turns" if fallible else "at max_turns"
    message = f"{join_names(cycle)} form a cycle without an exit: the chat ends only {ends}; add a rule to terminate"
    if len(cycle) == 1:
        message = message.replace(" form a cycle", " hands over to itself", 1)
    if taking_turns and not all(routing.has_fallback(name) for name in cycle):
        findings.add("info", "no_exit", orchestrator_file(package), "orchestration_pattern", message)
    else:
        findings.add("warning", "no_exit", routing_file(package), routing.first_place(*cycle), message)


def _check_pattern_used(routing: _RoutingGraph, findings: Findings) -> None:
    package = routing.package
    pattern = package.orchestrator.pattern
    if pattern in CHOOSING_PATTERNS and all(routing.has_fallback(name) for name in routing.reachable - {USER}):
        message = (
            f"{pattern} never chooses a speaker: every agent has a rule that always holds, and rules come first;"
            " write DefaultPattern, or remove such rules"
        )
        findings.add("info", "pattern_never_decides", orchestrator_file(package), "orchestration_pattern", message)
