"""Loading the context of a run: base facts, inputs, environment, constants, database, state.

What a run may not see is never fetched: in production the caller passes no environment at all, and the
names of the variables that would have come from it are remembered, so that conditions on them are false.
"""

import asyncio
import copy
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workflows.context.coercion import coerce_text
from workflows.context.context_variables import ContextVariables
from workflows.context.queries import QueryError, fill_query
from workflows.package.models import Package, Variable

log = logging.getLogger(__name__)

READ_DEADLINE_S = 10.0
MAX_VALUE_BYTES = 256 * 1024
BASE_FLAGS: Mapping[str, tuple[str, bool]] = {
    "context_aware": ("CONTEXT_AWARE", True),
    "monetization_enabled": ("MONETIZATION_ENABLED", False),
}

# (database, collection, query, fields) -> the newest matching document, or None
ReadDocument = Callable[[str, str, Mapping[str, Any], tuple[str, ...]], Awaitable[Mapping[str, Any] | None]]


class ContextUnavailableError(Exception):
    """A source did not answer in time. Another attempt may find it well; going on without would be a guess."""


class ReadRefusedError(Exception):
    """The database refused this read, and would refuse it again; the text says why."""


class ContextError(Exception):
    """A required value is missing: the run fails before any model call. The text names variable and source."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    run_id: str
    app_id: str
    user_id: str | None
    chat_id: str
    workflow: str
    trigger: Mapping[str, Any]

    def base_values(self) -> dict[str, Any]:
        return {
            "app_id": self.app_id,
            "enterprise_id": self.app_id,
            "user_id": self.user_id,
            "chat_id": self.chat_id,
            "workflow_name": self.workflow,
            "run_id": self.run_id,
            "trigger": dict(self.trigger),
        }


@dataclass(frozen=True, slots=True)
class ContextSources:
    """Where values come from. `environment` is empty in production."""

    environment: Mapping[str, str]
    production: bool
    include_schema: bool
    read_document: ReadDocument = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunContext:
    variables: ContextVariables
    suppressed: frozenset[str]


async def load_context(
    package: Package, facts: RunFacts, payload: Mapping[str, Any], sources: ContextSources
) -> RunContext:
    base = facts.base_values()
    inputs = _inputs(package, payload)
    suppressed = suppressed_names(package, production=sources.production)
    if suppressed:
        log.info("environment_variables_suppressed", extra={"run_id": facts.run_id, "names": sorted(suppressed)})
    values: dict[str, Any] = {} if sources.production else _base_flags(sources.environment)
    values |= inputs
    for variable in package.variables.values():
        if variable.name not in suppressed and variable.name not in base and variable.kind != "db":
            values[variable.name] = _plain_value(variable, payload, sources.environment)
    if sources.include_schema:
        values |= await _database_values(package, {**inputs, **base}, sources.read_document, run_id=facts.run_id)
    # Last: whose run this is comes from the run, whatever a payload or a package calls by the same name.
    return RunContext(purged({**values, **base}, suppressed, run_id=facts.run_id), suppressed)


def suppressed_names(package: Package, *, production: bool) -> frozenset[str]:
    if not production:
        return frozenset()
    return frozenset(BASE_FLAGS) | {each.name for each in package.variables.values() if each.kind == "env"}


def purged(values: Mapping[str, Any], suppressed: frozenset[str], *, run_id: str) -> ContextVariables:
    """The second gate of production: whatever put an environment variable here, it does not reach the chat."""
    leaked = sorted(suppressed & set(values))
    if leaked:
        log.warning("environment_variables_purged", extra={"run_id": run_id, "names": leaked})
    return ContextVariables({name: value for name, value in values.items() if name not in suppressed})


def _base_flags(environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: default if environment.get(variable) is None else coerce_text(environment[variable], "boolean")
        for name, (variable, default) in BASE_FLAGS.items()
    }


def _inputs(package: Package, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Declared inputs only: an undeclared field of a payload reaches neither a prompt nor a query."""
    values = {}
    for name, spec in package.orchestrator.inputs.items():
        value = _supplied(payload, name, spec.get("default"))
        if value is None and spec.get("required"):
            raise ContextError(f"the input {name} is required and the trigger did not supply it")
        values[name] = value
    return values


def _supplied(payload: Mapping[str, Any], name: str, default: Any) -> Any:
    """null is what a mapping gives for a field that an event lacks. A default is copied: tools change values in
    place, and the package's own is shared by all runs of all apps."""
    value = payload.get(name)
    return copy.deepcopy(default) if value is None else value


def _plain_value(variable: Variable, payload: Mapping[str, Any], environment: Mapping[str, str]) -> Any:
    if variable.kind == "env":
        return _environment_value(variable, environment)
    if variable.kind == "runtime":
        value = _supplied(payload, variable.name, variable.default)
        if value is None and variable.required:
            raise ContextError(f"the runtime variable {variable.name} is required and the trigger did not supply it")
        return value
    return copy.deepcopy(variable.default)


def _environment_value(variable: Variable, environment: Mapping[str, str]) -> Any:
    text = environment.get(variable.env_var or "")
    if text is None:
        if variable.required and variable.default is None:
            raise ContextError(f"{variable.name} is required and {variable.env_var} is not set")
        return copy.deepcopy(variable.default)
    try:
        return coerce_text(text, variable.type)
    except ValueError:
        raise ContextError(f"{variable.env_var} (for {variable.name}) is not of type {variable.type}") from None


async def _database_values(
    package: Package, facts: Mapping[str, Any], read: ReadDocument, *, run_id: str
) -> dict[str, Any]:
    wanted = [each for each in package.variables.values() if each.kind == "db"]
    values = await asyncio.gather(*(_database_value(each, facts, read, run_id=run_id) for each in wanted))
    return {variable.name: value for variable, value in zip(wanted, values, strict=True)}


async def _database_value(variable: Variable, facts: Mapping[str, Any], read: ReadDocument, *, run_id: str) -> Any:
    """One field gives its value, several give a mapping."""
    source = f"{variable.name} from {variable.database}.{variable.collection}"
    try:
        query = fill_query(variable.query, facts)
        async with asyncio.timeout(READ_DEADLINE_S):
            document = await read(variable.database or "", variable.collection or "", query, variable.fields)
        text = json.dumps(_projected(variable, document), default=str)
        if len(text) > MAX_VALUE_BYTES:
            raise QueryError(f"the value is larger than {MAX_VALUE_BYTES // 1024} KB; name narrower fields")
        # Plain JSON from the first turn on, as it is after a checkpoint: dates and ids as text.
        value = json.loads(text)
    except TimeoutError:
        raise ContextUnavailableError(f"{source}: no answer within {READ_DEADLINE_S:.0f} s") from None
    except (QueryError, ReadRefusedError) as error:
        if variable.required:
            raise ContextError(f"{source}: {error}") from None
        log.warning("context_value_missing", extra={"run_id": run_id, "source": source, "reason": str(error)})
        return copy.deepcopy(variable.default)
    if value is None and variable.required:
        raise ContextError(f"{source}: no document matches")
    return copy.deepcopy(variable.default) if value is None else value


def _projected(variable: Variable, document: Mapping[str, Any] | None) -> Any:
    if document is None:
        return None
    if len(variable.fields) == 1:
        return document.get(variable.fields[0])
    return {name: document.get(name) for name in variable.fields}
