"""Checks across files: names that are used but nowhere defined, queries that no tenant bounds."""

from workflows.context.conditions import ConditionError, compile_condition
from workflows.context.queries import TENANT_NAMES, placeholders
from workflows.package.findings import Findings
from workflows.package.models import Package

BASE_NAMES = frozenset(
    {
        "app_id",
        "enterprise_id",
        "user_id",
        "chat_id",
        "workflow_name",
        "run_id",
        "trigger",
        "context_aware",
        "monetization_enabled",
    }
)
VARIABLES_FILE = "context_variables"
ROUTING_FILE = "handoffs"


def check_variables(package: Package, findings: Findings) -> None:
    known = BASE_NAMES | set(package.variables) | set(package.orchestrator.inputs)
    _check_exposures(package, known, findings)
    _check_conditions(package, known, findings)
    _check_queries(package, findings)


def _check_exposures(package: Package, known: frozenset[str] | set[str], findings: Findings) -> None:
    for agent, names in package.exposed.items():
        path = f"agents.{agent}"
        if agent not in package.agents:
            findings.add("warning", "unknown_agent", VARIABLES_FILE, path, f"{agent} is not an agent of this package")
        for name in names:
            if name not in known:
                message = f"exposes {name}, which is neither a variable nor an input"
                findings.add("warning", "undefined_variable", VARIABLES_FILE, path, message)


def _check_conditions(package: Package, known: frozenset[str] | set[str], findings: Findings) -> None:
    for index, rule in enumerate(package.rules):
        path = f"handoff_rules[{index}].condition"
        for name in sorted(_names(rule.condition)):
            variable = package.variables.get(name)
            if name not in known:
                findings.add(
                    "warning", "undefined_variable", ROUTING_FILE, path, f"{name} is never set by this package"
                )
            elif variable is not None and variable.kind in ("db", "static"):
                message = f"{name} comes from the {variable.kind} source; route on state or environment"
                findings.add("warning", "routing_on_data", ROUTING_FILE, path, message)
            elif variable is not None and variable.kind == "env":
                message = f"{name} is an environment variable: in production this condition is false"
                findings.add("warning", "vanishes_in_production", ROUTING_FILE, path, message)


def _names(condition: str | None) -> frozenset[str]:
    if condition is None:
        return frozenset()
    try:
        return compile_condition(condition).names
    except ConditionError:  # reported where the rule was read
        return frozenset()


def _check_queries(package: Package, findings: Findings) -> None:
    for name, variable in package.variables.items():
        if variable.kind == "db" and not placeholders(variable.query) & TENANT_NAMES:
            message = "the query names no app; add app_id: '{{runtime.app_id}}', or one app reads another's documents"
            findings.add("warning", "no_tenant_key", VARIABLES_FILE, f"definitions.{name}.source", message)
