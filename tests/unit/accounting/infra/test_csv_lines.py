"""CSV lines: text of others is never calculated."""

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.infra.csv_lines import escape_csv_cell, format_csv_line


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", "\xa0=1", "\u2028=1"]
)
def test_what_a_spreadsheet_would_calculate_is_text(text: str) -> None:
    assert escape_csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["", "acme", "a=b", "run_1:7:1", "2026-03-01", -1, -0.5, True, None])
def test_all_else_is_as_it_was(value: Any) -> None:
    assert escape_csv_cell(value) == value


@given(st.text())
def test_no_text_begins_like_a_formula(text: str) -> None:
    assert not str(escape_csv_cell(text)).lstrip().startswith(("=", "+", "-", "@"))


@given(st.lists(st.text(st.sampled_from("a=\r\n,\"' \t;\u2028")), min_size=1))
def test_no_text_begins_a_cell_or_a_row_of_its_own(cells: list[str]) -> None:
    """A spreadsheet ends a row at any unquoted line end; text after it is a new cell."""
    text = format_csv_line(cells)

    outside = "".join(text.split('"')[::2])
    assert (outside.count("\n"), outside.count("\r"), text[-1]) == (1, 0, "\n")
    assert [*csv.reader(io.StringIO(text, newline=""))] == [[*map(escape_csv_cell, cells)]]
