"""Constant variables: nothing sets them, so they keep their default in every run."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from workflows.package.checks.file_places import (
    hooks_file,
    orchestrator_file,
    tools_file,
    variable_place,
    variables_file,
)
from workflows.package.checks.known_names import BASE_NAMES
from workflows.package.checks.message_parts import display
from workflows.package.checks.routing.condition_checks import referenced_variables
from workflows.package.files.package_files import SUFFIXES
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import Package, Variable
from workflows.package.normal_form.variable_sources import ComputedSource, StateSource, StaticSource
from workflows.package.readers.code.parsed_code import read_code


def check_unset_variables(
    package: Package, findings: Findings, *, reported_names: AbstractSet[str] = frozenset()
) -> None:
    """Reports unset variables that a condition names.

    Others may be notes for readers of the context. `reported_names` have a finding already.
    """
    unset = find_unset_variables(package, findings) - reported_names
    named = {name for rule in package.rules for name in referenced_variables(rule)} if unset else set()
    for name in (name for name in package.variables if name in unset & named):
        default = display(package.variables[name].default)
        message = (
            f"a condition depends on {name}, but nothing sets it, so it keeps its default {default};"
            " add a transition, a computation or a tool that sets it"
        )
        findings.add("warning", "orphan_state", variables_file(package), variable_place(package, name), message)


def can_code_set_variables(package: Package, findings: Findings) -> bool:
    """Returns whether code may write any variable. Refused files may have such code.

    A tool that never receives the context writes none.
    """
    if package.lifecycle_tools or package.hooks or has_task_batches(package):
        return True
    if any(tool.function not in read_code(tool.file).plain_functions for tool in package.tools):
        return True
    return findings.has_errors_in(tools_file(package), hooks_file(package))


def has_task_batches(package: Package) -> bool:
    folder = package.folder / "extended_orchestration"
    return any((folder / f"task_batches{suffix}").exists() for suffix in SUFFIXES)


def find_unset_variables(package: Package, findings: Findings) -> frozenset[str]:
    unknown = findings.has_errors_in(variables_file(package), orchestrator_file(package))
    if unknown or can_code_set_variables(package, findings):
        return frozenset()
    supplied = BASE_NAMES | set(package.orchestrator.inputs)
    return frozenset(
        name for name, variable in package.variables.items() if name not in supplied and _is_never_written(variable)
    )


def constant_values(package: Package, findings: Findings) -> Mapping[str, Any]:
    """Returns the values of variables that never change.

    Code may change even static ones.
    """
    names = find_unset_variables(package, findings)
    if not can_code_set_variables(package, findings):
        statics = (name for name, variable in package.variables.items() if isinstance(variable.source, StaticSource))
        names |= frozenset(statics) - BASE_NAMES - set(package.orchestrator.inputs)
    return {name: package.variables[name].default for name in names}


def _is_never_written(variable: Variable) -> bool:
    match variable.source:
        case StateSource(transitions=transitions, persist_key=key):
            return not transitions and key is None  # an earlier version of the package may have left a value
        case ComputedSource(computation=computation):
            return computation is None
        case _:
            return False
