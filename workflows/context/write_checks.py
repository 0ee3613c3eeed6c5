"""Checks before anything is spent: whether each document that a run may have to write can be written at all."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pymongo.errors import PyMongoError

from accounting.store_errors import store_is_away
from workflows.context.documents import CheckWritable, DocumentPlace, WriteRefusedError
from workflows.context.missing import ContextError, ContextUnavailableError
from workflows.context.reads import READ_DEADLINE_S
from workflows.context.writes import write_places
from workflows.package.models import Variable


async def anywhere(_place: DocumentPlace) -> None:
    """Where nothing is written, nothing is refused."""


async def check_writes(variables: Iterable[Variable], facts: Mapping[str, Any], check: CheckWritable) -> None:
    """ContextError names every document that cannot be written; ContextUnavailableError when that is not known, and
    WriteTooSlowError when a write would not find its document in time."""
    try:
        places = _distinct(write_places(variables, facts))
    except WriteRefusedError as error:
        raise ContextError(str(error)) from None
    if not places:
        return
    try:
        async with asyncio.timeout(READ_DEADLINE_S):
            results = await asyncio.gather(*map(check, places), return_exceptions=True)
    except TimeoutError:
        raise _unavailable(places, f"no answer within {READ_DEADLINE_S:g} s") from None
    refused = [str(each) for each in results if isinstance(each, WriteRefusedError)]
    if refused:
        raise ContextError("; ".join(refused))
    for each in filter(None, results):
        if isinstance(each, PyMongoError) and store_is_away(each):
            raise _unavailable(places, f"the database: {type(each).__name__}")
        raise each


def _distinct(places: Iterable[DocumentPlace]) -> Collection[DocumentPlace]:
    """Several variables may be written to one document: it is looked for once."""
    found: dict[tuple[Any, ...], DocumentPlace] = {}
    for place in places:
        found.setdefault((place.database, place.collection, place.key, place.key_value), place)
    return found.values()


def _unavailable(places: Iterable[DocumentPlace], why: str) -> ContextUnavailableError:
    names = ", ".join(each.variable for each in places)
    return ContextUnavailableError(f"whether {names} can be written back is not known: {why}")
