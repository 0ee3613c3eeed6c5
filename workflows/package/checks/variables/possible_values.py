"""Possible values of names in a run, as far as the package alone decides them."""

from collections import deque
from collections.abc import Collection, Hashable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from workflows.context.expressions.routing_conditions import name_prefixes
from workflows.context.observers.handoff import HandoffTrigger
from workflows.context.observers.lifecycle import LifecycleTrigger
from workflows.context.state.state_transitions import Transition, Unset, captured_group
from workflows.context.values.type_coercion import coerce_or_keep
from workflows.context.values.value_types import parse_type_name, value_key
from workflows.package.checks.file_places import orchestrator_file, variables_file
from workflows.package.checks.known_names import BASE_NAMES, known_names
from workflows.package.checks.message_parts import display
from workflows.package.checks.variables.constant_variables import can_code_set_variables, constant_values
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import Moment, Package, Variable
from workflows.package.normal_form.variable_sources import StateSource, StaticSource

MAX_SHOWN_VALUES = 5
END_MOMENTS: tuple[Moment, ...] = ("after_chat", "on_complete", "on_fail")  # no rule is evaluated after these


@dataclass(frozen=True, slots=True)
class ValueDomain:
    """All values that a name may have. `fact`: the same in words, for a finding."""

    values: tuple[Any, ...]
    fact: str
    is_declared: bool = True


@dataclass(frozen=True, slots=True)
class KnownValues:
    """The domains by name. A known name without a domain may have any value.

    `is_open`: code may set other names too, or the parts that set them were refused.
    """

    domains: Mapping[str, ValueDomain]
    known_names: AbstractSet[str]
    is_open: bool

    def find_owner(self, reference: str) -> tuple[str, ValueDomain] | None:
        """Returns the variable that `${a.b}` is read from, with its domain.

        Returns None if any value is possible.
        """
        names = [name for name in name_prefixes(reference) if name in self.known_names]
        if not names:
            return (
                None
                if self.is_open
                else (reference, ValueDomain((), f"{reference} is not declared", is_declared=False))
            )
        return (names[0], self.domains[names[0]]) if len(names) == 1 and names[0] in self.domains else None


class PossibleValues:
    """Computes the values of names that only the package sets.

    Code may write any value of an `enum`.
    """

    def __init__(self, package: Package, findings: Findings) -> None:
        self._package = package
        self._known = known_names(package)
        self._has_code_writers = can_code_set_variables(package, findings)
        self._has_read_errors = findings.has_errors_in(variables_file(package), orchestrator_file(package))
        self._constant_domains = {name: self._constant_domain(name) for name in constant_values(package, findings)}

    def values_for_speakers(self, speakers: Collection[str]) -> KnownValues:
        """Returns the possible values if only these agents may speak."""
        if self._has_read_errors:
            return KnownValues({}, self._known, is_open=True)
        states = {
            name: domain
            for name, variable in self._package.variables.items()
            if name not in self._constant_domains and (domain := self._state_domain(variable, speakers)) is not None
        }
        return KnownValues(
            {**self._input_domains(), **self._constant_domains, **states}, self._known, is_open=self._has_code_writers
        )

    def _constant_domain(self, name: str) -> ValueDomain:
        variable = self._package.variables[name]
        default = display(variable.default)
        if isinstance(variable.source, StaticSource):
            return ValueDomain((variable.default,), f"{name} is always {default}")
        return ValueDomain((variable.default,), f"nothing sets {name}, so it keeps its default {default}")

    def _input_domains(self) -> Mapping[str, ValueDomain]:
        if self._has_code_writers:
            return {}
        inputs = self._package.orchestrator.inputs
        names = inputs.keys() - self._package.variables.keys() - BASE_NAMES
        return {name: domain for name in names if (domain := _input_domain(name, inputs[name])) is not None}

    def _state_domain(self, variable: Variable, speakers: Collection[str]) -> ValueDomain | None:
        name, source = variable.name, variable.source
        if not isinstance(source, StateSource) or name in self._package.orchestrator.inputs or name in BASE_NAMES:
            return None
        if self._has_code_writers:
            values = (*variable.enum, variable.default, None)
            return ValueDomain(values, _enum_fact(name, variable.enum)) if variable.enum else None
        if source.persist_key is not None:
            return None  # an earlier version of the package may have persisted another value
        firing = [transition for transition in source.transitions if self._can_fire(transition, speakers)]
        states = _reachable_values(variable, firing)
        if states is None:
            return None
        fact = f"{name} can only be {_list_values(states)}"
        # Any variable may be null for a while, such as when its value is hidden.
        return ValueDomain(
            (*states, None), fact if firing else f"{fact}: none of its transitions can fire before the chat ends"
        )

    def _can_fire(self, transition: Transition, speakers: Collection[str]) -> bool:
        """Returns whether a transition can fire before a rule is evaluated.

        Unknown agents are errors elsewhere.
        """
        trigger = transition.trigger
        if trigger.type == "user_text":
            return self._package.orchestrator.human_in_the_loop
        if isinstance(trigger, LifecycleTrigger) and trigger.event in END_MOMENTS:
            return False
        agents = (
            (trigger.source, trigger.target)
            if isinstance(trigger, HandoffTrigger)
            else (getattr(trigger, "agent", None),)
        )
        return all(agent not in self._package.agents or agent in speakers for agent in agents)


def _input_domain(name: str, spec: Mapping[str, Any]) -> ValueDomain | None:
    """Returns the domain of an input.

    A run with a value outside of its enum or type is refused.
    """
    enum, default = spec.get("enum"), spec.get("default")
    if isinstance(enum, list) and enum:
        return ValueDomain((*enum, default), _enum_fact(name, enum))
    if parse_type_name(spec.get("type")) == "boolean":
        return ValueDomain((True, False, None), f"the input {name} can only be true or false")
    return None


def _reachable_values(variable: Variable, transitions: Collection[Transition]) -> list[Any] | None:
    """Returns the default and all values reachable from it.

    Returns None if a value is part of a reply or an answer.
    """
    targets_by_state: dict[Hashable, list[Any]] = {}
    pending = deque([variable.default])
    for transition in transitions:
        if captured_group(transition.to) is not None:
            return None
        to = transition.to
        if isinstance(to, Unset):
            if getattr(transition.trigger, "response_key", None) is not None:
                return None
            to = coerce_or_keep(True, variable.type)  # the default value of a trigger
        if isinstance(transition.from_, Unset):
            pending.append(to)
        else:
            targets_by_state.setdefault(value_key(transition.from_), []).append(to)
    entered: dict[Hashable, Any] = {}
    while pending:
        value = pending.popleft()
        key = value_key(value)
        if key not in entered:
            entered[key] = value
            pending.extend(targets_by_state.get(key, ()))
    return list(entered.values())


def _enum_fact(name: str, values: Collection[Any]) -> str:
    return f"the enum of {name} allows only {_list_values(list(values))}"


def _list_values(values: list[Any]) -> str:
    words = [display(value) for value in values[:MAX_SHOWN_VALUES]]
    return " or ".join([*words, f"{len(values) - MAX_SHOWN_VALUES} more"] if len(values) > MAX_SHOWN_VALUES else words)
