"""Progress of long work: a bar on a terminal, and nothing where nobody looks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FEW = 20  # are done before anybody has read of them

Told = Callable[..., None]  # how many are done, and of how many


@contextmanager
def progress(what: str, number: int | None = None) -> Iterator[Told]:
    """To be told how many are done, and of how many where `number` is not known; until then it only moves.

    On standard error, so that output can go elsewhere, and gone at the end.
    """
    if not sys.stderr.isatty() or (number is not None and number < FEW):
        yield _nobody
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    from ops.cli.output import plain_or_coloured

    console = plain_or_coloured(stderr=True)
    if console.is_dumb_terminal:
        yield _nobody
        return
    words = [TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[far]}")]
    columns = (SpinnerColumn("line"), words[0], BarColumn(), words[1], TimeRemainingColumn())
    # What is written meanwhile goes where it is meant to go: rich would take stdout to this console.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task(what, total=number, far="")

        def told(done: int, of: int | None = number) -> None:
            bar.update(task, completed=done, total=of, far=f"{done:,}" if of is None else f"{done:,} of {of:,}")

        yield told


def _nobody(*_: object) -> None:
    """Looks."""
