"""Output: tables on a terminal, plain when piped, JSON when asked."""

import json
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import click

from ops.cli.command import PROGRAM
from ops.cli.exit_codes import EXIT_FAILURE
from ops.presenters.printable_text import to_printable

if TYPE_CHECKING:
    from rich.console import Console

    from ops.presenters.turn_lines import Line

MIN_COLUMN_WIDTH = 8  # characters that a folded column keeps side by side

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else on stdout.")


def print_error(message: str) -> None:
    """Print one line on stderr, safe for a terminal: it may repeat what a model or a caller sent."""
    click.echo(f"{PROGRAM}: {to_printable(message)}", err=True)


def exit_with_error(message: str, code: int = EXIT_FAILURE) -> NoReturn:
    print_error(message)
    raise SystemExit(code)


def print_json(value: Any) -> None:
    click.echo(_to_json(value, indent=2))


def print_json_line(value: Any) -> None:
    """Print one object per line, for output that continues."""
    click.echo(_to_json(value, indent=None))


def _to_json(value: Any, *, indent: int | None) -> str:
    """Write null for NaN and Infinity, which JSON lacks and an input may hold; the API does the same."""
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
    """Print tab-separated lines when piped, so that `cut` and `awk` work.

    On a terminal, columns named in `unfolded` stay on one line.
    """
    lines = [["" if cell is None else to_printable(str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for line in [list(columns), *lines]:
            click.echo("\t".join(line))
        return
    console, unfolded = make_console(), set(unfolded)
    if _min_width(columns, lines, unfolded) > console.width:
        _print_records(console, title, columns, lines)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", header_style="bold", box=None, padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        numeric = all(_is_number(line[index]) for line in lines) and bool(lines)
        justify: Literal["right", "left"] = "right" if numeric else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in unfolded)
    for line in lines:
        table.add_row(*map(Text, line))  # no markup: names and messages may hold [brackets]
    console.print(table)


def _min_width(columns: Sequence[str], lines: Sequence[Sequence[str]], unfolded: Collection[str]) -> int:
    from rich.cells import cell_len

    widths = [max(map(cell_len, cells)) for cells in zip(columns, *lines, strict=True)]
    min_widths = (
        width if name in unfolded else min(width, MIN_COLUMN_WIDTH) for name, width in zip(columns, widths, strict=True)
    )
    return sum(min_widths) + 2 * (len(columns) - 1)


def _print_records(console: "Console", title: str, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print each row as a block of lines, without empty cells: narrower columns would be unreadable."""
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
    """Use colours on a terminal, and none when piped or when NO_COLOR is set."""
    from rich.console import Console

    console = Console(**options)
    if console.no_color or not console.is_terminal:
        return Console(color_system=None, **options)
    return console


def line_console() -> "Console":
    return make_console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_lines(lines: "Iterable[Line]") -> None:
    from rich.text import Text

    console = line_console()
    for style, line in lines:
        console.print(Text(line, style=style))


def discard_stdout() -> None:
    """Redirect stdout to /dev/null once the reader of a pipe is gone, as `head` is after ten lines.

    Otherwise Python flushes at exit and fails again.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace(",", "").removeprefix("$").isdigit()


@dataclass(frozen=True, slots=True)
class Terminal:
    width: int
    has_colours: bool
    has_unicode: bool

    def print(self, text: str) -> None:
        """Print with colours also into a pipe when FORCE_COLOR is set."""
        click.echo(text, color=self.has_colours)

    def style(self, text: str, **attributes: Any) -> str:
        return click.style(text, **attributes) if self.has_colours and text else text


def current_terminal() -> Terminal:
    """Return the terminal's width, whether it has colours (NO_COLOR), and whether it can show Unicode."""
    console = make_console()
    return Terminal(console.width, console.color_system is not None, not console.options.ascii_only)
