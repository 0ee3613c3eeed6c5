"""Checks of state machines: unreachable states, unknown agents and tools."""

import ast
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workflows.context.observers.handoff import HandoffTrigger
from workflows.context.state.state_transitions import StateTrigger, Transition, Unset, captured_group
from workflows.context.values.value_types import value_key
from workflows.package.checks.file_places import (
    agents_file,
    routing_file,
    rule_place,
    tools_file,
    variable_place,
    variables_file,
)
from workflows.package.checks.message_parts import display
from workflows.package.checks.variables.constant_variables import can_code_set_variables, find_unset_variables
from workflows.package.findings import Findings, Level
from workflows.package.normal_form.package_model import TERMINATE, USER, Package, Variable
from workflows.package.normal_form.variable_sources import StateSource

_NAME = r"(?:\$\{\s*+([A-Za-z_]\w*+)\s*+\}|\bcontext_variables\.([A-Za-z_]\w*+))"
_LITERAL = r"""(?:'[^'\\]*+'|"[^"\\]*+"|-?[\w.]++)"""
_COMPARISON = re.compile(rf"{_NAME}\s*+(?:==\s*+({_LITERAL})|in\s*+\[((?:\s*+{_LITERAL}\s*+,?+)++)\])")
_LITERALS = re.compile(_LITERAL)
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


@dataclass(frozen=True, slots=True)
class _Fault:
    """A problem of a state machine. An empty `place` stands for the variable's place."""

    level: Level
    code: str
    message: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class _StateMachine:
    """The states of a variable.

    `states`: reachable by transitions; None if they depend on a reply or an answer. `has_code_writers`: code may write
    any value of `enum`, whose keys are `enum_keys`.
    """

    transitions: tuple[Transition, ...]
    states: frozenset[Hashable] | None
    enum: tuple[Any, ...]
    enum_keys: frozenset[Hashable]
    default: Hashable
    has_code_writers: bool

    @property
    def unreached_values(self) -> list[Any]:
        """Returns values of `enum` that no transition leads to.

        Values in a `from` have a finding there.
        """
        if self.has_code_writers or self.states is None:
            return []
        reported = self.states | {value_key(transition.from_) for transition in self.transitions}
        return [value for value in self.enum if value_key(value) not in reported]

    def can_start_from(self, value: Any) -> bool:
        declared = self.has_code_writers and value_key(value) in self.enum_keys
        return declared or self.states is None or value_key(value) in self.states

    def can_become(self, value: Any) -> bool:
        if self.enum_keys and value_key(value) not in self.enum_keys and value_key(value) != self.default:
            return False
        return self.has_code_writers or self.states is None or value_key(value) in self.states


@dataclass(frozen=True, slots=True)
class _TriggerTargets:
    """The agents and tools that transitions may wait for.

    Returns None if that file was refused.
    """

    agents: Collection[str] | None
    tools: Collection[str] | None
    function_by_file: Mapping[str, str]


def check_states(package: Package, findings: Findings, *, unsatisfiable: Collection[int] = ()) -> None:
    """Reports faults of state machines.

    `unsatisfiable`: rules that have a finding already.
    """
    machines = _build_machines(package, findings)
    targets = _trigger_targets(package, findings)
    file = variables_file(package)
    for name, machine in machines.items():
        for fault in _find_faults(machine, targets):
            findings.add(fault.level, fault.code, file, fault.place or variable_place(package, name), fault.message)
    for index, rule in enumerate(package.rules):
        for name, values in find_comparisons(rule.condition or ""):
            if index not in unsatisfiable and name in machines and not any(map(machines[name].can_become, values)):
                becomes = " or ".join(map(display, values))
                message = f"{name} never becomes {becomes}; correct the condition, or add a transition to this value"
                findings.add("warning", "orphan_state", routing_file(package), rule_place(package, index), message)


