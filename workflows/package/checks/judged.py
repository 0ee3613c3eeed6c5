"""Checks of judged rules: names in their texts that the agent does not see, or that production hides."""

from collections.abc import Iterator

from workflows.context.templates import find_dollar_names
from workflows.package.checks.conditions import environment_names, describe_production
from workflows.package.checks.known import known_names, routing_file, rule_place
from workflows.package.findings import Findings
from workflows.package.judged_rules import find_mentioned_names
from workflows.package.models import USER, Package, Rule


def check_judged_rules(package: Package, findings: Findings, *, production: bool) -> None:
    file = routing_file(package)
    for index, rule in enumerate(package.rules):
        if rule.judgement is not None and rule.source != USER:  # of user it is never asked, which is a finding by itself
            for code, message in (*_find_unfilled_names(package, rule), *_find_vanishing_names(package, rule, production=production)):
                findings.add("warning", code, file, rule_place(package, index), message)


def _find_unfilled_names(package: Package, rule: Rule) -> Iterator[tuple[str, str]]:
    known, exposed = known_names(package), package.exposures.get(rule.source, ())
    for name in find_dollar_names(rule.judgement or ""):
        if name not in known:
            message = f"the condition names {name}, which is neither a variable nor an input; define and expose it"
            yield "undefined_variable", message
        elif name not in exposed:
            message = f"the condition names {name}, which {rule.source} cannot see, so that it is sent as it is written"
            yield "not_exposed", f"{message}; expose it to {rule.source} in context_variables"


def _find_vanishing_names(package: Package, rule: Rule, *, production: bool) -> Iterator[tuple[str, str]]:
    for name in sorted(find_mentioned_names(rule.judgement or "", environment_names(package))):
        message = f"{name} is an environment variable: {describe_production(production=production)}"
        yield "vanishes_in_production", f"{message} no model is offered this rule; judge by state instead"
