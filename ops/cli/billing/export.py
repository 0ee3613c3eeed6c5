"""`unattended billing export`: the ledger as CSV or JSON lines, however long it is."""

import csv
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


@click.command("export")
@click.option("--format", "shape", type=click.Choice(["csv", "jsonl"]), default="csv", show_default=True)
@whose_calls
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of stdout.")
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
        click.echo(f"unattended: {output or 'standard output'} cannot be written: {error.strerror}", err=True)
        raise SystemExit(1) from None
    click.echo(counted(number, "call"), err=True)


async def _write(database: Any, calls: "Wanted", shape: str, file: TextIO) -> int:
    from accounting.billing.event import FIELDS
    from accounting.billing.exporting import csv_row, json_line, ledger_rows

    number = 0
    lines = csv.writer(file, lineterminator="\n")
    if shape == "csv":
        lines.writerow(FIELDS)
    async for row in ledger_rows(database, calls):
        if shape == "csv":
            lines.writerow(csv_row(row))
        else:
            file.write(f"{json_line(row)}\n")
        number += 1
    return number


@contextmanager
def _file(output: Path | None) -> Iterator[TextIO]:
    """A file has its name once it is whole: what was cut off is never taken for all there is."""
    if output is None:
        yield sys.stdout
        return
    partial = output.with_name(f"{output.name}.part")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            yield file
        partial.replace(output)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
