"""Unsatisfiable rules: their condition is false in every run.

The search is a fixed point. It begins with no condition that holds and repeats three steps until nothing is added, so
it also finds two rules that wait for each other:
1. an agent may speak if satisfiable rules lead to it;
2. a transition may fire if its agent may speak;
3. a rule is satisfiable if one combination of the possible values of its names makes it true.
Rules over environment variables are skipped: they may hold outside production, and `vanishes_in_production` reports
them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from workflows.context.expressions.routing_conditions import ConditionPart, split_alternatives
from workflows.context.values.value_types import equals_strictly
from workflows.package.checks.file_places import agents_file, routing_file, rule_place
from workflows.package.checks.message_parts import display
from workflows.package.checks.routing.certain_rules import CertainRules, find_certain_rules
from workflows.package.checks.routing.condition_checks import compiled_condition, referenced_variables
from workflows.package.checks.routing.routing_checks import find_possible_speakers
from workflows.package.checks.variables.possible_values import KnownValues, PossibleValues, ValueDomain
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import Package

MAX_ROUNDS = 200  # each round adds an agent that may speak; longer chains are not checked
MAX_COMBINATIONS = 200  # of values tried per rule

Alternatives = tuple[tuple[ConditionPart, ...], ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an alternative of a condition never holds, and a remedy.

    `fact` is about `name`.
    """

    name: str
    fact: str
    remedy: str


@dataclass(frozen=True, slots=True)
class UnsatisfiableRules:
    """`reasons`: by the rule's index in the package.

    Empty for a condition without names.
    """

    package: Package
    reasons: Mapping[int, tuple[Reason, ...]] = field(default_factory=dict)

    def names(self) -> frozenset[str]:
        """Returns the names in the reasons."""
        return frozenset(reason.name for reasons in self.reasons.values() for reason in reasons)

    def exclusive_names(self) -> frozenset[str]:
        """Returns the names in the reasons that no other rule depends on."""
        others = (rule for index, rule in enumerate(self.package.rules) if index not in self.reasons)
        return self.names().difference(*map(referenced_variables, others))


def find_unsatisfiable_rules(package: Package, findings: Findings) -> UnsatisfiableRules:
    if findings.has_errors_in(routing_file(package), agents_file(package)):
        return UnsatisfiableRules(package)  # the refused parts may hold what decides a rule
    alternatives_by_rule = {
        index: _alternatives(rule.condition or "")
        for index, rule in enumerate(package.rules)
        if compiled_condition(rule) is not None
    }
    always = find_certain_rules(package, findings, production=False).always_hold
    possible_values = PossibleValues(package, findings)
    unsatisfiable = set(alternatives_by_rule)
    sizes: dict[int, list[int]] = {}
    for _ in range(MAX_ROUNDS):
        values = possible_values.values_for_speakers(
            find_possible_speakers(package, CertainRules(always, frozenset(unsatisfiable)))
        )
        before, sizes = sizes, {index: _count_values(alternatives_by_rule[index], values) for index in unsatisfiable}
        changed = [index for index in unsatisfiable if before.get(index) != sizes[index]]
        possible = {
            index
            for index in changed
            if any(_can_hold(alternative, values) for alternative in alternatives_by_rule[index])
        }
        if not possible:
            return UnsatisfiableRules(
                package,
                {
                    index: tuple(_explain_alternatives(alternatives_by_rule[index], values))
                    for index in sorted(unsatisfiable)
                },
            )
        unsatisfiable -= possible
    return UnsatisfiableRules(package)


def check_unsatisfiable_rules(unsatisfiable: UnsatisfiableRules, findings: Findings) -> None:
    package = unsatisfiable.package
    for index, reasons in unsatisfiable.reasons.items():
        facts = dict.fromkeys(reason.fact for reason in reasons) or ("it compares no variable",)
        remedies = dict.fromkeys(reason.remedy for reason in reasons) or ("correct it, or remove the rule",)
        message = f"this condition never holds: {' and '.join(facts)}; {', or '.join(remedies)}"
        findings.add("warning", "waits_for_ever", routing_file(package), rule_place(package, index), message)


_alternatives = lru_cache(maxsize=4096)(split_alternatives)


def _count_values(alternatives: Alternatives, values: KnownValues) -> list[int]:
    """Counts the possible values of each name. A count grows when a round adds values."""
    return [
        len(domain.values) for alternative in alternatives for domain in _find_domains(alternative, values).values()
    ]


def _can_hold(alternative: Sequence[ConditionPart], values: KnownValues) -> bool:
    if _find_contradiction(alternative) is not None:
        return False
    decided = _decidable_parts(alternative, values)
    can_hold = _can_parts_hold(decided, values)
    if can_hold is None:
        return all(_can_parts_hold([part], values) is not False for part in decided)
    return can_hold


def _decidable_parts(alternative: Sequence[ConditionPart], values: KnownValues) -> list[ConditionPart]:
    """Returns the parts whose names all have known values."""
    return [part for part in alternative if all(values.find_owner(name) for name in part.condition.names)]


def _can_parts_hold(parts: Sequence[ConditionPart], values: KnownValues) -> bool | None:
    """Tries all combinations of values; returns None if they are too many."""
    known = {name: domain.values for name, domain in _find_domains(parts, values).items() if domain.is_declared}
    if prod(map(len, known.values())) > MAX_COMBINATIONS:
        return None
    return any(
        all(part.condition.holds(dict(zip(known, combination, strict=True))) for part in parts)
        for combination in product(*known.values())
    )


def _find_domains(parts: Sequence[ConditionPart], values: KnownValues) -> dict[str, ValueDomain]:
    owners = (values.find_owner(name) for part in parts for name in sorted(part.condition.names))
    return dict(owner for owner in owners if owner is not None)


def _find_contradiction(alternative: Sequence[ConditionPart]) -> tuple[str, Any, Any] | None:
    needed: dict[str, Any] = {}
    for part in alternative:
        if part.equals is not None:
            name, value = part.equals
            if not equals_strictly(needed.setdefault(name, value), value):
                return name, needed[name], value
    return None


def _explain_alternatives(alternatives: Alternatives, values: KnownValues) -> Iterator[Reason]:
    for alternative in alternatives:
        contradiction = _find_contradiction(alternative)
        if contradiction is not None:
            name, first, second = contradiction
            yield Reason(name, f"{name} would have to be {display(first)} and {display(second)} at once", "correct it")
        else:
            yield from _explain_values(alternative, values)


def _explain_values(alternative: Sequence[ConditionPart], values: KnownValues) -> Iterator[Reason]:
    """Explains the parts that never hold by themselves, if any, else all parts."""
    decided = _decidable_parts(alternative, values)
    impossible = [part for part in decided if _can_parts_hold([part], values) is False]
    for name, domain in _find_domains(impossible or decided, values).items():
        remedy = "correct it, or set the variable by a transition, a computation or a tool"
        yield Reason(name, domain.fact, remedy if domain.is_declared else "declare it as a variable or an input")