def _build_machines(package: Package, findings: Findings) -> dict[str, _StateMachine]:
    """Builds the state machines.

    Skips unset variables, which have a finding already.
    """
    coded, unset = can_code_set_variables(package, findings), find_unset_variables(package, findings)
    return {
        name: _build_machine(
            variable, variable.source, has_code_writers=coded, is_supplied=name in package.orchestrator.inputs
        )
        for name, variable in package.variables.items()
        if isinstance(variable.source, StateSource)
        and (variable.source.transitions or variable.enum)
        and name not in unset
    }


def _trigger_targets(package: Package, findings: Findings) -> _TriggerTargets:
    return _TriggerTargets(
        agents=None if findings.has_errors_in(agents_file(package)) else package.agents.keys(),
        tools=None if findings.has_errors_in(tools_file(package)) else {tool.function for tool in package.tools},
        function_by_file={tool.file.stem: tool.function for tool in package.tools},
    )


def _build_machine(
    variable: Variable, source: StateSource, *, has_code_writers: bool, is_supplied: bool
) -> _StateMachine:
    states = None if is_supplied else _reachable_states(variable.default, source.transitions)
    allowed = frozenset(map(value_key, variable.enum))
    return _StateMachine(
        source.transitions, states, variable.enum, allowed, value_key(variable.default), has_code_writers
    )


def _reachable_states(default: Any, transitions: Iterable[Transition]) -> frozenset[Hashable] | None:
    states = {value_key(default)}
    for transition in transitions:
        if captured_group(transition.to) is not None:
            return None
        if not isinstance(transition.to, Unset):
            states.add(value_key(transition.to))
        elif getattr(transition.trigger, "response_key", None) is None:
            states.add(value_key(True))  # the default value of a trigger
        else:
            return None
    return frozenset(states)


def _find_faults(machine: _StateMachine, targets: _TriggerTargets) -> Iterator[_Fault]:
    for transition in machine.transitions:
        yield from _find_trigger_faults(transition, targets)
        if not isinstance(transition.from_, Unset) and not machine.can_start_from(transition.from_):
            message = (
                f"a transition starts from {display(transition.from_)}, which is neither the default nor the target of"
                " a transition; correct `from`, or add a transition to it"
            )
            yield _Fault("warning", "orphan_state", message, transition.place)
    values = machine.unreached_values
    if values:
        message = f"no transition leads to {' and '.join(map(display, values))} of enum; add one, or remove the value"
        yield _Fault("warning", "orphan_state", message)


def _find_trigger_faults(transition: Transition, targets: _TriggerTargets) -> Iterator[_Fault]:
    trigger = transition.trigger
    for agent in _named_agents(trigger):
        if targets.agents is None or agent in targets.agents:
            continue
        message = f"a transition waits for {agent}, which is not an agent of this package; correct it"
        yield _Fault("error", "unknown_agent", message, transition.trigger_place)
    tool = getattr(trigger, "tool", None)
    if tool and targets.tools is not None and tool not in targets.tools:
        level, message = _unknown_tool_finding(tool, targets.function_by_file.get(tool), trigger.type)
        yield _Fault(level, "unknown_tool", message, transition.trigger_place)


def _named_agents(trigger: StateTrigger) -> list[str]:
    named = [getattr(trigger, "agent", None)]
    if isinstance(trigger, HandoffTrigger):
        named = [name for name in (trigger.source, trigger.target) if name not in (USER, TERMINATE)]
    return [name for name in named if name]


def _unknown_tool_finding(name: str, function: str | None, kind: str) -> tuple[Level, str]:
    """Describes an unknown tool.

    It is only a warning for user interfaces, whose parts may have other names.
    """
    if function is not None:
        return "warning", f"a transition waits for the file {name}; write the tool's function, {function}"
    message = f"a transition waits for {name}, which is not a tool of this package; write a tool's function"
    return "warning" if kind == "ui_response" else "error", message


def find_comparisons(condition: str) -> Iterator[tuple[str, list[Any]]]:
    """Yields each compared variable with its values.

    Skips null, which every variable may be.
    """
    for match in _COMPARISON.finditer(condition):
        values = [_literal_value(text) for text in _LITERALS.findall(match[3] or match[4])]
        if None not in values:
            yield match[1] or match[2], values


def _literal_value(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):  # null, or a word that the grammar of conditions rejects
        return None
