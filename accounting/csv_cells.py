"""Cells of a CSV file that people open in spreadsheets: no text of others becomes a formula there."""

from typing import Any

_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")


def escape_csv_cell(value: Any) -> Any:
    """A text that a spreadsheet would calculate gets an apostrophe in front, which it takes for "this is text"."""
    if isinstance(value, str) and (value[:1] in _FORMULA_STARTS or value.lstrip()[:1] in _FORMULA_STARTS):
        return f"'{value}"
    return value
