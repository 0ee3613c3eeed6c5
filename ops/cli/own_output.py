"""Standard output for a command alone: what a package's code and its child processes print goes to standard error."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO


@contextmanager
def reserve_stdout() -> Iterator[TextIO]:
    """For good in this process: a thread that a tool has left behind may print at any time."""
    stdout = sys.stdout
    try:
        number, errors = stdout.fileno(), sys.stderr.fileno()
    except (OSError, ValueError):  # no file, as in a test
        with redirect_stdout(sys.stderr):
            yield stdout
        return
    stdout.flush()
    own = os.fdopen(os.dup(number), "w", encoding=stdout.encoding, errors="backslashreplace")
    os.dup2(errors, number)
    try:
        with redirect_stdout(sys.stderr):
            yield own
    finally:
        with suppress(BrokenPipeError):  # who reads is gone
            own.close()
