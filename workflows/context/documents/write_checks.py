"""Write checks before anything is spent: whether each document can be written."""

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
    """Allows every write, where nothing is written."""


async def check_writes(variables: Iterable[Variable], facts: Mapping[str, Any], check: CheckWritable) -> None:
    """Raises ContextError with every document that cannot be written.

    Raises ContextUnavailableError when that is unknown, and WriteTooSlowError when a write would not find its document
    in time."""
    try:
        targets = _distinct_targets(write_targets(variables, facts))
    except WriteRefusedError as error:
        raise ContextError(str(error)) from None
    if not targets:
        return
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            results = await asyncio.gather(*map(check, targets), return_exceptions=True)
    except TimeoutError:
        raise _unavailable_error(targets, f"no answer within {READ_TIMEOUT_S:g} s") from None
    refused = [str(result) for result in results if isinstance(result, WriteRefusedError)]
    if refused:
        raise ContextError("; ".join(refused))
    for result in filter(None, results):
        if isinstance(result, PyMongoError) and is_unavailable(result):
            raise _unavailable_error(targets, f"the database: {type(result).__name__}")
        raise result


def _distinct_targets(targets: Iterable[DocumentTarget]) -> Collection[DocumentTarget]:
    """Removes duplicates: several variables may be written to one document."""
    found: dict[tuple[Any, ...], DocumentTarget] = {}
    for target in targets:
        found.setdefault((target.database, target.collection, target.key, target.key_value), target)
    return found.values()


def _unavailable_error(targets: Iterable[DocumentTarget], reason: str) -> ContextUnavailableError:
    names = ", ".join(target.variable for target in targets)
    return ContextUnavailableError(f"cannot check whether {names} can be written back: {reason}")
