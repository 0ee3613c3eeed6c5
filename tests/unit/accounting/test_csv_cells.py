"""CSV cells: what others have named is never calculated."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.csv_cells import csv_cell


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", "\xa0=1", "\u2028=1"]
)
def test_what_a_spreadsheet_would_calculate_is_text(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["", "acme", "a=b", "run_1:7:1", "2026-03-01", -1, -0.5, True, None])
def test_all_else_is_as_it_was(value: Any) -> None:
    assert csv_cell(value) == value


@given(st.text())
def test_no_text_begins_like_a_formula(text: str) -> None:
    assert not str(csv_cell(text)).lstrip().startswith(("=", "+", "-", "@"))
