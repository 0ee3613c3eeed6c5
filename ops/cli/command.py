"""Click commands and groups with examples, related commands and a chosen order in their help."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import click
from typing_extensions import override

PROGRAM = "unattended"

CommandFunction = Callable[..., Any]
OptionDecorator = Callable[[CommandFunction], CommandFunction]


class Command(click.Command):
    """`examples` are whole shell lines; `related` are other commands as typed after the program's name."""

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
    """Lists its commands in the order they were added; `sections` groups them under titles."""

    command_class = Command

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        name_width = max(map(len, self.commands))
        text_width = formatter.width - name_width - 6
        for title, section in (self.sections or {"Commands": [*self.commands]}).items():
            rows = [(f"{name:<{name_width}}", self.commands[name].get_short_help_str(text_width)) for name in section]
            with formatter.section(title):
                formatter.write_dl(rows)


def command(
    name: str, *, examples: Sequence[str], related: Sequence[str] = ()
) -> Callable[[CommandFunction], click.Command]:
    return click.command(name, cls=Command, examples=examples, related=related)


def add_options(*options: OptionDecorator) -> OptionDecorator:
    """Combine options into one decorator; help lists them in this order."""

    def decorate(function: CommandFunction) -> CommandFunction:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class DeferredCommand(click.Command):
    """Imports the real command only when it is used, so that `--help` of its group stays fast."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        """`target` is `module:attribute`; `summary` is the first sentence of the command's help."""
        super().__init__(name, help=summary)
        self.target = target

    def load(self) -> click.Command:
        module, _, attribute = self.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Hand over to the real command, which parses, runs, completes and prints its help."""
        return self.load().make_context(info_name, args, parent, **extra)
