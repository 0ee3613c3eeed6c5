"""Size limits: values as plain JSON, measured before they are written out."""

from datetime import UTC, datetime
from typing import Any

import pytest

from workflows.context.values.size_limits import (
    MAX_LEVELS,
    MAX_VALUE_BYTES,
    TooLargeError,
    check_context_size,
    to_json_text,
    to_plain_json,
)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def doubling_list(times: int) -> Any:
    """Makes a few lists that expand to 2**times values."""
    value: Any = ["x"]
    for _ in range(times):
        value = [value, value]
    return value


def circular() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        "x" * MAX_VALUE_BYTES,
        {"x" * MAX_VALUE_BYTES: 1},
        [0] * MAX_VALUE_BYTES,
        doubling_list(60),
        circular(),
        nested(5000),
    ],
)
def test_what_is_too_large_is_never_written_out(value: Any) -> None:
    with pytest.raises(TooLargeError):
        to_json_text(value)


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["lists", "mappings"])
def test_nesting_is_bounded_alike_on_every_python(wrap: Any) -> None:
    value: Any = 1
    for _ in range(MAX_LEVELS):
        value = wrap(value)

    assert to_json_text(value)
    with pytest.raises(TooLargeError, match="the value is nested too deeply"):
        to_json_text(wrap(value))


def test_a_value_is_a_plain_copy() -> None:
    day = datetime(2026, 3, 1, tzinfo=UTC)
    value = {"a": (1, day)}

    assert to_plain_json(value) == {"a": [1, str(day)]}


def test_the_largest_of_a_context_are_named_without_their_values() -> None:
    values = {"a": "x" * 900_000, "b": "canary" * 200_000, "c": 1, "d": "x" * 1000, "keys": {(1, 2): 3}}

    with pytest.raises(TooLargeError) as caught:
        check_context_size(values)

    assert str(caught.value) == "the context is larger than 2048 KB; largest: b (1171 KB), a (878 KB), d (0 KB)"
