"""The command reference in docs/cli.md, generated from the commands.

Run it after a change of a command: `.venv/bin/python -m ops.docs_commands`.
"""

from collections.abc import Iterator
from pathlib import Path

import click

from ops.cli.command import PROGRAM, DeferredCommand
from ops.cli.main import SECTIONS, cli

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
BEGIN = "<!-- commands: made by ops/docs_commands.py -->"
WIDTH = 100

NamedCommand = tuple[str, click.Command, click.Context]


def command_reference() -> str:
    """Return a table of all commands, then the help of each."""
    root = cli.make_context(PROGRAM, [], resilient_parsing=True, terminal_width=WIDTH)
    lines = ["| command | what it does |", "|---|---|"]
    helps = []
    for section in SECTIONS.values():
        for name, _, _ in section:
            for path, command, context in leaf_commands(name, cli.commands[name], root):
                anchor = path.replace(" ", "-")
                lines.append(f"| [`{path}`](#{anchor}) | {command.get_short_help_str(WIDTH)} |")
                helps += ["", f"### {path}", "", "```text", command.get_help(context).rstrip(), "```"]
    return "\n".join([*lines, *helps])


def leaf_commands(name: str, command: click.Command, parent: click.Context) -> Iterator[NamedCommand]:
    """Yield every command below this one that is not a group, with its full name."""
    real = command.load() if isinstance(command, DeferredCommand) else command
    context = real.make_context(name, [], parent, resilient_parsing=True)
    if not isinstance(real, click.Group):
        yield context.command_path, real, context
        return
    for subcommand in real.commands:
        yield from leaf_commands(subcommand, real.commands[subcommand], context)


def with_reference(page: str) -> str:
    """Replace everything after the mark by the present reference."""
    return f"{page.partition(BEGIN)[0]}{BEGIN}\n{command_reference()}\n"


if __name__ == "__main__":
    PAGE.write_text(with_reference(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
