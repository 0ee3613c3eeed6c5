"""Unreachable transitions: their hand-off or tool call never happens."""

from collections.abc import Collection, Iterator

from workflows.context.observers.handoff import HandoffTrigger
from workflows.context.observers.tool_call import ToolCallTrigger
from workflows.context.state.state_transitions import Transition
from workflows.package.checks.file_places import (
    agents_file,
    orchestrator_file,
    routing_file,
    tools_file,
    variables_file,
)
from workflows.package.checks.routing.certain_rules import find_certain_rules
from workflows.package.checks.routing.pattern_targets import CHOICE, pattern_targets
from workflows.package.findings import Findings
from workflows.package.normal_form.automatic_tools import is_automatic, is_offered
from workflows.package.normal_form.package_model import TERMINATE, USER, Package
from workflows.package.normal_form.variable_sources import StateSource

HandoffEdge = tuple[str, str]


def check_unreachable_transitions(package: Package, findings: Findings) -> None:
    """Reports triggers that never fire.

    Skips the check if a refused file may have the awaited rule or tool.
    """
    if findings.has_errors_in(agents_file(package), orchestrator_file(package)):
        return
    transitions = [
        transition
        for variable in package.variables.values()
        if isinstance(variable.source, StateSource)
        for transition in variable.source.transitions
    ]
    if not findings.has_errors_in(routing_file(package)):
        _check_handoffs(package, transitions, findings)
    if not findings.has_errors_in(tools_file(package)):
        _check_tool_calls(package, transitions, findings)


def _check_handoffs(package: Package, transitions: Collection[Transition], findings: Findings) -> None:
    awaited = [
        (transition, transition.trigger) for transition in transitions if isinstance(transition.trigger, HandoffTrigger)
    ]
    edges = frozenset(_possible_handoffs(package, findings)) if awaited else frozenset()
    targets = {target for _, target in edges}
    known = {*package.agents, USER, TERMINATE}
    for transition, trigger in awaited:
        if not {trigger.target, trigger.source or USER} <= known:
            continue  # an unknown name is an error elsewhere
        if trigger.source is None and trigger.target not in targets:
            missing = "no agent hands over"
        elif trigger.source is not None and (trigger.source, trigger.target) not in edges:
            missing = f"{trigger.source} never hands over"
        else:
            continue
        message = f"{missing} to {trigger.target}, so this never fires; correct it, or add that rule"
        findings.add("warning", "never_fires", variables_file(package), transition.trigger_place, message)


def _possible_handoffs(package: Package, findings: Findings) -> Iterator[HandoffEdge]:
    """Yields the hand-offs that may happen, as pairs of source and target."""
    certain = find_certain_rules(package, findings, production=False)
    applying = {index: rule for index, rule in enumerate(package.rules) if index not in certain.never_hold}
    asks_people = package.orchestrator.human_in_the_loop
    for rule in applying.values():
        is_asked = rule.source != USER or asks_people or package.orchestrator.initial_agent == USER
        if is_asked and not (rule.scope == "pre" and rule.source == rule.target):
            yield rule.source, rule.target
    if asks_people:  # an agent that asked a person continues itself
        yield from ((USER, name) for name in package.agents)
    by_source = {name: [index for index, rule in applying.items() if rule.source == name] for name in package.agents}
    by_pattern = pattern_targets(package, by_source, certain.always_hold)
    for source, followers in by_pattern.items():
        for target in by_pattern[CHOICE] if CHOICE in followers else followers:
            if (
                target != TERMINATE or package.orchestrator.pattern == "AutoPattern"
            ):  # the end of a pipeline is not a hand-off
                yield source, target


def _check_tool_calls(package: Package, transitions: Collection[Transition], findings: Findings) -> None:
    for transition in transitions:
        trigger = transition.trigger
        if not isinstance(trigger, ToolCallTrigger) or all(tool.function != trigger.tool for tool in package.tools):
            continue
        if trigger.agent is not None and trigger.agent not in package.agents:
            continue
        agents = package.agents if trigger.agent is None else (trigger.agent,)
        if not any(_can_call(package, agent, trigger.tool) for agent in agents):
            missing = "no agent has" if trigger.agent is None else f"{trigger.agent} does not have"
            message = f"{missing} the tool {trigger.tool}, so this never fires; correct it, or assign the tool"
            findings.add("warning", "never_fires", variables_file(package), transition.trigger_place, message)


def _can_call(package: Package, agent: str, function: str) -> bool:
    named = (tool for tool in package.tools if tool.function == function)
    return any(is_offered(package, agent, tool) or is_automatic(package, agent, tool) for tool in named)
