"""Cells of a CSV file that people open in spreadsheets: no text of others becomes a formula there."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")

_LINE_END = "\r\n"  # cells with any part of it are quoted: else what follows would be a row of its own, and a formula


def escape_csv_cell(value: Any) -> Any:
    """A text that a spreadsheet would calculate gets an apostrophe in front, which it takes for "this is text"."""
    if isinstance(value, str) and (value[:1] in _FORMULA_STARTS or value.lstrip()[:1] in _FORMULA_STARTS):
        return f"'{value}"
    return value


def format_csv_lines(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """With a header."""
    yield format_csv_line(names)
    for row in rows:
        yield format_csv_line([row[name] for name in names])


def format_csv_line(cells: Sequence[Any]) -> str:
    """With its line end; what is None is empty."""
    line = io.StringIO()
    csv.writer(line, lineterminator=_LINE_END).writerow([escape_csv_cell(cell) for cell in cells])
    return f"{line.getvalue().removesuffix(_LINE_END)}\n"
