"""Rendering: what of the context an agent reads in its prompt."""

from typing import Any

import pytest

from workflows.context.rendering import MAX_RENDERED, as_text, render_exposed


def test_only_exposed_names_with_a_value_are_shown_in_their_order() -> None:
    values = {"b": {"x": [1, "é"]}, "a": "text", "secret": "no", "none": None, "zero": 0, "no": False, "empty": ""}

    rendered = render_exposed(("a", "b", "none", "absent", "zero", "no", "empty"), values)

    assert rendered == '[CONTEXT VARIABLES]\na: text\nb: {"x": [1, "é"]}\nzero: 0\nno: false\nempty: '


@pytest.mark.parametrize("names", [(), ("absent",), ("none",)])
def test_nothing_to_show_is_no_section(names: tuple[str, ...]) -> None:
    assert render_exposed(names, {"none": None}) == ""


def test_a_long_value_is_cut_and_says_so() -> None:
    rendered = render_exposed(("a",), {"a": "x" * (MAX_RENDERED + 1)})

    assert rendered.endswith("x… (cut)")
    assert len(rendered) < MAX_RENDERED + 50


def cycle() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


@pytest.mark.parametrize("value", [{1, 2}, object(), {("a", 1): 2}, cycle(), b"x", float("nan")])
def test_whatever_a_tool_left_behind_has_a_text(value: Any) -> None:
    assert as_text(value)
    assert render_exposed(("a",), {"a": value}).startswith("[CONTEXT VARIABLES]\na: ")
