"""Progress of long work: a bar on a terminal, and nothing where nobody looks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MIN_ITEMS = 20  # are done before anybody has read of them

ReportProgress = Callable[..., None]  # how many are done, and of how many


@contextmanager
def show_progress(label: str, total: int | None = None) -> Iterator[ReportProgress]:
    """To be told how many are done, and of how many where `number` is not known; until then it only moves.

    On standard error, so that output can go elsewhere, and gone at the end.
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
    # What is written meanwhile goes where it is meant to go: rich would take stdout to this console.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task(label, total=total, far="")

        def told(done: int, of: int | None = total) -> None:
            bar.update(task, completed=done, total=of, far=f"{done:,}" if of is None else f"{done:,} of {of:,}")

        yield told


def _ignore_progress(*_: object) -> None:
    """Looks."""
