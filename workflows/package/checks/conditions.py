"""Checks of conditions: names that are never set, and values that a route should not depend on."""

from collections.abc import Iterator

from workflows.context.conditions import ConditionError, compile_condition, prefixes
from workflows.context.plain_values import BASE_FLAGS
from workflows.package.checks.known import known_names, routing_file, rule_place
from workflows.package.findings import Findings
from workflows.package.models import Package, Rule

_DATA = frozenset({"db", "static", "entity", "external", "file"})


def check_conditions(package: Package, findings: Findings, *, production: bool) -> None:
    known = known_names(package)
    file = routing_file(package)
    for index, rule in enumerate(package.rules):
        for written in sorted(_written_names(rule)):
            # ${order.total} is a part of order, unless there is a variable of that whole name.
            name = next((each for each in prefixes(written) if each in known), written)
            for code, message in _faults(package, name, known=name in known, production=production):
                findings.add("warning", code, file, rule_place(package, index), message)


def _faults(package: Package, name: str, *, known: bool, production: bool) -> Iterator[tuple[str, str]]:
    variable = package.variables.get(name)
    kind = variable.kind if variable is not None else None
    if not known:
        yield "undefined_variable", f"{name} is never set by this package; declare it as a variable or an input"
    elif kind in _DATA:
        yield "routing_on_data", f"{name} comes from the {kind} source; route on state or environment"
    elif kind == "env" or name in BASE_FLAGS:
        when = "this is checked for production, where" if production else "in production"
        yield (
            "vanishes_in_production",
            f"{name} is an environment variable: {when} this condition is false; route on state instead",
        )


def named_variables(rule: Rule) -> frozenset[str]:
    return frozenset(prefix for name in _written_names(rule) for prefix in prefixes(name))


def _written_names(rule: Rule) -> frozenset[str]:
    if rule.condition is None:
        return frozenset()
    try:
        return compile_condition(rule.condition).names
    except ConditionError:  # reported where the rule was read
        return frozenset()
