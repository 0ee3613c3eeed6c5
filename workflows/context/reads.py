"""Reads: values from the database and from other services, all at once, each with a deadline and one for all."""

import asyncio
import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pymongo.errors import PyMongoError

from accounting.store_errors import is_unavailable
from workflows.context.bounds import TooLargeError, to_plain_json
from workflows.context.documents import DocumentRead, ReadDocument, ReadRefusedError
from workflows.context.external.urls import displayed_host
from workflows.context.missing import MissingValue, NoValueError
from workflows.context.queries import QueryError, fill_query
from workflows.context.value_types import is_of_type, type_name_of
from workflows.package.models import Variable
from workflows.package.sources import DatabaseSource, EntitySource, ExternalSource

READ_TIMEOUT_S = 10.0
ALL_READS_TIMEOUT_S = 15.0

ReadSource = DatabaseSource | EntitySource | ExternalSource


class ReadExternal(Protocol):
    async def __call__(self, source: ExternalSource, *, app_id: str, facts: Mapping[str, Any]) -> Any:
        """The value as plain JSON, for this caller alone; or NoValueError."""


@dataclass(frozen=True, slots=True)
class ContextReaders:
    """Whose values are read, what may stand in queries and addresses, and who answers."""

    app_id: str
    facts: Mapping[str, Any] = field(repr=False)
    document: ReadDocument = field(repr=False)
    external: ReadExternal = field(repr=False)


async def read_values(variables: Iterable[Variable], readers: ContextReaders) -> tuple[dict[str, Any], list[MissingValue]]:
    """Values that are missing have their default, for the case that the run goes on without them."""
    wanted = [(each, each.source) for each in variables if isinstance(each.source, ReadSource)]
    tasks = [asyncio.create_task(_read_variable(variable, source, readers)) for variable, source in wanted]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=ALL_READS_TIMEOUT_S)
    finally:
        for task in tasks:
            task.cancel()  # those that are done do not mind
    results = await asyncio.gather(*tasks, return_exceptions=True)
    values: dict[str, Any] = {}
    missing = []
    for (variable, source), result in zip(wanted, results, strict=True):
        error = _as_no_value_error(result)
        if error is not None:
            missing.append(_missing_value(variable, source, error))
        values[variable.name] = _default_value(variable) if error is not None or result is None else result
    return values, missing


def _as_no_value_error(result: Any) -> NoValueError | None:
    if isinstance(result, asyncio.CancelledError):
        return NoValueError(f"no answer within the {ALL_READS_TIMEOUT_S:g} s of all reads", is_transient=True)
    if isinstance(result, BaseException) and not isinstance(result, NoValueError):
        raise result
    return result if isinstance(result, NoValueError) else None


def _missing_value(variable: Variable, source: ReadSource, error: NoValueError) -> MissingValue:
    # A document that may be there is not guessed at; what a service would say is only ever a hint.
    needed = variable.required or (error.is_transient and not isinstance(source, ExternalSource))
    return MissingValue(variable.name, _describe_source(source), str(error), is_needed=needed, is_transient=error.is_transient)


def _describe_source(source: ReadSource) -> str:
    if isinstance(source, ExternalSource):
        return displayed_host(source.url)
    return f"{source.database}.{source.collection}"


def _default_value(variable: Variable) -> Any:
    if variable.default is None and isinstance(variable.source, EntitySource):
        return {}  # a document that is yet to be written
    return copy.deepcopy(variable.default)


async def _read_variable(variable: Variable, source: ReadSource, readers: ContextReaders) -> Any:
    # A call has its own deadline, which runs that share the call share too.
    deadline_s = None if isinstance(source, ExternalSource) else READ_TIMEOUT_S
    try:
        async with asyncio.timeout(deadline_s):
            value = await _read_source(source, readers)
    except TimeoutError:
        raise NoValueError(f"no answer within {READ_TIMEOUT_S:g} s", is_transient=True) from None
    except PyMongoError as error:
        # Not its text: it may hold addresses and what was asked.
        raise NoValueError(f"the database: {type(error).__name__}", is_transient=is_unavailable(error)) from None
    except (QueryError, ReadRefusedError, TooLargeError) as error:
        raise NoValueError(str(error)) from None
    if value is None and variable.required:
        raise NoValueError("no document matches")
    if isinstance(source, ExternalSource) and not is_of_type(value, variable.type):
        raise NoValueError(f"it answered with {type_name_of(value)}, where {variable.type} is declared")
    return value


async def _read_source(source: ReadSource, readers: ContextReaders) -> Any:
    """One field of a database source gives its value, several give a mapping; an entity is always a mapping."""
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
