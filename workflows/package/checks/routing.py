"""Checks of the routing graph: who is never reached, what never ends, where a run stops without a rule."""

from collections.abc import Mapping
from dataclasses import dataclass

from workflows.package.checks.certain_rules import CertainRules, certain_rules
from workflows.package.checks.graph import circles, reachable, reversed_graph
from workflows.package.checks.known import (
    agent_place,
    agents_file,
    listed,
    misread,
    orchestrator_file,
    routing_file,
    rule_place,
)
from workflows.package.checks.pattern_ways import CHOICE, CHOOSING, TAKING_TURNS, pattern_ways
from workflows.package.checks.settable import has_task_batches
from workflows.package.findings import Findings
from workflows.package.models import TERMINATE, USER, Package, Rule


@dataclass(frozen=True, slots=True)
class _Routing:
    """`ways` leads from every speaker to every target of a rule that can apply, and to whom the pattern may choose;
    `reached` is who may ever speak."""

    package: Package
    rules: Mapping[str, tuple[int, ...]]
    ways: Mapping[str, tuple[str, ...]]
    reached: frozenset[str]
    always: frozenset[int]

    @property
    def network(self) -> bool:
        return self.package.orchestrator.pattern == "ag2_network"

    def first_place(self, *agents: str) -> str:
        return rule_place(self.package, min(index for agent in agents for index in self.rules.get(agent, ())))

    def has_fallback(self, agent: str) -> bool:
        return not self.always.isdisjoint(self.rules.get(agent, ()))


def check_routing(package: Package, findings: Findings, *, production: bool = False) -> None:
    if misread(findings, routing_file(package), agents_file(package)):
        return  # all that is missing here may be in what was refused
    routing = _routing(package, certain_rules(package, findings, production=production))
    _check_start(routing, findings)
    if not routing.reached - {USER}:
        return  # said already, and all else would follow from it
    _check_reached(routing, findings)
    if package.rules:
        _check_way_on(routing, findings)
    _check_exits(routing, findings)
    _check_pattern_decides(routing, findings)


def possible_speakers(package: Package, certain: CertainRules) -> frozenset[str]:
    """The agents that may ever speak; agents of task batches are reached by no rule."""
    return _routing(package, certain).reached


def _routing(package: Package, certain: CertainRules) -> _Routing:
    rules: dict[str, list[int]] = {}
    for index, rule in enumerate(package.rules):
        if index not in certain.never:
            rules.setdefault(rule.source, []).append(index)
    applying = {source: tuple(_applying(package, indices, certain.always)) for source, indices in rules.items()}
    decided = [index for index in certain.always if not _can_speak_after(package.rules[index])]
    by_pattern = pattern_ways(package, applying, frozenset(decided))
    targets = {source: [package.rules[index].target for index in indices] for source, indices in applying.items()}
    ways = {
        source: tuple(dict.fromkeys((*targets.get(source, ()), *by_pattern.get(source, ()))))
        for source in (*targets, *(name for name in by_pattern if name not in targets))
    }
    named = {*package.agents, USER}
    reached = reachable(ways, {package.orchestrator.initial_agent} & named) & named
    return _Routing(package, applying, ways, frozenset(reached), certain.always)


def _applying(package: Package, indices: list[int], always: frozenset[int]) -> list[int]:
    """Without the rules that another one always wins over: see `workflows.chat.routing`."""
    rules = package.rules
    judged = [index for index in indices if rules[index].judged is not None]
    plain = [index for index in indices if rules[index].judged is None]
    before = _up_to_winner([index for index in plain if rules[index].scope == "pre"], always)
    after = [index for index in plain if rules[index].scope == "post"]
    if package.orchestrator.pattern != "ag2_network":
        fallbacks = [index for index in after if rules[index].condition is None]
        after = [*(index for index in after if rules[index].condition is not None), *fallbacks[-1:]]
    if before and before[-1] in always and not _can_speak_after(rules[before[-1]]):
        return sorted([*judged, *before])
    # One that leads back to its own agent changes nothing but that no later one is asked.
    before = [index for index in before if index not in always or rules[index].target == USER]
    return sorted([*judged, *before, *_up_to_winner(after, always)])


