"""Storable values: a tool's values as stored, and as the next turn finds them."""

import json
from collections import Counter, OrderedDict, UserDict, defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from workflows.context.context_variables import ContextVariables
from workflows.context.redaction import HIDDEN, Redactor
from workflows.context.values.storable_values import (
    CIRCLE,
    MAX_BYTES,
    MAX_TEXT_CHARACTERS,
    UNREADABLE,
    make_plain,
    plain_copy,
)
from workflows.context.values.value_sizes import estimate_bytes


class Level(IntEnum):
    HIGH = 2


class Word(StrEnum):
    ONE = "one"


class Colour(Enum):
    RED = "red"


class Order(BaseModel):
    number: int
    when: date | None = None
    secret: SecretStr | None = None


@dataclass
class Point:
    x: int
    y: Any


class Broken:
    def __str__(self) -> str:
        raise RuntimeError


class BrokenMapping(UserDict[str, int]):
    def items(self) -> Any:
        raise RuntimeError


class Named:
    def __str__(self) -> str:
        return "a named thing"


CYCLE: list[Any] = [1]
CYCLE.append({"back": CYCLE})

STORED_FORMS = [
    (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02 03:00:00+00:00"),
    ({"at": [date(2026, 1, 2)]}, {"at": ["2026-01-02"]}),
    ((1, (2, 3)), [1, [2, 3]]),
    ({"b", "a"}, ["a", "b"]),
    (frozenset({3}), [3]),
    (Order(number=7, when=date(2026, 1, 2)), {"number": 7, "when": "2026-01-02", "secret": None}),
    (Decimal("1.50"), "1.50"),
    (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    (PurePosixPath("a/b"), "a/b"),
    (b"abc\xff", "abc\ufffd"),
    (2**63 - 1, 2**63 - 1),
    (2**63, "9223372036854775808"),
    (-(2**63) - 1, "-9223372036854775809"),
    (10**5000, UNREADABLE),
    (float("nan"), "NaN"),
    (float("-inf"), "-Infinity"),
    ("half \ud83d", "half ?"),
    ({1: "a", None: "b", ("x", 1): "c", "z\x00": "d"}, {"1": "a", "None": "b", "('x', 1)": "c", "z%00": "d"}),
    (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (defaultdict(list, a=[1]), {"a": [1]}),
    (Counter("aab"), {"a": 2, "b": 1}),
    (Level.HIGH, 2),
    (Word.ONE, "one"),
    (Colour.RED, "red"),
    (Point(1, (2,)), {"x": 1, "y": [2]}),
    (Point, "<class 'tests.unit.workflows.context.values.test_storable_values.Point'>"),
    (True, True),
    (Named(), "a named thing"),
    (Broken(), UNREADABLE),
    (BrokenMapping(a=1), UNREADABLE),
    (CYCLE, [1, {"back": CIRCLE}]),
]


@pytest.mark.parametrize(("value", "kept"), STORED_FORMS, ids=[f"{number}" for number in range(len(STORED_FORMS))])
def test_what_is_not_plain_is_kept_as_the_nearest_that_is(value: Any, kept: Any) -> None:
    copied = plain_copy(value)

    assert (copied, types_in(copied)) == (kept, types_in(kept))
    assert estimate_bytes(copied, max_bytes=MAX_BYTES) <= MAX_BYTES
    assert plain_copy(copied) == copied


def types_in(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: types_in(item) for key, item in value.items()}
    return [types_in(item) for item in value] if isinstance(value, list) else type(value)


keys = (
    st.text(st.characters(codec=None), max_size=3) | st.integers() | st.none() | st.sampled_from([Level.HIGH, "$a.b"])
)
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(st.characters(codec=None), max_size=3),
    st.binary(max_size=3), st.datetimes(), st.decimals(),
    st.sampled_from([Level.HIGH, Word.ONE, Colour.RED, Broken(), Named(), CYCLE, Order(number=1), int, print]),
)  # fmt: skip
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(keys, inner, max_size=3),
        st.lists(inner, max_size=2).map(lambda items: [items, items]),
    ),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(keys, anything, max_size=4))
def test_after_it_was_made_plain_a_context_is_what_a_store_gives_back(values: dict[Any, Any]) -> None:
    context = ContextVariables(values)

    make_plain(context, Redactor().redact_data)

    stored = json.dumps(context.data, allow_nan=False)
    stored.encode()
    assert json.loads(stored) == context.data
    assert types_in(json.loads(stored)) == types_in(context.data)
    before = {name: id(value) for name, value in context.data.items()}
    make_plain(context, Redactor().redact_data)
    assert {name: id(value) for name, value in context.data.items()} == before


def test_plain_values_stay_the_objects_that_tools_hold(caplog: pytest.LogCaptureFixture) -> None:
    held = {"list": [1, {"deep": None}], "text": "é"}
    context = ContextVariables({"held": held, "odd": (1,)})

    make_plain(context, Redactor().redact_data)

    assert context["held"] is held
    assert [(each.getMessage(), vars(each)["variable"], vars(each)["type"]) for each in caplog.records] == [
        ("context_value_made_plain", "odd", "tuple")
    ]


def test_what_stands_in_two_places_is_two_values_as_it_is_after_a_resume() -> None:
    shared = [1]
    context = ContextVariables({"a": shared, "b": {"c": shared}})

    make_plain(context, Redactor().redact_data)
    shared.append(2)

    assert context.data == {"a": [1, 2], "b": {"c": [1]}}


def test_a_few_shared_lists_do_not_fill_memory() -> None:
    value: Any = ["x"]
    for _ in range(50):
        value = [value, value]

    kept = plain_copy(value, max_bytes=100_000)

    assert isinstance(kept, str)
    assert len(kept) <= MAX_TEXT_CHARACTERS + 10


@pytest.mark.parametrize(
    "value", ["x" * (MAX_BYTES + 1), ["x" * 1000] * 5000, list(range(600_000))], ids=["text", "texts", "numbers"]
)
def test_of_what_is_too_large_the_beginning_is_kept_as_text(value: Any) -> None:
    kept = plain_copy(value)

    assert isinstance(kept, str)
    assert kept.endswith("… (cut)")
    assert len(kept) == MAX_TEXT_CHARACTERS + len("… (cut)")


def test_what_is_nested_too_deeply_is_text_from_there_on() -> None:
    value: Any = 1
    for _ in range(5000):
        value = [value]

    kept = json.dumps(plain_copy(value))

    assert estimate_bytes(json.loads(kept), max_bytes=MAX_BYTES) < MAX_BYTES


def test_hidden_values_inside_objects_are_hidden_in_their_stored_form() -> None:
    class Account(BaseModel):
        key: str

        def __str__(self) -> str:
            return "an account"

        __repr__ = __str__

    context = ContextVariables(
        {"account": Account(key="canary-1"), "bytes": b"is canary-1", "large": ["canary-1 "] * 500_000}
    )

    make_plain(context, Redactor(["canary-1"]).redact_data)

    assert context["account"] == {"key": HIDDEN}
    assert context["bytes"] == f"is {HIDDEN}"
    assert "canary" not in str(context.data)
