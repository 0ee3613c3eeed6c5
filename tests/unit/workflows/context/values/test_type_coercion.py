"""Coercion of text from the environment to the declared type."""

from typing import Any

import pytest

from workflows.context.values.type_coercion import coerce_text
from workflows.context.values.value_types import ValueType


@pytest.mark.design("D1-58")
@pytest.mark.parametrize("word", ["1", "true", "TRUE", " yes ", "On"])
def test_four_words_are_true(word: str) -> None:
    assert coerce_text(word, "boolean") is True


@pytest.mark.design("D1-58")
@pytest.mark.parametrize("word", ["0", "false", "", "2", "y", "t", "enabled", "truee", "None"])
def test_every_other_word_is_false(word: str) -> None:
    assert coerce_text(word, "boolean") is False


@pytest.mark.design("D1-26")
@pytest.mark.parametrize(
    ("text", "to", "expected"),
    [
        ("7", "integer", 7),
        (" -7 ", "integer", -7),
        ("1.5", "number", 1.5),
        ('{"a": [1]}', "object", {"a": [1]}),
        ("[1, 2]", "array", [1, 2]),
        (" as it is ", "string", " as it is "),
    ],
)
def test_text_becomes_the_declared_type(text: str, to: ValueType, expected: Any) -> None:
    assert coerce_text(text, to) == expected


@pytest.mark.parametrize(
    ("text", "to"),
    [
        ("seven", "integer"),
        ("1.5", "integer"),
        ("", "number"),
        ("{", "object"),
        ("[1]", "object"),
        ("{}", "array"),
        ("1", "array"),
    ],
)
def test_what_is_of_another_type_is_refused(text: str, to: ValueType) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- any ValueError is the contract
        coerce_text(text, to)
