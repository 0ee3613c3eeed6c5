"""Output: tables on a terminal, plain when piped, JSON when asked."""

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import click

from ops.presenters.printable_text import to_printable

if TYPE_CHECKING:
    from rich.console import Console

MIN_COLUMN_WIDTH = 8  # letters beside each other, where a column has more

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else on stdout.")


def print_json(value: Any) -> None:
    click.echo(_to_json(value, indent=2))


def print_json_line(value: Any) -> None:
    """For what goes on: one object per line, at once."""
    click.echo(_to_json(value, indent=None))


def _to_json(value: Any, *, indent: int | None) -> str:
    """With null for NaN and Infinity, which JSON has not and an input may hold; the API does the same."""
    try:
        return json.dumps(value, default=_to_json_value, ensure_ascii=False, indent=indent, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(value, default=_to_json_value), parse_constant=lambda _: None)
        return json.dumps(finite, ensure_ascii=False, indent=indent)


def _to_json_value(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, unfolded: Iterable[str] = ()
) -> None:
    """Tab-separated when piped, so that `cut` and `awk` work. `whole`: columns that are not folded."""
    lines = [["" if cell is None else to_printable(str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for line in [list(columns), *lines]:
            click.echo("\t".join(line))
        return
    console, kept = make_console(), set(unfolded)
    if _min_width(columns, lines, kept) > console.width:
        _print_records(console, title, columns, lines)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", header_style="bold", box=None, padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        numeric = all(_is_number(line[index]) for line in lines) and bool(lines)
        justify: Literal["right", "left"] = "right" if numeric else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in kept)
    for line in lines:
        table.add_row(*map(Text, line))  # not as markup: names and messages may hold [brackets]
    console.print(table)


def _min_width(columns: Sequence[str], lines: Sequence[Sequence[str]], unfolded: Collection[str]) -> int:
    from rich.cells import cell_len

    widest = [max(map(cell_len, cells)) for cells in zip(columns, *lines, strict=True)]
    least = (
        width if name in unfolded else min(width, MIN_COLUMN_WIDTH) for name, width in zip(columns, widest, strict=True)
    )
    return sum(least) + 2 * (len(columns) - 1)


def _print_records(console: "Console", title: str, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Each row as lines of its own, without what is empty: columns of a few letters cannot be read."""
    from rich.table import Table
    from rich.text import Text

    console.print(Text(title, style="italic"))
    for line in lines:
        fields = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        fields.add_column(style="bold", no_wrap=True, min_width=max(map(len, columns)))
        fields.add_column(overflow="fold")
        for name, cell in zip(columns, line, strict=True):
            if cell:
                fields.add_row(name, Text(cell))
        console.print(Text(), fields, sep="\n")


def make_console(**options: Any) -> "Console":
    """In colours on a terminal; plain when piped or when NO_COLOR says so."""
    from rich.console import Console

    usual = Console(**options)
    if usual.no_color or not usual.is_terminal:
        return Console(color_system=None, **options)
    return usual


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace(",", "").removeprefix("$").isdigit()


def format_moment(value: Any) -> str:
    return value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else ""


def format_exact_usd(value: float | None) -> str:
    """What costs anything is not shown as nothing."""
    if value is None:
        return "unknown"
    text = f"{value:.6f}"
    return text if float(text) or not value else f"{value:.9f}"


@dataclass(frozen=True, slots=True)
class Terminal:
    width: int
    has_colours: bool
    has_unicode: bool

    def print(self, text: str) -> None:
        """In colours where they are wanted in a pipe as well, as FORCE_COLOR says."""
        click.echo(text, color=self.has_colours)

    def style(self, text: str, **attributes: Any) -> str:
        return click.style(text, **attributes) if self.has_colours and text else text


def current_terminal() -> Terminal:
    """Plain where NO_COLOR says so, and ASCII where its encoding has no more."""
    console = make_console()
    return Terminal(console.width, console.color_system is not None, not console.options.ascii_only)
