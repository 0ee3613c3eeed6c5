"""Lines for people: in colours on a terminal, plain when piped or when NO_COLOR says so."""

import os
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ops.cli.output import make_console

if TYPE_CHECKING:
    from rich.console import Console

    from ops.presenters.turn_lines import Line


def line_console() -> "Console":
    return make_console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_lines(lines: "Iterable[Line]") -> None:
    from rich.text import Text

    out = line_console()
    for style, line in lines:
        out.print(Text(line, style=style))


def discard_stdout() -> None:
    """The reader of a pipe is gone, as `head` is after ten lines: nothing more is written, also not at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def format_utc(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S} UTC" if isinstance(value, datetime) else ""


def format_duration(since: datetime | None, until: datetime | None) -> str:
    if since is None or until is None:
        return ""
    seconds = max((until - since).total_seconds(), 0.0)
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def describe_hold(run: Mapping[str, Any]) -> str:
    """A budget's name says that it is one."""
    by = run.get("held_by") or ""
    return (
        f"by the {by.replace(':', ' ', 1)}" if run["hold"] == "budget" else f"by the {run['hold']} limit {by}".rstrip()
    )
