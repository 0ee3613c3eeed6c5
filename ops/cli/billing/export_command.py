"""`unattended billing export`: streams the ledger as CSV or JSON lines."""

import io
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ops.cli.billing.ledger_filter_options import call_options, parse_call_filter
from ops.cli.command import command
from ops.cli.database_session import with_database
from ops.cli.output import discard_stdout, exit_with_error
from ops.cli.progress import ReportProgress, show_progress
from ops.presenters.amounts import pluralize

if TYPE_CHECKING:
    from accounting.totals.usage_query import UsageFilter

STDOUT = Path("-")
PROGRESS_INTERVAL_ROWS = 1000


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
@call_options
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write; - is stdout.")
def export(shape: str, output: Path | None, **call_filter: Any) -> None:
    """Writes the ledger's calls as CSV or JSON lines.

    Ordered by time, without calls in progress. Columns keep their names and order; new columns are added at the end.
    """
    calls = parse_call_filter(**call_filter)
    try:
        with _open_output(output) as file, _progress_callback(file) as report:
            number = with_database(lambda database, _: _write(database, calls, shape, (file, report)))
            file.flush()
    except BrokenPipeError:
        discard_stdout()
        return
    except OSError as error:
        if output in (None, STDOUT):
            raise
        exit_with_error(f"{output} cannot be written: {error.strerror}")
    click.echo(pluralize(number, "call"), err=True)


def _progress_callback(file: TextIO) -> AbstractContextManager[ReportProgress]:
    """Show no bar where the calls themselves appear on the terminal."""
    return nullcontext(lambda _done: None) if file.isatty() else show_progress("calls written")


async def _write(database: Any, calls: "UsageFilter", shape: str, output: tuple[TextIO, ReportProgress]) -> int:
    from accounting.billing.billing_event import FIELDS
    from accounting.billing.ledger_export import read_ledger_rows, to_csv_row, to_json_line
    from accounting.infra.csv_lines import format_csv_line

    file, report = output
    number = 0
    if shape == "csv":
        file.write(format_csv_line(FIELDS))
    async for row in read_ledger_rows(database, calls):
        file.write(format_csv_line(to_csv_row(row)) if shape == "csv" else f"{to_json_line(row)}\n")
        number += 1
        if number % PROGRESS_INTERVAL_ROWS == 0:
            report(number)
    return number


@contextmanager
def _open_output(output: Path | None) -> Iterator[TextIO]:
    """Write to FILE.part and rename it at the end, so that a partial export is not taken for a complete one."""
    if output is None or output == STDOUT:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # the same bytes as in a file
        yield sys.stdout
        return
    if output.exists() and not output.is_file():  # a rename would replace a pipe or a device by a file
        with _open_text(output) as file:
            yield file
        return
    target = output.resolve()
    partial = target.with_name(f"{target.name}.part")
    try:
        with _open_text(partial) as file:
            yield file
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _open_text(output: Path) -> TextIO:
    return output.open("w", encoding="utf-8", newline="")
