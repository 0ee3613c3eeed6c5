"""A deferred command: known by name and first words, imported when it is used."""

from importlib import import_module
from typing import Any

import click


class DeferredCommand(click.Command):
    """Stands in a group for a command whose libraries take longer to import than the command to run."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        """`place`: module and attribute, as ops.cli.keys:keys. `first_words`: the first sentence of its help."""
        super().__init__(name, help=summary)
        self.target = target

    def load(self) -> click.Command:
        module, _, attribute = self.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Whose command is the real one: what is then parsed, invoked, completed or asked for help."""
        return self.load().make_context(info_name, args, parent, **extra)
