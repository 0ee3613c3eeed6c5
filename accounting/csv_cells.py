"""Cells of a CSV file that people open in spreadsheets: no text of others becomes a formula there."""

from typing import Any

_STARTS_A_FORMULA = frozenset("=+-@\t\r\n＝＋－＠")


def csv_cell(value: Any) -> Any:
    """A text that a spreadsheet would calculate gets an apostrophe in front, which it takes for "this is text"."""
    if isinstance(value, str) and (value[:1] in _STARTS_A_FORMULA or value.lstrip()[:1] in _STARTS_A_FORMULA):
        return f"'{value}"
    return value
