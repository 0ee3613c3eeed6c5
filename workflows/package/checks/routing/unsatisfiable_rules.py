"""Rules that wait for ever: those whose condition nothing can make true in any run.

An agent may speak if rules that can hold lead to it; a transition may fire if its agent may speak; a rule can hold if
one of the values that its names may have makes it true. Begun with no condition that holds, this is repeated until
nothing is added, so that two which wait for each other are found as well. A rule over an environment variable is left
out: it may hold outside production, and `vanishes_in_production` reports it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from workflows.context.expressions.routing_conditions import ConditionPart, split_alternatives
from workflows.context.values.value_types import equals_strictly
from workflows.package.checks.finding_places import agents_file, display, has_errors_in, routing_file, rule_place
from workflows.package.checks.routing.certain_rules import CertainRules, find_certain_rules
from workflows.package.checks.routing.condition_checks import compiled_condition, referenced_variables
from workflows.package.checks.routing.routing_checks import find_possible_speakers
from workflows.package.checks.variables.possible_values import KnownValues, PossibleValues, ValueDomain
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import Package

MAX_ROUNDS = 200  # each adds an agent that may speak; a longer chain is not looked into
MAX_COMBINATIONS = 200  # of values that one rule is tried with

Alternatives = tuple[tuple[ConditionPart, ...], ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a way never holds: a fact about `name`, and what to do."""

    name: str
    fact: str
    remedy: str


@dataclass(frozen=True, slots=True)
class UnsatisfiableRules:
    """`reasons` by the index of the rule in the package; none where the condition names nothing."""

    package: Package
    reasons: Mapping[int, tuple[Reason, ...]] = field(default_factory=dict)

    def names(self) -> frozenset[str]:
        """Names that the reasons are about."""
        return frozenset(reason.name for reasons in self.reasons.values() for reason in reasons)

    def exclusive_names(self) -> frozenset[str]:
        """Those of them that no other rule depends on."""
        others = (rule for index, rule in enumerate(self.package.rules) if index not in self.reasons)
        return self.names().difference(*map(referenced_variables, others))


def find_unsatisfiable_rules(package: Package, findings: Findings) -> UnsatisfiableRules:
    if has_errors_in(findings, routing_file(package), agents_file(package)):
        return UnsatisfiableRules(package)  # what a rule waits for may be in what was refused
    ways = {
        index: _alternatives(rule.condition or "")
        for index, rule in enumerate(package.rules)
        if compiled_condition(rule) is not None
    }
    always = find_certain_rules(package, findings, production=False).always_hold
    possible_values = PossibleValues(package, findings)
    never = set(ways)
    sizes: dict[int, list[int]] = {}
    for _ in range(MAX_ROUNDS):
        values = possible_values.values_for_speakers(
            find_possible_speakers(package, CertainRules(always, frozenset(never)))
        )
        before, sizes = sizes, {index: _count_values(ways[index], values) for index in never}
        changed = [index for index in never if before.get(index) != sizes[index]]
        possible = {index for index in changed if any(_can_hold(way, values) for way in ways[index])}
        if not possible:
            return UnsatisfiableRules(
                package, {index: tuple(_explain_alternatives(ways[index], values)) for index in sorted(never)}
            )
        never -= possible
    return UnsatisfiableRules(package)


def check_unsatisfiable_rules(unsatisfiable: UnsatisfiableRules, findings: Findings) -> None:
    package = unsatisfiable.package
    for index, reasons in unsatisfiable.reasons.items():
        facts = dict.fromkeys(each.fact for each in reasons) or ("it compares nothing that a run sets",)
        remedies = dict.fromkeys(each.remedy for each in reasons) or ("correct it, or remove the rule",)
        message = f"this condition never holds: {' and '.join(facts)}; {', or '.join(remedies)}"
        findings.add("warning", "waits_for_ever", routing_file(package), rule_place(package, index), message)


_alternatives = lru_cache(maxsize=4096)(split_alternatives)


def _count_values(alternatives: Alternatives, values: KnownValues) -> list[int]:
    """They grow when the names of a rule have more values than before."""
    return [len(domain.values) for way in alternatives for domain in _find_domains(way, values).values()]


def _can_hold(alternative: Sequence[ConditionPart], values: KnownValues) -> bool:
    if _find_contradiction(alternative) is not None:
        return False
    decided = _decidable_parts(alternative, values)
    together = _can_parts_hold(decided, values)
    if together is None:
        return all(_can_parts_hold([part], values) is not False for part in decided)
    return together


def _decidable_parts(alternative: Sequence[ConditionPart], values: KnownValues) -> list[ConditionPart]:
    """The parts that name nothing of which any value is possible."""
    return [part for part in alternative if all(values.find_owner(name) for name in part.condition.names)]


def _can_parts_hold(parts: Sequence[ConditionPart], values: KnownValues) -> bool | None:
    """None where there are too many values to try."""
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
    for way in alternatives:
        contradiction = _find_contradiction(way)
        if contradiction is not None:
            name, one, other = contradiction
            yield Reason(name, f"{name} would have to be {display(one)} and {display(other)} at once", "correct it")
        else:
            yield from _explain_values(way, values)


def _explain_values(alternative: Sequence[ConditionPart], values: KnownValues) -> Iterator[Reason]:
    """Where parts never hold by themselves, only of those."""
    decided = _decidable_parts(alternative, values)
    impossible = [part for part in decided if _can_parts_hold([part], values) is False]
    for name, domain in _find_domains(impossible or decided, values).items():
        remedy = "correct it, or let a transition, a computation or a tool set what it needs"
        yield Reason(name, domain.fact, remedy if domain.is_declared else "declare it as a variable or an input")
