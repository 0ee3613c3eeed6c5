"""The terminal that is written to: how wide it is, and what it can show."""

from dataclasses import dataclass
from typing import Any

import click

from ops.cli.output import plain_or_coloured


@dataclass(frozen=True, slots=True)
class Terminal:
    width: int
    coloured: bool
    unicode: bool

    def print(self, text: str) -> None:
        """In colours where they are wanted in a pipe as well, as FORCE_COLOR says."""
        click.echo(text, color=self.coloured)

    def styled(self, text: str, **style: Any) -> str:
        return click.style(text, **style) if self.coloured and text else text


def terminal() -> Terminal:
    """Plain where NO_COLOR says so, and ASCII where its encoding has no more."""
    console = plain_or_coloured()
    return Terminal(console.width, console.color_system is not None, not console.options.ascii_only)
