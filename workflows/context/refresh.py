"""Refresh: variables of the database that are read again before each turn of an agent that sees them."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from workflows.context.facts import FIXED_NAMES
from workflows.context.reads import ContextReaders, read_values
from workflows.package.models import Package, Variable
from workflows.package.sources import ComputedSource, DatabaseSource

log = logging.getLogger(__name__)


def refreshed_variables(package: Package) -> dict[str, tuple[Variable, ...]]:
    """Returns the variables to read again, for each agent that sees them itself or computed."""
    again = {name: each for name, each in package.variables.items() if _is_refreshed(each)}
    if not again:
        return {}
    seen = {agent: _source_names(package, names) for agent, names in package.exposures.items()}
    found = {agent: tuple(each for name, each in again.items() if name in names) for agent, names in seen.items()}
    return {agent: variables for agent, variables in found.items() if variables}


def _is_refreshed(variable: Variable) -> bool:
    source = variable.source
    return isinstance(source, DatabaseSource) and source.is_refreshed and variable.name not in FIXED_NAMES


def _source_names(package: Package, names: Collection[str]) -> set[str]:
    """These variables, and all that they are computed from."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            variable = package.variables.get(name)
            if variable is not None and isinstance(variable.source, ComputedSource):
                waiting.extend(variable.source.inputs.values())
    return found


async def reread_values(readers: ContextReaders, variables: Collection[Variable], *, run_id: str) -> Mapping[str, Any]:
    """Returns the values that could be read. One that could not is left as it is."""
    values, missing = await read_values(variables, readers)
    for each in missing:
        extra = {"run_id": run_id, "variable": each.name, "source": each.source, "reason": each.reason}
        log.warning("context_value_not_refreshed", extra=extra)
    failed = {each.name for each in missing}
    return {name: value for name, value in values.items() if name not in failed}
