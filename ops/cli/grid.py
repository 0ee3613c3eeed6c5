"""A grid: columns of text that are made to fit a terminal, in a thousand rows as fast as in ten."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """`short`: the cells where there is little room."""

    title: str
    cells: Sequence[str]
    short: Sequence[str] | None = None
    right: bool = True
    most: int | None = None  # the widest it may become; what is longer loses its middle

    @property
    def width(self) -> int:
        from rich.cells import cell_len

        widest = max(map(cell_len, (self.title, *self.cells)))
        return widest if self.most is None else min(widest, self.most)


def fitting(columns: Sequence[Column], room: int, dropped_first: Sequence[str]) -> Sequence[Column]:
    """With whole cells, else with short ones, else without those that are dropped first."""
    if width_of(columns) <= room:
        return columns
    kept = [column if column.short is None else replace(column, cells=column.short) for column in columns]
    for title in dropped_first:
        if width_of(kept) <= room:
            break
        kept = [column for column in kept if column.title != title]
    return kept


def width_of(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def grid_lines(columns: Sequence[Column], *, unicode: bool) -> Iterator[str]:
    """The titles, then a line for each row, all of one width."""
    widths = [column.width for column in columns]
    cells = [
        [_cell(text, width, right=column.right, unicode=unicode) for text in (column.title, *column.cells)]
        for column, width in zip(columns, widths, strict=True)
    ]
    return (GAP.join(line) for line in zip(*cells, strict=True))


def _cell(text: str, width: int, *, right: bool, unicode: bool) -> str:
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        space = " " * (width - cell_len(text))
        return space + text if right else text + space
    mark = "…" if unicode else "~"
    head = width // 2
    tail = width - head - 1
    return set_cell_size(text, head) + mark + set_cell_size(text[::-1], tail)[::-1]
