"""Reads from the database and other services: concurrent, each with a timeout.

One more timeout bounds all of them.
"""

import asyncio
import copy
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pymongo.errors import PyMongoError

from accounting.infra.store_errors import is_unavailable
from workflows.context.documents.document_access import DocumentRead, ReadDocument, ReadRefusedError
from workflows.context.documents.query_templates import QueryError, fill_query
from workflows.context.external.external_urls import displayed_host
from workflows.context.reads.missing_values import MissingValue, NoValueError
from workflows.context.run_facts import FIXED_NAMES
from workflows.context.values.size_limits import TooLargeError, to_plain_json
from workflows.context.values.value_types import is_of_type, type_name_of
from workflows.package.normal_form.package_model import Package, Variable
from workflows.package.normal_form.variable_sources import ComputedSource, DatabaseSource, EntitySource, ExternalSource

READ_TIMEOUT_S = 10.0
ALL_READS_TIMEOUT_S = 15.0

ReadSource = DatabaseSource | EntitySource | ExternalSource

log = logging.getLogger(__name__)


class ReadExternal(Protocol):
    async def __call__(self, source: ExternalSource, *, app_id: str, facts: Mapping[str, Any]) -> Any:
        """Returns the value as plain JSON, this caller's own copy. Raises NoValueError."""


@dataclass(frozen=True, slots=True)
class ReadTimeouts:
    """How long one read may take, and all reads of a run together."""

    read_s: float = READ_TIMEOUT_S
    all_reads_s: float = ALL_READS_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class ContextReaders:
    """The app, the facts for queries and addresses, and the readers."""

    app_id: str
    facts: Mapping[str, Any] = field(repr=False)
    document: ReadDocument = field(repr=False)
    external: ReadExternal = field(repr=False)
    timeouts: ReadTimeouts = field(default_factory=ReadTimeouts)


async def read_values(
    variables: Iterable[Variable], readers: ContextReaders
) -> tuple[dict[str, Any], list[MissingValue]]:
    """Reads values.

    A missing value has its default, in case the run continues without it."""
    to_read = [(variable, variable.source) for variable in variables if isinstance(variable.source, ReadSource)]
    tasks = [asyncio.create_task(_read_variable(variable, source, readers)) for variable, source in to_read]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=readers.timeouts.all_reads_s)
    finally:
        for task in tasks:
            task.cancel()  # no effect on finished ones
    results = await asyncio.gather(*tasks, return_exceptions=True)
    values: dict[str, Any] = {}
    missing = []
    for (variable, source), result in zip(to_read, results, strict=True):
        error = _as_no_value_error(result, readers.timeouts)
        if error is not None:
            missing.append(_missing_value(variable, source, error))
        values[variable.name] = _default_value(variable) if error is not None or result is None else result
    return values, missing


def _as_no_value_error(result: Any, timeouts: ReadTimeouts) -> NoValueError | None:
    if isinstance(result, asyncio.CancelledError):
        return NoValueError(f"no answer within the {timeouts.all_reads_s:g} s of all reads", is_transient=True)
    if isinstance(result, BaseException) and not isinstance(result, NoValueError):
        raise result
    return result if isinstance(result, NoValueError) else None


def _missing_value(variable: Variable, source: ReadSource, error: NoValueError) -> MissingValue:
    # A document may exist, so its value is never guessed; a service's value is only a hint.
    needed = variable.required or (error.is_transient and not isinstance(source, ExternalSource))
    return MissingValue(
        variable.name, _describe_source(source), str(error), is_needed=needed, is_transient=error.is_transient
    )


def _describe_source(source: ReadSource) -> str:
    if isinstance(source, ExternalSource):
        return displayed_host(source.url)
    return f"{source.database}.{source.collection}"


def _default_value(variable: Variable) -> Any:
    if variable.default is None and isinstance(variable.source, EntitySource):
        return {}  # a document that is not written yet
    return copy.deepcopy(variable.default)


async def _read_variable(variable: Variable, source: ReadSource, readers: ContextReaders) -> Any:
    # A call has a deadline of its own, and runs that share the call share the deadline.
    deadline_s = None if isinstance(source, ExternalSource) else readers.timeouts.read_s
    try:
        async with asyncio.timeout(deadline_s):
            value = await _read_source(source, readers)
    except TimeoutError:
        raise NoValueError(f"no answer within {readers.timeouts.read_s:g} s", is_transient=True) from None
    except PyMongoError as error:
        # Without its text, which may hold addresses and the query.
        raise NoValueError(f"the database: {type(error).__name__}", is_transient=is_unavailable(error)) from None
    except (QueryError, ReadRefusedError, TooLargeError) as error:
        raise NoValueError(str(error)) from None
    if value is None and variable.required:
        raise NoValueError("no document matches")
    if isinstance(source, ExternalSource) and not is_of_type(value, variable.type):
        raise NoValueError(f"it answered with {type_name_of(value)}, where {variable.type} is declared")
    return value


async def _read_source(source: ReadSource, readers: ContextReaders) -> Any:
    """Reads one source.

    One field of a database source gives its value, several give a mapping. An entity is always a mapping."""
    match source:
        case ExternalSource():
            return await readers.external(source, app_id=readers.app_id, facts=readers.facts)
        case EntitySource(search_by=name):
            own_value = {name: "{{value}}"}
            query = (
                fill_query(own_value, {"value": _entity_key(name, readers.facts)})
                if source.query is None
                else fill_query(source.query, readers.facts)
            )
        case DatabaseSource():
            query = fill_query(source.query, readers.facts)
    read = DocumentRead(readers.app_id, source.database, source.collection, query, source.fields)
    document = await readers.document(read)
    if document is None:
        return None
    if isinstance(source, EntitySource):
        return to_plain_json({name: document[name] for name in source.fields if name in document})
    if len(source.fields) == 1:
        return to_plain_json(document.get(source.fields[0]))
    return to_plain_json({name: document.get(name) for name in source.fields})


def _entity_key(name: str, facts: Mapping[str, Any]) -> str | int | float | bool:
    value = facts.get(name)
    if value is None:
        raise NoValueError(f"{name} has no value in this run")
    if not isinstance(value, str | int | float | bool):
        raise NoValueError(f"{name} is not a scalar, and only scalars may enter a query")
    return value


def refreshed_variables(package: Package) -> dict[str, tuple[Variable, ...]]:
    """Returns the variables to read again, by agent that sees them or their results."""
    refreshed = {name: variable for name, variable in package.variables.items() if _is_refreshed(variable)}
    if not refreshed:
        return {}
    names_by_agent = {agent: _source_names(package, names) for agent, names in package.exposures.items()}
    found = {
        agent: tuple(variable for name, variable in refreshed.items() if name in names)
        for agent, names in names_by_agent.items()
    }
    return {agent: variables for agent, variables in found.items() if variables}


def _is_refreshed(variable: Variable) -> bool:
    source = variable.source
    return isinstance(source, DatabaseSource) and source.is_refreshed and variable.name not in FIXED_NAMES


def _source_names(package: Package, names: Collection[str]) -> set[str]:
    """Returns these variables and all that they are computed from."""
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
    """Reads values again and returns those that could be read.

    A value that could not be read stays unchanged."""
    values, missing = await read_values(variables, readers)
    for missing_value in missing:
        extra = {
            "run_id": run_id,
            "variable": missing_value.name,
            "source": missing_value.source,
            "reason": missing_value.reason,
        }
        log.warning("context_value_not_refreshed", extra=extra)
    failed = {missing_value.name for missing_value in missing}
    return {name: value for name, value in values.items() if name not in failed}
