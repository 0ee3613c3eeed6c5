"""Strict JSON: what the standard allows, in each UTF encoding, and nothing beyond it."""

import codecs
from typing import Any

import pytest

from accounting.infra.strict_json import parse_strict_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
        (b'"\xc3\xa4"', "ä"),
        (codecs.BOM_UTF8 + b"1", 1),
        ('"ä"'.encode("utf-16"), "ä"),
        ("1e308", 1e308),
    ],
)
def test_json_is_parsed_in_each_utf_encoding(text: str | bytes, value: Any) -> None:
    assert parse_strict_json(text) == value


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "1e999", "", "\ufeff1", "{'a': 1}", b"\xff"])
def test_text_beyond_the_standard_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- the reader's own texts differ
        parse_strict_json(text)


def test_endless_nesting_is_a_recursion_error() -> None:
    with pytest.raises(RecursionError):
        parse_strict_json("[" * 100_000)
