"""Presets: variables with a given value, which are not read, and variables without a source here."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workers.local_run.local_request import WrongUseError
from workers.settings import Settings
from workers.store.storable import NotStorableError, check_storable
from workflows.context.context_loader import SCHEMA_KINDS
from workflows.context.documents.document_access import DocumentRead, ReadRefusedError
from workflows.context.run_facts import FIXED_NAMES
from workflows.context.values.type_coercion import MisfitError, coerce
from workflows.package.normal_form.package_model import Package, Variable
from workflows.package.normal_form.variable_sources import EntitySource, StateSource


async def no_database(read: DocumentRead) -> None:
    del read
    raise ReadRefusedError("no database is read here; give the value with --context (in a test: context=)")


def with_presets(package: Package, preset_values: Mapping[str, Any], settings: Settings) -> tuple[Package, list[str]]:
    """Returns the package with presets, and notes about them."""
    presets = {name: _coerce_preset(package, name, value) for name, value in preset_values.items()}
    notes = []
    hidden = sorted(name for name in presets if settings.production and package.variables[name].kind == "env")
    if hidden:
        # Production removes environment variables, and a preset must not bring them back.
        notes.append(f"environment variables are absent in production, also when they are preset: {', '.join(hidden)}")
    unread = {
        name: variable.default
        for name, variable in package.variables.items()
        if _is_left_to_its_default(variable, presets)
    }
    if unread and settings.include_schema:
        names = ", ".join(sorted(unread))
        notes.append(f"no database is read here: {names} begin at their defaults; --context gives other values")
    values = {name: value for name, value in presets.items() if name not in hidden}
    if settings.include_schema:  # otherwise the context has no database variables, as in a worker
        values = {**unread, **values}
    variables = {
        **package.variables,
        **{name: _preset_variable(package.variables[name], value) for name, value in values.items()},
    }
    return replace(package, variables=variables), notes


def _is_left_to_its_default(variable: Variable, presets: Mapping[str, Any]) -> bool:
    """Returns whether the variable gets its default.

    A required variable without a default is left to the loader, which reports all missing ones together.
    """
    needed = variable.required and variable.default is None
    return variable.kind in SCHEMA_KINDS and variable.name not in presets and not needed


def _preset_variable(variable: Variable, value: Any) -> Variable:
    if value is None and isinstance(variable.source, EntitySource):
        value = {}  # a document that does not exist yet
    return replace(variable, source=StateSource(), default=value, required=False)


def _coerce_preset(package: Package, name: str, value: Any) -> Any:
    variable = package.variables.get(name)
    if name in FIXED_NAMES or variable is None:
        where = "the run itself says what it is" if name in FIXED_NAMES else _where_to_give(package, name)
        raise WrongUseError(f"context: {name} cannot be preset: {where}")
    try:
        fitting = coerce(value, variable.type)
        check_storable(fitting, path=f"context: {name}")
    except MisfitError:
        raise WrongUseError(f"context: {name} must be of type {variable.type}") from None
    except NotStorableError as error:
        raise WrongUseError(str(error)) from None
    return fitting


def _where_to_give(package: Package, name: str) -> str:
    if name in package.orchestrator.inputs:
        return "it is an input; give it there"
    return f"the package has no such variable; it has {', '.join(sorted(package.variables)) or 'none'}"
