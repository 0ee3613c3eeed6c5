"""Certain rules: the package alone decides that they always or never hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workflows.context.expressions.routing_conditions import Condition, name_prefixes
from workflows.package.checks.routing.condition_checks import compiled_condition, environment_names
from workflows.package.checks.variables.constant_variables import constant_values
from workflows.package.findings import Findings
from workflows.package.normal_form.model_judged_rules import find_mentioned_names
from workflows.package.normal_form.package_model import USER, Package, Rule


@dataclass(frozen=True, slots=True)
class CertainRules:
    """Certain rules, by their index in the package."""

    always_hold: frozenset[int]
    never_hold: frozenset[int]


def find_certain_rules(package: Package, findings: Findings, *, production: bool) -> CertainRules:
    absent = environment_names(package) if production else frozenset()
    fixed = constant_values(package, findings)
    always, never = set(), set()
    for index, rule in enumerate(package.rules):
        condition = compiled_condition(rule)
        if _always_holds(rule, condition):
            always.add(index)
        elif rule.judgement is not None:
            # User has no model to judge a rule. A rule that names an absent variable is not offered to a model.
            if rule.source == USER or find_mentioned_names(rule.judgement, absent):
                never.add(index)
        elif condition is not None and _never_holds(condition, absent, fixed):
            never.add(index)
    return CertainRules(frozenset(always), frozenset(never))


def _always_holds(rule: Rule, condition: Condition | None) -> bool:
    if rule.condition is None:
        return rule.judgement is None
    return condition is not None and not condition.names and condition.holds({})


def _never_holds(condition: Condition, absent: frozenset[str], constants: Mapping[str, Any]) -> bool:
    """Returns whether a condition is false in every run.

    A dotted name is a part of its first name.
    """
    if any(prefix in absent for name in condition.names for prefix in name_prefixes(name)):
        return True
    return all(name_prefixes(name)[-1] in constants for name in condition.names) and not condition.holds(constants)
