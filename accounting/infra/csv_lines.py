"""CSV lines that are safe to open in spreadsheets: no text becomes a formula there."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")

_LINE_END = "\r\n"  # the csv module quotes cells that contain a part of it: else the rest would be a row of its own


def escape_csv_cell(value: Any) -> Any:
    """Puts an apostrophe before text that a spreadsheet would calculate.

    The spreadsheet shows the text then.
    """
    if isinstance(value, str) and (value[:1] in _FORMULA_STARTS or value.lstrip()[:1] in _FORMULA_STARTS):
        return f"'{value}"
    return value


def format_csv_lines(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields a header line and one line per row."""
    yield format_csv_line(names)
    for row in rows:
        yield format_csv_line([row[name] for name in names])


def format_csv_line(cells: Sequence[Any]) -> str:
    """Returns one line with its line end; None becomes an empty cell."""
    line = io.StringIO()
    csv.writer(line, lineterminator=_LINE_END).writerow([escape_csv_cell(cell) for cell in cells])
    return f"{line.getvalue().removesuffix(_LINE_END)}\n"
