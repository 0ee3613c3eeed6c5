"""Bodies: strict JSON or a problem, never another error."""

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.triggers.unhurried import unhurried
from triggers.gateway.body import is_json, parse_json
from triggers.gateway.problems import ProblemError


@unhurried
@given(st.binary() | st.text().map(str.encode) | st.text('[]{}",:0123456789eE.-tfn').map(str.encode))
@example(b"[" * 1_000_000)
@example(b'{"a":' * 100_000)
@example(b"NaN")
@example(b"1e999")
@example(b"9" * 10_000)
@example(b'\xef\xbb\xbf{"a": 1}')
@example(b'{"a": "\xff"}')
def test_any_bytes_are_json_or_a_problem(raw_body: bytes) -> None:
    with contextlib.suppress(ProblemError):
        parse_json(raw_body)


@pytest.mark.parametrize("raw_body", [b"NaN", b"[Infinity]", b"-Infinity", b"1e999", b""])
def test_what_is_not_json_is_refused(raw_body: bytes) -> None:
    with pytest.raises(ProblemError) as refused:
        parse_json(raw_body)
    assert refused.value.status == 400


def test_json_types() -> None:
    assert is_json("application/json")
    assert is_json("application/cloudevents+json")
    assert not is_json("text/json")
    assert not is_json("application/x-www-form-urlencoded")
    assert not is_json("")
