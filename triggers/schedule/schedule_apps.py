"""The apps of a schedule: listed ones, or those in a collection."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from bson import ObjectId
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError
from pymongo import ASCENDING
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ExecutionTimeout, InvalidName, OperationFailure

from accounting.infra.store_errors import is_unavailable
from triggers.occurrence import parse_app_id
from triggers.register.trigger import Trigger
from triggers.schedule.schedule_triggers import app_source
from workers.store.reserved_collections import refusal_reason
from workflows.context.documents.query_templates import find_server_code
from workflows.package.trigger_specs.schedule_spec import AppsOfCollection

APP_BATCH_SIZE = 500
MAX_REMEMBERED_APPS = 100_000  # to drop repeated names; beyond that the run's dedupe key does
READ_TIMEOUT_MS = 20_000

_LENIENT: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
ItemT = TypeVar("ItemT")


class AppsUnreadableError(Exception):
    """The collection, filter or field cannot be read; the text has the reason."""


@dataclass(frozen=True, slots=True)
class AppBatch:
    """`unusable` counts documents whose field is no app id."""

    apps: Sequence[str]
    unusable: int = 0


async def iter_app_batches(
    trigger: Trigger, database: AsyncDatabase[dict[str, Any]], *, size: int = APP_BATCH_SIZE
) -> AsyncIterator[AppBatch]:
    """Yields each app once. Raises AppsUnreadableError."""
    source = app_source(trigger)
    if source is None:
        for apps in iter_batches(dict.fromkeys(trigger.apps), size):
            yield AppBatch(apps)
        return
    async for batch in _iter_collection_batches(source, database, size):
        yield batch


def source_refusal(source: AppsOfCollection, *, own_database: str) -> str | None:
    """Returns why apps may not come from this collection; None when they may."""
    if operator := find_server_code(source.filter):
        return f"apps.filter has {operator}, which runs code on the database server; select by values"
    reason = refusal_reason(source.database or own_database, source.collection, own_database=own_database)
    return None if reason is None else f"apps cannot be taken from there: {reason}; name a collection of yours"


def _read_app_id(value: Any) -> str | None:
    """Reads text, a whole number, or an ObjectId in its hexadecimal form."""
    if isinstance(value, ObjectId) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    return parse_app_id(value) if isinstance(value, str) else None


def iter_batches(
    items: Iterator[ItemT] | Sequence[ItemT] | Mapping[ItemT, Any], size: int
) -> Iterator[Sequence[ItemT]]:
    remaining = iter(items)
    while batch := tuple(islice(remaining, size)):
        yield batch


async def _iter_collection_batches(
    source: AppsOfCollection, database: AsyncDatabase[dict[str, Any]], size: int
) -> AsyncIterator[AppBatch]:
    reason = source_refusal(source, own_database=database.name)
    if reason is not None:
        raise AppsUnreadableError(reason)
    seen: set[str] = set()
    names: dict[str, None] = {}
    unusable = 0
    async for value in _iter_field_values(source, database, size):
        name = _read_app_id(value)
        if name is None:
            unusable += 1
        elif name not in seen:
            names[name] = None
            if len(seen) < MAX_REMEMBERED_APPS:
                seen.add(name)
        if len(names) == size:
            yield AppBatch(tuple(names), unusable)
            names, unusable = {}, 0
    if names or unusable:
        yield AppBatch(tuple(names), unusable)


async def _iter_field_values(
    source: AppsOfCollection, database: AsyncDatabase[dict[str, Any]], size: int
) -> AsyncIterator[Any]:
    projection = {"_id": source.app_field == "_id", source.app_field: True}
    try:
        source_database = database.client[source.database or database.name]
        collection = source_database.get_collection(source.collection, codec_options=_LENIENT)
        found = collection.find(source.filter, projection, max_time_ms=READ_TIMEOUT_MS, batch_size=size)
        if source.app_field == "_id":
            found = found.sort("_id", ASCENDING)
        async with found:
            async for document in found:
                yield _value_at(document, source.app_field)
    except (InvalidName, BSONError, OverflowError, UnicodeError) as error:
        raise AppsUnreadableError(str(error)[:300]) from None
    except OperationFailure as error:
        if is_unavailable(error) and not isinstance(error, ExecutionTimeout):
            raise
        message = str(error.details.get("errmsg") if error.details else error)
        raise AppsUnreadableError(message.partition(" to execute command")[0][:300]) from None


def _value_at(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
