"""Output: tables on a terminal, plain when piped, JSON when asked."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ops.cli.verdicts import printable

if TYPE_CHECKING:
    from rich.console import Console

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else on stdout.")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, default=_plain, ensure_ascii=False, indent=2))


def print_json_line(value: Any) -> None:
    """For what goes on: one object per line, at once."""
    click.echo(json.dumps(value, default=_plain, ensure_ascii=False))


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, whole: Iterable[str] = ()
) -> None:
    """Tab-separated when piped, so that `cut` and `awk` work. `whole`: columns that are not folded."""
    lines = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for line in [list(columns), *lines]:
            click.echo("\t".join(line))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", header_style="bold", box=None, padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        numeric = all(_is_number(line[index]) for line in lines) and bool(lines)
        kept = column in set(whole)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=kept)
    for line in lines:
        table.add_row(*map(Text, line))  # not as markup: names and messages may hold [brackets]
    plain_or_coloured().print(table)


def plain_or_coloured(**options: Any) -> "Console":
    """In colours on a terminal; plain when piped or when NO_COLOR says so."""
    from rich.console import Console

    usual = Console(**options)
    if usual.no_color or not usual.is_terminal:
        return Console(color_system=None, **options)
    return usual


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace(",", "").removeprefix("$").isdigit()


def moment(value: Any) -> str:
    return value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else ""


def usd(value: float | None) -> str:
    """What costs anything is not shown as nothing."""
    if value is None:
        return "unknown"
    text = f"{value:.6f}"
    return text if float(text) or not value else f"{value:.9f}"
