"""Checks of conditions: unset names, and sources unfit for routing."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache

from workflows.context.expressions.prompt_templates import find_dollar_names
from workflows.context.expressions.routing_conditions import Condition, ConditionError, compile_condition, name_prefixes
from workflows.context.reads.supplied_values import BASE_FLAGS
from workflows.package.checks.file_places import routing_file, rule_place
from workflows.package.checks.graph import reverse_graph
from workflows.package.checks.known_names import known_names
from workflows.package.findings import Findings
from workflows.package.normal_form.model_judged_rules import find_mentioned_names
from workflows.package.normal_form.package_model import USER, Package, Rule, Variable
from workflows.package.normal_form.variable_sources import ComputedSource

_DATA_KINDS = frozenset({"db", "static", "entity", "external", "file"})
_DATABASE_KINDS = frozenset({"db", "entity"})


def check_conditions(
    package: Package, findings: Findings, *, production: bool, reported_names: AbstractSet[str] = frozenset()
) -> None:
    """Reports the names in conditions. `reported_names` have a finding already."""
    known = known_names(package) | reported_names
    origins = _find_environment_computed(package)
    file = routing_file(package)
    for index, rule in enumerate(package.rules):
        for reference in sorted(_referenced_names(rule)):
            # ${order.total} is a part of order, unless a variable has the whole name.
            name = next((prefix for prefix in name_prefixes(reference) if prefix in known), reference)
            faults = (
                [_undefined_finding(name)]
                if name not in known
                else _find_faults(package, name, origins, production=production)
            )
            for code, message in faults:
                findings.add("warning", code, file, rule_place(package, index), message)


def _undefined_finding(name: str) -> tuple[str, str]:
    return "undefined_variable", f"{name} is never set by this package; declare it as a variable or an input"


def _find_faults(
    package: Package, name: str, origins: Mapping[str, str], *, production: bool
) -> Iterator[tuple[str, str]]:
    checked = production_note(production=production)
    variable = package.variables.get(name)
    kind = variable.kind if variable is not None else None
    if kind in _DATA_KINDS and not _has_few_values(variable):
        message = f"{name} has the source {kind}; route on state or environment variables"
        if kind in _DATABASE_KINDS:
            message += ", or declare it with type: boolean or an enum"
        yield "routing_on_data", message
    elif kind == "env" or name in BASE_FLAGS:
        yield (
            "vanishes_in_production",
            f"{name} is an environment variable, which is absent in production{checked}: this condition is false there;"
            " route on state",
        )
    elif name in origins:
        yield (
            "vanishes_in_production",
            f"{name} is computed from the environment variable {origins[name]}, which is absent in production{checked}:"
            f" {name} is computed without it there; compute it from state or data",
        )


def production_note(*, production: bool) -> str:
    return " (checked for production)" if production else ""


def _has_few_values(variable: Variable | None) -> bool:
    """Returns whether it is read from a database and has few values.

    A rule may name each of them.
    """
    if variable is None or variable.kind not in _DATABASE_KINDS:
        return False
    return variable.type == "boolean" or bool(variable.enum)


def environment_names(package: Package) -> frozenset[str]:
    """Returns the names that no run has in production."""
    return frozenset(BASE_FLAGS) | {name for name, variable in package.variables.items() if variable.kind == "env"}


def _find_environment_computed(package: Package) -> dict[str, str]:
    """Returns variables that are computed from the environment, with an origin.

    Includes indirect ones.
    """
    inputs = {
        name: tuple(variable.source.inputs.values())
        for name, variable in package.variables.items()
        if isinstance(variable.source, ComputedSource) and variable.source.computation is not None
    }
    users = reverse_graph(inputs)
    origins: dict[str, str] = {}
    pending = [(user, name) for name in sorted(environment_names(package)) for user in users.get(name, ())]
    while pending:
        user, name = pending.pop()
        if user not in origins:
            origins[user] = name
            pending.extend((further, name) for further in users.get(user, ()))
    return origins


def referenced_variables(rule: Rule) -> frozenset[str]:
    return frozenset(prefix for name in _referenced_names(rule) for prefix in name_prefixes(name))


def _referenced_names(rule: Rule) -> frozenset[str]:
    condition = compiled_condition(rule)
    return frozenset() if condition is None else condition.names


def compiled_condition(rule: Rule) -> Condition | None:
    return None if rule.condition is None else _compile(rule.condition)


@lru_cache(maxsize=4096)
def _compile(text: str) -> Condition | None:
    try:
        return compile_condition(text)
    except ConditionError:  # reported where the rule was read
        return None


def check_judged_rules(package: Package, findings: Findings, *, production: bool) -> None:
    file = routing_file(package)
    for index, rule in enumerate(package.rules):
        if rule.judgement is not None and rule.source != USER:  # a judged rule of user has a finding of its own
            for code, message in (
                *_find_unfilled_names(package, rule),
                *_find_vanishing_names(package, rule, production=production),
            ):
                findings.add("warning", code, file, rule_place(package, index), message)


def _find_unfilled_names(package: Package, rule: Rule) -> Iterator[tuple[str, str]]:
    known, exposed = known_names(package), package.exposures.get(rule.source, ())
    for name in find_dollar_names(rule.judgement or ""):
        if name not in known:
            message = f"the condition names {name}, which is neither a variable nor an input; define and expose it"
            yield "undefined_variable", message
        elif name not in exposed:
            message = f"the condition names {name}, which {rule.source} cannot see, so the placeholder is not filled"
            yield "not_exposed", f"{message}; expose it to {rule.source} in context_variables"


def _find_vanishing_names(package: Package, rule: Rule, *, production: bool) -> Iterator[tuple[str, str]]:
    for name in sorted(find_mentioned_names(rule.judgement or "", environment_names(package))):
        checked = production_note(production=production)
        message = f"{name} is an environment variable, which is absent in production{checked}"
        yield "vanishes_in_production", f"{message}: no model is offered this rule there; judge by state"
