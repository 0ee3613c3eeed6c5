"""`unattended billing export`: the ledger as CSV or JSON lines, however long it is."""

import io
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ops.cli.billing.asking import counted
from ops.cli.billing.whose import wanted, whose_calls
from ops.cli.command import command
from ops.cli.progress import Told, progress
from ops.cli.runs.lines import nobody_reads
from ops.cli.session import with_database

if TYPE_CHECKING:
    from accounting.billing.exporting import Wanted

STDOUT = Path("-")
TOLD_EACH = 1000


@command(
    "export",
    examples=[
        "unattended billing export --since 2026-01-01 --until 2026-02-01 -o january.csv",
        "unattended billing export --format jsonl --app acme --since 7d",
    ],
    related=["usage", "billing resend"],
)
@click.option(
    "--format", "shape", type=click.Choice(["csv", "jsonl"]), default="csv", help="CSV, or one JSON object per line."
)
@whose_calls
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of stdout (-).")
def export(shape: str, output: Path | None, **whose: Any) -> None:
    """Writes the ledger's calls as CSV or JSON lines.

    In the order of their time. Calls that are going on are left out. The columns stay as they are; new ones come at the
    end.
    """
    calls = wanted(**whose)
    try:
        with _file(output) as file, _told(file) as told:
            number = with_database(lambda database, _: _write(database, calls, shape, (file, told)))
            file.flush()
    except BrokenPipeError:
        nobody_reads()
        return
    except OSError as error:
        if output in (None, STDOUT):
            raise
        click.echo(f"unattended: {output} cannot be written: {error.strerror}", err=True)
        raise SystemExit(1) from None
    click.echo(counted(number, "call"), err=True)


def _told(file: TextIO) -> AbstractContextManager[Told]:
    """Not where the calls themselves are seen to come."""
    return nullcontext(lambda _done: None) if file.isatty() else progress("calls written")


async def _write(database: Any, calls: "Wanted", shape: str, to: tuple[TextIO, Told]) -> int:
    from accounting.billing.event import FIELDS
    from accounting.billing.exporting import csv_row, json_line, ledger_rows
    from accounting.csv_lines import csv_line

    file, told = to
    number = 0
    if shape == "csv":
        file.write(csv_line(FIELDS))
    async for row in ledger_rows(database, calls):
        file.write(csv_line(csv_row(row)) if shape == "csv" else f"{json_line(row)}\n")
        number += 1
        if number % TOLD_EACH == 0:
            told(number)
    return number


@contextmanager
def _file(output: Path | None) -> Iterator[TextIO]:
    """A file has its name once it is whole: what was cut off is never taken for all there is."""
    if output is None or output == STDOUT:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as in a file, whatever the terminal would like
        yield sys.stdout
        return
    if output.exists() and not output.is_file():  # a pipe or a device, which a file would take the place of
        with _opened(output) as file:
            yield file
        return
    whole = output.resolve()
    partial = whole.with_name(f"{whole.name}.part")
    try:
        with _opened(partial) as file:
            yield file
        partial.replace(whole)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _opened(output: Path) -> TextIO:
    return output.open("w", encoding="utf-8", newline="")
