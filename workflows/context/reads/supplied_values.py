"""Supplied values: a run's input, the environment and defaults; no reads."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from workflows.context.reads.missing_values import MissingValue, NoValueError
from workflows.context.values.type_coercion import MisfitError, coerce, coerce_text
from workflows.context.values.value_types import is_one_of, parse_type_name
from workflows.package.normal_form.package_model import Package, Variable
from workflows.package.normal_form.variable_sources import (
    ComputedSource,
    EnvSource,
    FileSource,
    RuntimeSource,
    StateSource,
)

BASE_FLAGS: Mapping[str, tuple[str, bool]] = {
    "context_aware": ("CONTEXT_AWARE", True),
    "monetization_enabled": ("MONETIZATION_ENABLED", False),
}
READ_KINDS = frozenset({"db", "entity", "external"})


def base_flags(environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: default if environment.get(variable) is None else coerce_text(environment[variable], "boolean")
        for name, (variable, default) in BASE_FLAGS.items()
    }


def read_inputs(package: Package, payload: Mapping[str, Any]) -> tuple[dict[str, Any], list[MissingValue]]:
    """Reads declared inputs; an undeclared field reaches neither a prompt nor a query."""
    values: dict[str, Any] = {}
    missing = []
    for name, spec in package.orchestrator.inputs.items():
        try:
            values[name] = _read_input(payload.get(name), spec)
        except NoValueError as error:
            missing.append(MissingValue(name, "the run's input", str(error), is_needed=True))
    return values, missing


def _read_input(value: Any, spec: Mapping[str, Any]) -> Any:
    if value is None:  # also from a mapping, for a field that an event lacks
        if spec.get("default") is None and spec.get("required"):
            raise NoValueError("it is required and the trigger did not supply it")
        return copy.deepcopy(spec.get("default"))
    declared_type, choices = parse_type_name(spec.get("type")), spec.get("enum")
    try:
        value = value if declared_type is None else coerce(value, declared_type)
    except MisfitError:
        raise NoValueError(f"it must be of type {declared_type}") from None
    if isinstance(choices, list) and choices and not is_one_of(value, choices):
        raise NoValueError(f"it must be one of {', '.join(map(str, choices))}"[:200])
    return copy.deepcopy(value)


def query_facts(
    package: Package, payload: Mapping[str, Any], inputs: Mapping[str, Any], base: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the values for queries, addresses and keys.

    They are the declared inputs and variables as the starter supplied them, and the run's facts, which no input
    replaces."""
    runtime = [variable for variable in package.variables.values() if isinstance(variable.source, RuntimeSource)]
    supplied, _ = supplied_values(runtime, payload, inputs, {})
    return {**supplied, **inputs, **base}


def supplied_values(
    variables: Iterable[Variable],
    payload: Mapping[str, Any],
    inputs: Mapping[str, Any],
    environment: Mapping[str, str],
) -> tuple[dict[str, Any], list[MissingValue]]:
    values: dict[str, Any] = {}
    missing = []
    for variable in variables:
        if variable.kind in READ_KINDS:
            continue
        try:
            value = _supplied_value(variable, payload, inputs, environment)
        except NoValueError as error:
            # A value that is set and unusable is an error, required or not.
            missing.append(MissingValue(variable.name, _describe_source(variable), str(error), is_needed=True))
            continue
        # Copied: tools change values in place, and the package's own value is shared by all runs of all apps.
        values[variable.name] = copy.deepcopy(variable.default if value is None else value)
        if values[variable.name] is None and variable.required and variable.kind in ("env", "runtime", "file"):
            missing.append(
                MissingValue(variable.name, _describe_source(variable), _absence_reason(variable), is_needed=True)
            )
    return values, missing


def _supplied_value(
    variable: Variable, payload: Mapping[str, Any], inputs: Mapping[str, Any], environment: Mapping[str, str]
) -> Any:
    """Returns the supplied value; None stands for the default."""
    match variable.source:
        case EnvSource(env_var=name):
            return _environment_value(name, variable, environment)
        case RuntimeSource():
            supplied = payload.get(variable.name)
            return inputs.get(variable.name) if supplied is None else supplied
        case StateSource() | ComputedSource():
            return inputs.get(variable.name)  # also declared as an input: it begins with the supplied value
        case FileSource(content=content):
            return content
        case _:
            return None


def _environment_value(name: str, variable: Variable, environment: Mapping[str, str]) -> Any:
    text = environment.get(name)
    if text is None:
        return None
    try:
        return coerce_text(text, variable.type)
    except (ValueError, RecursionError):
        raise NoValueError(f"{name} is not of type {variable.type}") from None


def _describe_source(variable: Variable) -> str:
    match variable.source:
        case EnvSource():
            return "the environment"
        case RuntimeSource():
            return "the run's input"
        case FileSource(path=path):
            return f"the file {path}"
        case _:
            return f"the {variable.kind} source"


def _absence_reason(variable: Variable) -> str:
    match variable.source:
        case EnvSource(env_var=name):
            return f"it is required and {name} is not set"
        case RuntimeSource():
            return "it is required and the trigger did not supply it"
        case _:
            return "it is required and empty"
