"""Checks of state machines: states nobody enters, and transitions that watch for what does not exist."""

import ast
import json
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workflows.context.observing import Transition, Unset, captured_group
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
from workflows.package.findings import Findings, Level
from workflows.package.models import Package, Variable
from workflows.package.sources import StateSource

_EQUALS = re.compile(
    r"""(?:\$\{\s*+([A-Za-z_]\w*+)\s*+\}|\bcontext_variables\.([A-Za-z_]\w*+))\s*+==\s*+('[^'\\]*+'|"[^"\\]*+"|\w++)"""
)
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}

Fault = tuple[Level, str, str]


@dataclass(frozen=True, slots=True)
class _Machine:
    """`states` are those it takes by its transitions, None when that depends on what is said or answered;
    `coded`: a tool, a hook or a lifecycle tool may write any value, best one of `enum`."""

    transitions: tuple[Transition, ...]
    states: frozenset[Hashable] | None
    enum: frozenset[Hashable]
    default: Hashable
    coded: bool

    def may_start_from(self, value: Any) -> bool:
        declared = self.coded and _key(value) in self.enum
        return declared or self.states is None or _key(value) in self.states

    def may_become(self, value: Any) -> bool:
        if self.enum and _key(value) not in self.enum and _key(value) != self.default:
            return False
        return self.coded or self.states is None or _key(value) in self.states


@dataclass(frozen=True, slots=True)
class _Watched:
    """What transitions may wait for; None where a part was refused. `files`: from a tool's file to its function."""

    agents: Collection[str] | None
    tools: Collection[str] | None
    files: Mapping[str, str]


def check_states(package: Package, findings: Findings) -> None:
    coded = bool(package.tools or package.lifecycle_tools or package.hooks)
    machines = {
        name: _machine(variable, variable.source, coded=coded)
        for name, variable in package.variables.items()
        if isinstance(variable.source, StateSource) and (variable.source.transitions or variable.enum)
    }
    watched = _watched(package, findings)
    for name, machine in machines.items():
        for level, code, message in _faults(machine, watched):
            findings.add(level, code, variables_file(package), variable_place(package, name), message)
    for index, rule in enumerate(package.rules):
        for name, literal in _compared(rule.condition or ""):
            if name in machines and not machines[name].may_become(literal):
                message = f"{name} never becomes {shown(literal)}; correct the condition, or lead there by a transition"
                findings.add("warning", "orphan_state", routing_file(package), rule_place(package, index), message)


def _watched(package: Package, findings: Findings) -> _Watched:
    return _Watched(
        agents=None if misread(findings, agents_file(package)) else package.agents.keys(),
        tools=None if misread(findings, tools_file(package)) else {tool.function for tool in package.tools},
        files={tool.file.stem: tool.function for tool in package.tools},
    )


def _machine(variable: Variable, source: StateSource, *, coded: bool) -> _Machine:
    default, enum = _key(variable.default), frozenset(map(_key, variable.enum))
    return _Machine(source.transitions, _states(variable.default, source.transitions), enum, default, coded)


def _states(default: Any, transitions: Iterable[Transition]) -> frozenset[Hashable] | None:
    states = {_key(default)}
    for transition in transitions:
        if captured_group(transition.to) is not None:
            return None
        if not isinstance(transition.to, Unset):
            states.add(_key(transition.to))
        elif getattr(transition.trigger, "response_key", None) is None:
            states.add(_key(True))  # what a trigger says of itself
        else:
            return None
    return frozenset(states)


def _key(value: Any) -> Hashable:
    """Equal for equal values, and true is not 1."""
    try:
        if not isinstance(value, list | dict):
            return isinstance(value, bool), hash(value), value
        return json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):  # keys of several types, numbers of thousands of digits
        return type(value).__name__


def _faults(machine: _Machine, watched: _Watched) -> Iterator[Fault]:
    for transition in machine.transitions:
        agent, tool = getattr(transition.trigger, "agent", None), getattr(transition.trigger, "tool", None)
        if agent and watched.agents is not None and agent not in watched.agents:
            message = f"a transition waits for {agent}, which is not an agent of this package; correct it"
            yield "error", "unknown_agent", message
        if tool and watched.tools is not None and tool not in watched.tools:
            yield _unknown_tool(tool, watched.files.get(tool))
        if not isinstance(transition.from_, Unset) and not machine.may_start_from(transition.from_):
            message = (
                f"a transition starts from {shown(transition.from_)}, which is neither the default nor where another"
                " one leads; correct `from`, or add the transition that leads there"
            )
            yield "warning", "orphan_state", message


def _unknown_tool(name: str, meant: str | None) -> Fault:
    if meant is not None:
        message = f"a transition waits for the file {name}; a tool is known by its function, here {meant}"
        return "warning", "unknown_tool", message
    message = f"a transition waits for {name}, which is not a tool of this package; write a tool's function"
    return "error", "unknown_tool", message


def _compared(condition: str) -> Iterator[tuple[str, Any]]:
    for match in _EQUALS.finditer(condition):
        literal = _literal(match[3])
        if literal is not None:
            yield match[1] or match[2], literal


def _literal(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):  # a word that the condition's own grammar refuses, or null
        return None
