"""Checks before anything is spent: whether each document that a run may have to write can be written at all."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pymongo.errors import PyMongoError

from accounting.infra.store_errors import is_unavailable
from workflows.context.documents.document_access import CheckWritable, DocumentTarget, WriteRefusedError
from workflows.context.documents.document_writes import write_targets
from workflows.context.reads.missing_values import ContextError, ContextUnavailableError
from workflows.context.reads.source_reads import READ_TIMEOUT_S
from workflows.package.normal_form.package_model import Variable


async def allow_every_write(_target: DocumentTarget) -> None:
    """Where nothing is written, nothing is refused."""


async def check_writes(variables: Iterable[Variable], facts: Mapping[str, Any], check: CheckWritable) -> None:
    """ContextError names every document that cannot be written; ContextUnavailableError when that is not known, and
    WriteTooSlowError when a write would not find its document in time."""
    try:
        places = _distinct_targets(write_targets(variables, facts))
    except WriteRefusedError as error:
        raise ContextError(str(error)) from None
    if not places:
        return
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            results = await asyncio.gather(*map(check, places), return_exceptions=True)
    except TimeoutError:
        raise _unavailable_error(places, f"no answer within {READ_TIMEOUT_S:g} s") from None
    refused = [str(each) for each in results if isinstance(each, WriteRefusedError)]
    if refused:
        raise ContextError("; ".join(refused))
    for each in filter(None, results):
        if isinstance(each, PyMongoError) and is_unavailable(each):
            raise _unavailable_error(places, f"the database: {type(each).__name__}")
        raise each


def _distinct_targets(targets: Iterable[DocumentTarget]) -> Collection[DocumentTarget]:
    """Several variables may be written to one document: it is looked for once."""
    found: dict[tuple[Any, ...], DocumentTarget] = {}
    for place in targets:
        found.setdefault((place.database, place.collection, place.key, place.key_value), place)
    return found.values()


def _unavailable_error(targets: Iterable[DocumentTarget], reason: str) -> ContextUnavailableError:
    names = ", ".join(each.variable for each in targets)
    return ContextUnavailableError(f"whether {names} can be written back is not known: {reason}")
