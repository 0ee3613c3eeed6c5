"""Computed variables: JMESPath expressions over other variables, evaluated anew whenever those may have changed."""

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
    """Sets every variable that has a computation. What cannot be evaluated is its default, and said; nothing raises."""
    waiting = {
        name: variable.source
        for name, variable in package.variables.items()
        if isinstance(variable.source, ComputedSource) and variable.source.computation and name not in FIXED_NAMES
    }
    while waiting:
        # Those whose inputs are all done. None left: they compute each other in a circle.
        ready = [name for name, source in waiting.items() if waiting.keys().isdisjoint(source.inputs.values())]
        for name in ready or list(waiting):
            source = waiting.pop(name)
            value = _compute_value(name, source, context, suppressed) if ready else None
            context.set(name, copy.deepcopy(package.variables[name].default) if value is None else value)
            if not ready:
                _log_missing(logging.WARNING, name, context, "computed in a circle")


def _compute_value(name: str, source: ComputedSource, context: Mapping[str, Any], suppressed: Collection[str]) -> Any:
    given = {
        alias: None if variable in suppressed else context.get(variable) for alias, variable in source.inputs.items()
    }
    try:
        result = _compile_expression(source.computation or "").search(given)
        # Plain JSON of its own: what an expression selects is otherwise the live object of another variable.
        return json.loads(to_json_text(result))
    except Exception as error:  # noqa: BLE001 -- a tool may put any object into a context, and any may refuse to be read
        # What it is computed from may only come in a later turn: then this is no news.
        level = logging.DEBUG if any(value is None for value in given.values()) else logging.WARNING
        _log_missing(level, name, context, type(error).__name__)
        return None


def _log_missing(level: int, name: str, context: Mapping[str, Any], reason: str) -> None:
    log.log(
        level, "computed_value_missing", extra={"run_id": context.get("run_id"), "variable": name, "reason": reason}
    )


@lru_cache(maxsize=512)
def _compile_expression(expression: str) -> Any:
    return jmespath.compile(expression)
