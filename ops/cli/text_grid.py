"""A grid: columns of text that are made to fit a terminal, in a thousand rows as fast as in ten."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

GAP = "  "


@dataclass(frozen=True, slots=True)
class GridColumn:
    """`short`: the cells where there is little room."""

    title: str
    cells: Sequence[str]
    short_cells: Sequence[str] | None = None
    is_right_aligned: bool = True
    max_width: int | None = None  # the widest it may become; what is longer loses its middle

    @property
    def width(self) -> int:
        from rich.cells import cell_len

        widest = max(map(cell_len, (self.title, *self.cells)))
        return widest if self.max_width is None else min(widest, self.max_width)


def fit_columns(columns: Sequence[GridColumn], max_width: int, drop_order: Sequence[str]) -> Sequence[GridColumn]:
    """With whole cells, else with short ones, else without those that are dropped first."""
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
    """The titles, then a line for each row, all of one width."""
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
