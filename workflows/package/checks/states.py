"""Checks of state machines: states nobody enters, and transitions that watch for what does not exist."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workflows.context.observers.handoff import Handoff
from workflows.context.observing import Transition, Trigger, Unset, captured_group
from workflows.context.value_types import value_key
from workflows.package.checks.compared import compared
from workflows.package.checks.known import (
    agents_file,
    misread,
    routing_file,
    rule_place,
    shown,
    tools_file,
    variable_place,
    variables_file,
)
from workflows.package.checks.settable import may_be_coded, never_set
from workflows.package.findings import Findings, Level
from workflows.package.models import TERMINATE, USER, Package, Variable
from workflows.package.sources import StateSource


@dataclass(frozen=True, slots=True)
class _Fault:
    """`place` is empty where the reader gave none."""

    level: Level
    code: str
    message: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class _Machine:
    """`states` are those it takes by its transitions, None when that depends on what is said or answered;
    `coded`: code may write any value, best one of `enum`, whose keys are `allowed`."""

    transitions: tuple[Transition, ...]
    states: frozenset[Hashable] | None
    enum: tuple[Any, ...]
    allowed: frozenset[Hashable]
    default: Hashable
    coded: bool

    @property
    def missed(self) -> list[Any]:
        """What `enum` allows and nothing leads to; where a transition starts from it, that is said there."""
        if self.coded or self.states is None:
            return []
        told = self.states | {value_key(each.from_) for each in self.transitions}
        return [value for value in self.enum if value_key(value) not in told]

    def may_start_from(self, value: Any) -> bool:
        declared = self.coded and value_key(value) in self.allowed
        return declared or self.states is None or value_key(value) in self.states

    def may_become(self, value: Any) -> bool:
        if self.allowed and value_key(value) not in self.allowed and value_key(value) != self.default:
            return False
        return self.coded or self.states is None or value_key(value) in self.states


@dataclass(frozen=True, slots=True)
class _Watched:
    """What transitions may wait for; None where a part was refused. `files`: from a tool's file to its function."""

    agents: Collection[str] | None
    tools: Collection[str] | None
    files: Mapping[str, str]


def check_states(package: Package, findings: Findings, *, waiting: Collection[int] = ()) -> None:
    """`waiting`: rules that never hold, which are reported as a whole."""
    machines = _machines(package, findings)
    watched = _watched(package, findings)
    file = variables_file(package)
    for name, machine in machines.items():
        for fault in _faults(machine, watched):
            findings.add(fault.level, fault.code, file, fault.place or variable_place(package, name), fault.message)
    for index, rule in enumerate(package.rules):
        for name, values in compared(rule.condition or ""):
            if index not in waiting and name in machines and not any(map(machines[name].may_become, values)):
                becomes = " or ".join(map(shown, values))
                message = f"{name} never becomes {becomes}; correct the condition, or lead there by a transition"
                findings.add("warning", "orphan_state", routing_file(package), rule_place(package, index), message)


def _machines(package: Package, findings: Findings) -> dict[str, _Machine]:
    """Those that nothing ever sets have been said as a whole."""
    coded, unset = may_be_coded(package, findings), never_set(package, findings)
    return {
        name: _machine(variable, variable.source, coded=coded, supplied=name in package.orchestrator.inputs)
        for name, variable in package.variables.items()
        if isinstance(variable.source, StateSource)
        and (variable.source.transitions or variable.enum)
        and name not in unset
    }


def _watched(package: Package, findings: Findings) -> _Watched:
    return _Watched(
        agents=None if misread(findings, agents_file(package)) else package.agents.keys(),
        tools=None if misread(findings, tools_file(package)) else {tool.function for tool in package.tools},
        files={tool.file.stem: tool.function for tool in package.tools},
    )


def _machine(variable: Variable, source: StateSource, *, coded: bool, supplied: bool) -> _Machine:
    states = None if supplied else _states(variable.default, source.transitions)
    allowed = frozenset(map(value_key, variable.enum))
    return _Machine(source.transitions, states, variable.enum, allowed, value_key(variable.default), coded)


def _states(default: Any, transitions: Iterable[Transition]) -> frozenset[Hashable] | None:
    states = {value_key(default)}
    for transition in transitions:
        if captured_group(transition.to) is not None:
            return None
        if not isinstance(transition.to, Unset):
            states.add(value_key(transition.to))
        elif getattr(transition.trigger, "response_key", None) is None:
            states.add(value_key(True))  # what a trigger says of itself
        else:
            return None
    return frozenset(states)


def _faults(machine: _Machine, watched: _Watched) -> Iterator[_Fault]:
    for transition in machine.transitions:
        yield from _faults_of_trigger(transition, watched)
        if not isinstance(transition.from_, Unset) and not machine.may_start_from(transition.from_):
            message = (
                f"a transition starts from {shown(transition.from_)}, which is neither the default nor where another"
                " one leads; correct `from`, or add the transition that leads there"
            )
            yield _Fault("warning", "orphan_state", message, transition.place)
    missed = machine.missed
    if missed:
        message = f"enum allows {' and '.join(map(shown, missed))}, where no transition leads; add one, or remove it"
        yield _Fault("warning", "orphan_state", message)


def _faults_of_trigger(transition: Transition, watched: _Watched) -> Iterator[_Fault]:
    trigger = transition.trigger
    for agent in _named_agents(trigger):
        if watched.agents is None or agent in watched.agents:
            continue
        message = f"a transition waits for {agent}, which is not an agent of this package; correct it"
        yield _Fault("error", "unknown_agent", message, transition.trigger_place)
    tool = getattr(trigger, "tool", None)
    if tool and watched.tools is not None and tool not in watched.tools:
        level, message = _unknown_tool(tool, watched.files.get(tool), trigger.type)
        yield _Fault(level, "unknown_tool", message, transition.trigger_place)


def _named_agents(trigger: Trigger) -> list[str]:
    named = [getattr(trigger, "agent", None)]
    if isinstance(trigger, Handoff):
        named = [name for name in (trigger.source, trigger.target) if name not in (USER, TERMINATE)]
    return [name for name in named if name]


def _unknown_tool(name: str, meant: str | None, kind: str) -> tuple[Level, str]:
    """A user interface may know its parts by names that no function has."""
    if meant is not None:
        return "warning", f"a transition waits for the file {name}; a tool is known by its function, here {meant}"
    message = f"a transition waits for {name}, which is not a tool of this package; write the name of a tool's function"
    return "warning" if kind == "ui_response" else "error", message
