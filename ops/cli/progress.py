"""A progress bar for long commands, on a terminal only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MIN_ITEMS = 20  # fewer are done before a bar can be read

ReportProgress = Callable[..., None]  # takes how many are done and, if it was unknown at first, the total


@contextmanager
def show_progress(label: str, total: int | None = None) -> Iterator[ReportProgress]:
    """Yield a function that updates the bar; while the total is unknown, the bar only moves.

    It is drawn on stderr, so that stdout can be redirected, and removed at the end.
    """
    if not sys.stderr.isatty() or (total is not None and total < MIN_ITEMS):
        yield _ignore_progress
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    from ops.cli.output import make_console

    console = make_console(stderr=True)
    if console.is_dumb_terminal:
        yield _ignore_progress
        return
    words = [TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[far]}")]
    columns = (SpinnerColumn("line"), words[0], BarColumn(), words[1], TimeRemainingColumn())
    # Without these flags rich would redirect stdout to this console.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task(label, total=total, far="")

        def report(done: int, of: int | None = total) -> None:
            bar.update(task, completed=done, total=of, far=f"{done:,}" if of is None else f"{done:,} of {of:,}")

        yield report


def _ignore_progress(*_: object) -> None:
    """Draw nothing."""
