"""Computed variables: JMESPath over other variables, evaluated on every change."""

import copy
import json
import logging
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import jmespath

from workflows.context.context_variables import ContextVariables
from workflows.context.run_facts import FIXED_NAMES
from workflows.context.values.size_limits import to_json_text
from workflows.package.normal_form.package_model import Package
from workflows.package.normal_form.variable_sources import ComputedSource

log = logging.getLogger(__name__)


def recompute_variables(package: Package, context: ContextVariables, suppressed: Collection[str] = ()) -> None:
    """Sets every computed variable; never raises.

    One that cannot be evaluated gets its default, and a log line."""
    waiting = {
        name: variable.source
        for name, variable in package.variables.items()
        if isinstance(variable.source, ComputedSource) and variable.source.computation and name not in FIXED_NAMES
    }
    while waiting:
        # These have all inputs. None left means that the others compute each other in a cycle.
        ready = [name for name, source in waiting.items() if waiting.keys().isdisjoint(source.inputs.values())]
        for name in ready or list(waiting):
            source = waiting.pop(name)
            value = _compute_value(name, source, context, suppressed) if ready else None
            context.set(name, copy.deepcopy(package.variables[name].default) if value is None else value)
            if not ready:
                _log_missing(logging.WARNING, name, context, "computed in a circle")


def _compute_value(name: str, source: ComputedSource, context: Mapping[str, Any], suppressed: Collection[str]) -> Any:
    inputs = {
        alias: None if variable in suppressed else context.get(variable) for alias, variable in source.inputs.items()
    }
    try:
        result = _compile_expression(source.computation or "").search(inputs)
        # A plain copy: an expression may select the live object of another variable.
        return json.loads(to_json_text(result))
    except Exception as error:  # noqa: BLE001 -- a context may hold any object of a tool, and reading it may raise anything
        # An input may only arrive in a later turn; then this is expected.
        level = logging.DEBUG if any(value is None for value in inputs.values()) else logging.WARNING
        _log_missing(level, name, context, type(error).__name__)
        return None


def _log_missing(level: int, name: str, context: Mapping[str, Any], reason: str) -> None:
    log.log(
        level, "computed_value_missing", extra={"run_id": context.get("run_id"), "variable": name, "reason": reason}
    )


@lru_cache(maxsize=512)
def _compile_expression(expression: str) -> Any:
    return jmespath.compile(expression)
