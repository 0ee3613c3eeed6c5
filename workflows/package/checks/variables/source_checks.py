"""Checks of sources: unreadable values, cycles, and queries without an app."""

from collections.abc import Set as AbstractSet
from typing import Any

from workflows.context.documents.query_templates import TENANT_NAMES, find_placeholders
from workflows.package.checks.file_places import variable_place, variables_file
from workflows.package.checks.graph import find_cycles
from workflows.package.checks.known_names import KEY_FACTS, known_names
from workflows.package.checks.message_parts import join_names
from workflows.package.findings import Findings, Level
from workflows.package.normal_form.package_model import Package, Variable
from workflows.package.normal_form.variable_sources import ComputedSource, DatabaseSource, EntitySource, ExternalSource
from workflows.package.readers.variables.computed_source import FUNCTION_HINT


def check_sources(package: Package, findings: Findings, *, production: bool) -> None:
    runtime = {name for name, variable in package.variables.items() if variable.kind == "runtime"}
    supplied = KEY_FACTS | set(package.orchestrator.inputs) | runtime
    for variable in package.variables.values():
        _check_tenant(package, variable, findings)
        _check_placeholders(package, variable, supplied, findings)
        _check_search_key(package, variable, supplied, findings)
        _check_environment(package, variable, findings, production=production)
    _check_computed_variables(package, findings)


def _add_finding(findings: Findings, package: Package, name: str, level: Level, code: str, message: str) -> None:
    findings.add(level, code, variables_file(package), variable_place(package, name), message)


def _check_tenant(package: Package, variable: Variable, findings: Findings) -> None:
    source = variable.source
    if isinstance(source, DatabaseSource) and not find_placeholders(source.query) & TENANT_NAMES:
        message = (
            "the query does not name an app; add app_id: '{{runtime.app_id}}':"
            " documents without an app id are read by every app"
        )
        _add_finding(findings, package, variable.name, "warning", "no_tenant_key", message)


def _check_placeholders(
    package: Package, variable: Variable, supplied_names: AbstractSet[str], findings: Findings
) -> None:
    for name in sorted(_source_placeholders(variable) - supplied_names):
        level: Level = "error" if variable.required else "warning"
        message = (
            f"{name} has no value, so {variable.name} cannot be read; use a fact of the run"
            f" ({join_names(KEY_FACTS)}) or declare {name} under `inputs` of the orchestrator"
        )
        _add_finding(findings, package, variable.name, level, "unknown_placeholder", message)


def _source_placeholders(variable: Variable) -> set[str]:
    template: Any = None
    if isinstance(variable.source, DatabaseSource | EntitySource):
        template = variable.source.query
    elif isinstance(variable.source, ExternalSource):
        template = [variable.source.url, variable.source.headers]
    return find_placeholders(template)


def _check_search_key(
    package: Package, variable: Variable, supplied_names: AbstractSet[str], findings: Findings
) -> None:
    """Reports a `search_by` that no run has a value for.

    `search_by` names both the field and the run's value.
    """
    for name in sorted(_search_keys(variable) - supplied_names):
        message = (
            f"search_by is {name}, but runs have no value of that name; use a fact of the run ({join_names(KEY_FACTS)})"
            f" or declare {name} under `inputs` of the orchestrator"
        )
        _add_finding(findings, package, variable.name, "warning", "unknown_placeholder", message)


def _search_keys(variable: Variable) -> set[str]:
    source = variable.source
    if isinstance(source, EntitySource):
        return {source.search_by} - {""} if source.query is None else set()
    if isinstance(source, ComputedSource) and source.persist_to is not None and source.persist_to.value is None:
        return {source.persist_to.search_by} - {""}
    return set()


def _check_environment(package: Package, variable: Variable, findings: Findings, *, production: bool) -> None:
    if variable.kind != "env" or not variable.required:
        return
    message = f"{variable.name} is required, but environment variables are absent in production"
    if production:
        message += "; make it optional, or supply it as an input"
        _add_finding(findings, package, variable.name, "error", "required_in_production", message)
    else:
        _add_finding(
            findings,
            package,
            variable.name,
            "info",
            "required_in_production",
            f"{message}; a run continues without it there",
        )


def _check_computed_variables(package: Package, findings: Findings) -> None:
    known = known_names(package)
    inputs: dict[str, AbstractSet[str]] = {}
    for name, variable in package.variables.items():
        if isinstance(variable.source, ComputedSource):
            used = dict.fromkeys(variable.source.inputs.values())
            if variable.source.computation is not None:
                inputs[name] = used.keys()
            for missing in (source for source in used if source not in known):
                message = f"is computed from {missing}, which is neither a variable nor an input; define it"
                if missing == variable.source.computation:
                    message += f"; {FUNCTION_HINT}"
                _add_finding(findings, package, name, "warning", "undefined_variable", message)
    for cycle in find_cycles({name: [source for source in used if source in inputs] for name, used in inputs.items()}):
        message = f"{join_names(cycle)} are computed from each other"
        if len(cycle) == 1:
            message = f"{cycle[0]} is computed from itself"
        _add_finding(findings, package, cycle[0], "error", "computed_cycle", f"{message}; remove one of the inputs")
