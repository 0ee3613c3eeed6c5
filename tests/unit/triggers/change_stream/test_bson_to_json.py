"""Plain JSON of whatever BSON can hold."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp, decode, encode
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from hypothesis import given
from hypothesis import strategies as st

from triggers.change_stream.bson_to_json import to_plain

LENIENT: CodecOptions[dict[str, Any]] = CodecOptions(
    tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)
ONE = UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (ObjectId("65a000000000000000000000"), "65a000000000000000000000"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=timezone(timedelta(hours=1))), "2026-01-02T02:04:05.006Z"),
        (datetime(1815, 12, 10, tzinfo=UTC), "1815-12-10T00:00:00Z"),
        (DatetimeMS(10**15), "1000000000000000ms"),
        (Decimal128("1.50"), "1.50"),
        (Decimal128("NaN"), "NaN"),
        (Int64(2**62), 2**62),
        (1.5, 1.5),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (b"\x00\xff", "AP8="),
        (Binary(b"\x00\xff", 5), "AP8="),
        (Binary(ONE.bytes, 4), str(ONE)),
        (Timestamp(5, 6), {"t": 5, "i": 6}),
        (Regex("^a", "i"), {"pattern": "^a", "flags": 2}),
        (Code("f()"), "f()"),
        (
            DBRef("orders", ObjectId("65a000000000000000000000")),
            {"ref": "orders", "id": "6" + "5a" + "0" * 21, "db": None},
        ),
        (MinKey(), "MinKey"),
        (MaxKey(), "MaxKey"),
        ({"a.b": {"$c": [None, True, "x"]}}, {"a.b": {"$c": [None, True, "x"]}}),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_each_kind_of_value_has_one_form(value: Any, seen: Any) -> None:
    assert to_plain(value) == seen


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text()
    | st.binary(max_size=20)
    | st.datetimes(timezones=st.just(UTC))
    | st.integers(-(2**63), 2**63 - 1).map(DatetimeMS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text().filter(lambda key: "\0" not in key), inner),
    max_leaves=10,
)


@given(values)
def test_whatever_a_document_holds_becomes_json_that_can_be_read_again(value: Any) -> None:
    seen = to_plain(decode(encode({"value": value}), LENIENT)["value"])

    assert json.loads(json.dumps(seen, allow_nan=False)) == seen