def _can_speak_after(rule: Rule) -> bool:
    """Whether its agent keeps the turn when this rule of scope pre holds: at once, or after the user's answer."""
    return rule.scope == "pre" and rule.target in (rule.source, USER)


def _up_to_winner(asked: list[int], always: frozenset[int]) -> list[int]:
    winner = next((number for number, index in enumerate(asked) if index in always), len(asked))
    return asked[: winner + 1]


def _check_start(routing: _Routing, findings: Findings) -> None:
    package = routing.package
    if package.orchestrator.initial_agent == USER and USER not in routing.rules:
        message = "is user, and no rule of user can apply: nobody speaks first; name an agent, or add such a rule"
        findings.add("error", "no_first_speaker", orchestrator_file(package), "initial_agent", message)


def _check_reached(routing: _Routing, findings: Findings) -> None:
    package = routing.package
    if has_task_batches(package):  # their workers are reached by no rule, and the file is reported by itself
        return
    for name in package.agents:
        if name not in routing.reached:
            start = package.orchestrator.initial_agent
            message = f"rules never lead from {start} to {name}: it never speaks; hand over to it, or remove it"
            findings.add("warning", "unreachable_agent", agents_file(package), agent_place(package, name), message)


def _check_way_on(routing: _Routing, findings: Findings) -> None:
    package = routing.package
    written = {rule.source for rule in package.rules}
    for name in package.agents:
        if name not in routing.reached:
            continue
        if name not in routing.ways:
            ends = "the run fails after its turn, with no_transition" if routing.network else "the chat ends after it"
            none = "no rule leads" if name not in written else "no rule can ever lead"
            message = f"{none} on from {name}: {ends}; add a rule to terminate, or to the next agent"
            findings.add("warning", "no_way_on", agents_file(package), agent_place(package, name), message)
        elif routing.network and not routing.has_fallback(name):
            message = (
                f"every rule of {name} has a condition: a run in which none holds fails with no_transition;"
                " add a last rule without one"
            )
            findings.add("warning", "no_fallback", routing_file(package), routing.first_place(name), message)


def _check_exits(routing: _Routing, findings: Findings) -> None:
    """An exit is terminate, a hand-off to user, or an agent after which nobody is next."""
    package = routing.package
    silent = {name for name in package.agents if name not in routing.ways}
    leaving = reachable(reversed_graph(routing.ways), {TERMINATE, USER} | silent)
    named = [name for name in (*package.agents, CHOICE) if name in routing.reached or name == CHOICE]
    for circle in circles({name: routing.ways[name] for name in named if name in routing.ways and name not in leaving}):
        _report_circle(routing, tuple(name for name in circle if name != CHOICE), findings)


def _report_circle(routing: _Routing, circle: tuple[str, ...], findings: Findings) -> None:
    package = routing.package
    taking_turns = package.orchestrator.pattern in TAKING_TURNS
    fallible = frozenset() if taking_turns else frozenset(name for name in circle if not routing.has_fallback(name))
    ends = f"when no condition of {listed(fallible)} holds, or at max_turns" if fallible else "at max_turns"
    message = f"{listed(circle)} go round without an exit: the chat ends only {ends}; add a rule to terminate"
    if len(circle) == 1:
        message = message.replace(" go round", " hands over to itself", 1)
    if taking_turns and not all(routing.has_fallback(name) for name in circle):
        findings.add("info", "no_exit", orchestrator_file(package), "orchestration_pattern", message)
    else:
        findings.add("warning", "no_exit", routing_file(package), routing.first_place(*circle), message)


def _check_pattern_decides(routing: _Routing, findings: Findings) -> None:
    package = routing.package
    pattern = package.orchestrator.pattern
    if pattern in CHOOSING and all(routing.has_fallback(name) for name in routing.reached - {USER}):
        message = (
            f"{pattern} never chooses: each agent that speaks has a rule that always holds, and rules come first;"
            " write DefaultPattern, or leave such rules out"
        )
        findings.add("info", "pattern_never_decides", orchestrator_file(package), "orchestration_pattern", message)
