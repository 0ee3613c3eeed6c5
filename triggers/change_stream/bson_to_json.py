"""Plain events: converts BSON to the JSON that expressions and inputs can hold.

Object ids, dates, decimals and UUIDs become text, bytes base64. Values without a JSON form (NaN, a date in the year
20000) become text too: they must neither stop a stream nor make an input unreadable for others.
"""

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp
from bson.tz_util import utc

from workflows.context.expressions.quick_expression import LazyEvent

_UUID_SUBTYPES = (3, 4)
_JSON_TYPES: frozenset[type] = frozenset({str, int, bool, type(None)})  # most values
# Quick to convert, and without parts afterwards.
_SCALAR_TYPES = _JSON_TYPES | {float, Int64, datetime, DatetimeMS, ObjectId, Decimal128, UUID}


def to_plain(value: Any) -> Any:
    return _CONVERTERS.get(type(value), str)(value)


class PlainEvent(LazyEvent):
    """Converts only the values that expressions read, so that a failed `when` is cheap.

    Values that may be large are converted once per field: an expression may read one a hundred times.
    """

    __slots__ = ("_event", "_plain", "_whole")

    def __init__(self, event: Mapping[str, Any]) -> None:
        self._event = event
        self._plain: dict[str, Any] = {}
        self._whole: Mapping[str, Any] | None = None

    def select(self, path: Sequence[str]) -> Any:
        value: Any = self._event
        for name in path:
            if type(value) is not dict:
                return None if type(value) in _SCALAR_TYPES else self._plain_at(path)
            value = value.get(name)
        return to_plain(value) if type(value) in _SCALAR_TYPES else self._plain_at(path)

    def materialize(self) -> Mapping[str, Any]:
        if self._whole is None:
            self._whole = {name: self._plain_field(name) for name in self._event}
        return self._whole

    def _plain_at(self, path: Sequence[str]) -> Any:
        """Selects within a converted value: some BSON types have parts only then."""
        value = self._plain_field(path[0])
        for name in path[1:]:
            if type(value) is not dict:
                return None
            value = value.get(name)
        return value

    def _plain_field(self, name: str) -> Any:
        if name not in self._plain:
            self._plain[name] = to_plain(self._event[name])
        return self._plain[name]


def _unchanged(value: Any) -> Any:
    return value


def _mapping(value: Mapping[str, Any]) -> dict[str, Any]:
    # The hot path of each event: the lookup is repeated here to save a call per value.
    return {
        key: item if (convert := _CONVERTERS.get(type(item), str)) is _unchanged else convert(item)
        for key, item in value.items()
    }


def _list(value: list[Any]) -> list[Any]:
    return [item if (convert := _CONVERTERS.get(type(item), str)) is _unchanged else convert(item) for item in value]


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _time(value: datetime) -> str:
    """Formats like MongoDB's relaxed JSON: milliseconds unless they are zero."""
    moment = value if value.tzinfo is None or value.tzinfo is utc else value.astimezone(UTC)
    text = moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
    return text.removesuffix("+00:00") + "Z"


def _far_time(value: DatetimeMS) -> str:
    return f"{int(value)}ms"  # since 1970; beyond the years of datetime


def _binary(value: Binary) -> str:
    if value.subtype in _UUID_SUBTYPES and len(value) == 16:
        return str(UUID(bytes=bytes(value)))
    return _bytes(value)


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _regex(value: Regex[str]) -> dict[str, Any]:
    return {"pattern": to_plain(value.pattern), "flags": value.flags}


def _timestamp(value: Timestamp) -> dict[str, int]:
    return {"t": value.time, "i": value.inc}


def _reference(value: DBRef) -> dict[str, Any]:
    return {"ref": value.collection, "id": to_plain(value.id), "db": value.database}


_CONVERTERS: Mapping[type, Callable[[Any], Any]] = {
    **dict.fromkeys(_JSON_TYPES, _unchanged),
    dict: _mapping,
    list: _list,
    float: _number,
    Int64: int,
    datetime: _time,
    DatetimeMS: _far_time,
    ObjectId: str,
    Decimal128: str,
    Binary: _binary,
    bytes: _bytes,
    UUID: str,
    Regex: _regex,
    Timestamp: _timestamp,
    DBRef: _reference,
    Code: str,
    MinKey: lambda _: "MinKey",
    MaxKey: lambda _: "MaxKey",
}
