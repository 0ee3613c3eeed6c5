"""The hidden delivery of a page: what one is, and when two sendings are the same."""

import pytest

from triggers.form.form_submission import delivery_id, find_delivery, new_delivery


def test_each_page_has_another() -> None:
    one, other = new_delivery(), new_delivery()

    assert one != other
    assert find_delivery({"_delivery": one}) == one


@pytest.mark.parametrize(
    "given", [None, "", "1", "x" * 26, "01KACVXM8E5Y5Q0T3Y4F6H7J8K\n", ["01KACVXM8E5Y5Q0T3Y4F6H7J8K"]]
)
def test_what_no_page_holds_is_none(given: object) -> None:
    assert find_delivery({"_delivery": given}) is None


def test_equal_answers_of_a_page_are_one_occurrence_and_others_another() -> None:
    first = delivery_id("01KACVXM8E5Y5Q0T3Y4F6H7J8K", {"a": 1, "b": "ü"})

    assert delivery_id("01KACVXM8E5Y5Q0T3Y4F6H7J8K", {"b": "ü", "a": 1}) == first
    assert delivery_id("01KACVXM8E5Y5Q0T3Y4F6H7J8K", {"a": 2, "b": "ü"}) != first
    assert delivery_id("01KACVXM8E5Y5Q0T3Y4F6H7J8M", {"a": 1, "b": "ü"}) != first
    assert first.isascii()
    assert first.isprintable()
