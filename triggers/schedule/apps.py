"""The apps of a schedule: listed ones, or those that a collection names now, read in portions of bounded size."""

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

from accounting.store_errors import store_is_away
from triggers.happening import MAX_APP_ID_LENGTH
from triggers.register.trigger import Trigger
from triggers.schedule.schedules import app_source
from workers.store.own_collections import refusal
from workflows.context.queries import server_code
from workflows.package.trigger_specs.schedule import AppsOfCollection

PORTION = 500
MOST_REMEMBERED = 100_000  # names, to tell which came before; beyond that the run's key does
MAX_READ_MS = 20_000

_LENIENT: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
Each = TypeVar("Each")


class AppsUnreadableError(Exception):
    """The collection, the filter or the field is not to be read; the text says why."""


@dataclass(frozen=True, slots=True)
class Portion:
    """`unusable`: documents whose field is no name of an app."""

    apps: Sequence[str]
    unusable: int = 0


async def apps_of(
    trigger: Trigger, database: AsyncDatabase[dict[str, Any]], *, size: int = PORTION
) -> AsyncIterator[Portion]:
    """Each once. Raises AppsUnreadableError."""
    source = app_source(trigger)
    if source is None:
        for some in in_portions(dict.fromkeys(trigger.apps), size):
            yield Portion(some)
        return
    async for portion in _of_collection(source, database, size):
        yield portion


def refused_source(source: AppsOfCollection, *, own_database: str) -> str | None:
    """Why no apps are taken from there, whatever it holds."""
    if operator := server_code(source.filter):
        return f"apps.filter has {operator}, which runs code on the database server; select by values"
    why = refusal(source.database or own_database, source.collection, own_database=own_database)
    return None if why is None else f"apps cannot be taken from there: {why}; name a collection of yours"


def usable_app(value: Any) -> str | None:
    """As a name: text, a whole number, or the hexadecimal form of an ObjectId."""
    if isinstance(value, ObjectId) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    if not isinstance(value, str):
        return None
    return value if value and len(value) <= MAX_APP_ID_LENGTH and value.isprintable() else None


def in_portions(items: Iterator[Each] | Sequence[Each] | Mapping[Each, Any], size: int) -> Iterator[Sequence[Each]]:
    waiting = iter(items)
    while some := tuple(islice(waiting, size)):
        yield some


async def _of_collection(
    source: AppsOfCollection, database: AsyncDatabase[dict[str, Any]], size: int
) -> AsyncIterator[Portion]:
    why = refused_source(source, own_database=database.name)
    if why is not None:
        raise AppsUnreadableError(why)
    seen: set[str] = set()
    names: dict[str, None] = {}
    unusable = 0
    async for value in _values(source, database, size):
        name = usable_app(value)
        if name is None:
            unusable += 1
        elif name not in seen:
            names[name] = None
            if len(seen) < MOST_REMEMBERED:
                seen.add(name)
        if len(names) == size:
            yield Portion(tuple(names), unusable)
            names, unusable = {}, 0
    if names or unusable:
        yield Portion(tuple(names), unusable)


async def _values(source: AppsOfCollection, database: AsyncDatabase[dict[str, Any]], size: int) -> AsyncIterator[Any]:
    projection = {"_id": source.app_field == "_id", source.app_field: True}
    try:
        place = database.client[source.database or database.name]
        collection = place.get_collection(source.collection, codec_options=_LENIENT)
        found = collection.find(source.filter, projection, max_time_ms=MAX_READ_MS, batch_size=size)
        if source.app_field == "_id":
            found = found.sort("_id", ASCENDING)
        async with found:
            async for document in found:
                yield _at(document, source.app_field)
    except (InvalidName, BSONError, OverflowError, UnicodeError) as error:
        raise AppsUnreadableError(str(error)[:300]) from None
    except OperationFailure as error:
        if store_is_away(error) and not isinstance(error, ExecutionTimeout):
            raise
        said = str(error.details.get("errmsg") if error.details else error)
        raise AppsUnreadableError(said.partition(" to execute command")[0][:300]) from None


def _at(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
