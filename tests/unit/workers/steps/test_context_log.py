"""Log previews: the part of a value that a log may show."""

from typing import Any

import pytest

from workers.steps.context_log import MAX_PREVIEW, preview_value, preview_values


@pytest.mark.design("D1-30", "D1-57")
@pytest.mark.parametrize("name", ["api_key", "apiKey", "GITHUB_SECRET", "access_token", "Password", "authorization"])
def test_what_is_named_like_a_secret_is_hidden_at_any_depth(name: str) -> None:
    shown = preview_values({name: "canary", "nested": {"list": [{name: "canary"}]}})
    assert "canary" not in str(shown)


@pytest.mark.design("D1-30", "D1-57")
def test_a_value_is_shown_up_to_a_length() -> None:
    assert preview_value("order", {"total": 5, "who": "é"}) == '{"total": 5, "who": "é"}'
    assert preview_value("text", "x" * 500) == "x" * MAX_PREVIEW + "… (500 characters)"


def cycle() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


@pytest.mark.parametrize("value", [cycle(), object(), {1, 2}, {("a", 1): 2}, float("nan"), None])
def test_whatever_a_tool_left_behind_has_a_preview(value: Any) -> None:
    assert preview_value("odd", value)
