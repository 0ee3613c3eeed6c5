"""CSV, line by line: of rows that have the same fields."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from accounting.csv_cells import csv_cell


def csv_lines(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """With a header, each with its line end; what is None is empty."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    for cells in (names, *([row[name] for name in names] for row in rows)):
        writer.writerow([csv_cell(cell) for cell in cells])
        yield line.getvalue()
        line.seek(0)
        line.truncate()
