"""The terminal that is written to: how wide it is, and what it can show."""

from dataclasses import dataclass
from typing import Any

import click

from ops.cli.output import make_console


@dataclass(frozen=True, slots=True)
class Terminal:
    width: int
    has_colours: bool
    has_unicode: bool

    def print(self, text: str) -> None:
        """In colours where they are wanted in a pipe as well, as FORCE_COLOR says."""
        click.echo(text, color=self.has_colours)

    def style(self, text: str, **attributes: Any) -> str:
        return click.style(text, **attributes) if self.has_colours and text else text


def current_terminal() -> Terminal:
    """Plain where NO_COLOR says so, and ASCII where its encoding has no more."""
    console = make_console()
    return Terminal(console.width, console.color_system is not None, not console.options.ascii_only)
