"""Commands and groups whose help ends with examples and related commands, in an order that somebody chose."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import click
from typing_extensions import override

PROGRAM = "unattended"


class Command(click.Command):
    """`examples`: whole lines for a shell. `related`: other commands, as one types them after the program."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), related: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.related = tuple(related)

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"{'':>{formatter.current_indent}}{line}\n" for line in self.examples))
        if self.related:
            with formatter.section("See also"):
                formatter.write_text(", ".join(self.related))
        super().format_epilog(ctx, formatter)


class Group(click.Group):
    """`sections`: its commands by purpose; without, all of them under one title, in the order they were added."""

    command_class = Command

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = max(map(len, self.commands))
        room = formatter.width - names - 6
        for title, section in (self.sections or {"Commands": [*self.commands]}).items():
            rows = [(f"{name:<{names}}", self.commands[name].get_short_help_str(room)) for name in section]
            with formatter.section(title):
                formatter.write_dl(rows)


def command(
    name: str, *, examples: Sequence[str], related: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], click.Command]:
    return click.command(name, cls=Command, examples=examples, related=related)


class DeferredCommand(click.Command):
    """Stands in a group for a command whose libraries take longer to import than the command to run."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        """`target`: module and attribute, as ops.cli.key_commands:keys. `summary`: the first sentence of its help."""
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
