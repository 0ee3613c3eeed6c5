"""`unattended billing export`: the ledger as CSV or JSON lines, however long it is."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ops.cli.billing.asking import counted
from ops.cli.billing.whose import wanted, whose_calls
from ops.cli.runs.lines import nobody_reads
from ops.cli.session import with_database

if TYPE_CHECKING:
    from accounting.billing.exporting import Wanted

STDOUT = Path("-")


@click.command("export")
@click.option("--format", "shape", type=click.Choice(["csv", "jsonl"]), default="csv", show_default=True)
@whose_calls
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of stdout (-).")
def export(shape: str, output: Path | None, **whose: Any) -> None:
    """Writes the ledger's calls as CSV or JSON lines, in the order of their time.

    Calls that are going on are left out. The columns stay as they are; new ones come at the end.
    """
    calls = wanted(**whose)
    try:
        with _file(output) as file:
            number = with_database(lambda database, _: _write(database, calls, shape, file))
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


async def _write(database: Any, calls: "Wanted", shape: str, file: TextIO) -> int:
    from accounting.billing.event import FIELDS
    from accounting.billing.exporting import csv_row, json_line, ledger_rows
    from accounting.csv_lines import csv_line

    number = 0
    if shape == "csv":
        file.write(csv_line(FIELDS))
    async for row in ledger_rows(database, calls):
        file.write(csv_line(csv_row(row)) if shape == "csv" else f"{json_line(row)}\n")
        number += 1
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
