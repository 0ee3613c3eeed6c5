"""A grid of text columns that fits the width of a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

GAP = "  "


@dataclass(frozen=True, slots=True)
class GridColumn:
    """`short_cells` replace the cells on a narrow terminal."""

    title: str
    cells: Sequence[str]
    short_cells: Sequence[str] | None = None
    is_right_aligned: bool = True
    max_width: int | None = None  # longer cells lose their middle

    @property
    def width(self) -> int:
        from rich.cells import cell_len

        widest = max(map(cell_len, (self.title, *self.cells)))
        return widest if self.max_width is None else min(widest, self.max_width)


def fit_columns(columns: Sequence[GridColumn], max_width: int, drop_order: Sequence[str]) -> Sequence[GridColumn]:
    """Use full cells, else short ones, else drop columns in the given order until the rest fits."""
    if total_width(columns) <= max_width:
        return columns
    kept = [column if column.short_cells is None else replace(column, cells=column.short_cells) for column in columns]
    for title in drop_order:
        if total_width(kept) <= max_width:
            break
        kept = [column for column in kept if column.title != title]
    return kept


def total_width(columns: Sequence[GridColumn]) -> int:
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def grid_lines(columns: Sequence[GridColumn], *, unicode: bool) -> Iterator[str]:
    """Yield the titles, then a line per row, all of one width."""
    widths = [column.width for column in columns]
    cells = [
        [
            _fit_cell(text, width, is_right_aligned=column.is_right_aligned, unicode=unicode)
            for text in (column.title, *column.cells)
        ]
        for column, width in zip(columns, widths, strict=True)
    ]
    return (GAP.join(line) for line in zip(*cells, strict=True))


def _fit_cell(text: str, width: int, *, is_right_aligned: bool, unicode: bool) -> str:
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        space = " " * (width - cell_len(text))
        return space + text if is_right_aligned else text + space
    mark = "…" if unicode else "~"
    head = width // 2
    tail = width - head - 1
    return set_cell_size(text, head) + mark + set_cell_size(text[::-1], tail)[::-1]
