"""All commands of the program, by the name that a user types."""

import shlex
from functools import cache

import click

from ops.cli.command import PROGRAM, Command, DeferredCommand
from ops.cli.main import cli
from ops.docs_commands import leaf_commands

ROOT = cli.make_context(PROGRAM, [], resilient_parsing=True, terminal_width=80)


@cache
def all_commands() -> dict[str, Command]:
    """Return commands by the words after the program's name."""
    found = {}
    for name, command in cli.commands.items():
        for path, real, _ in leaf_commands(name, command, ROOT):
            assert isinstance(real, Command), path
            found[path.removeprefix(f"{PROGRAM} ")] = real
    return found


def all_groups() -> dict[str, click.Group]:
    real = {name: each.load() if isinstance(each, DeferredCommand) else each for name, each in cli.commands.items()}
    return {name: each for name, each in real.items() if isinstance(each, click.Group)}


def parse_command(line: str) -> tuple[str, click.Context]:
    """Parse a shell line; return its command and click's context, or raise what click raises."""
    words = shlex.split(line)
    redirected = [index for index, word in enumerate(words) if word in (">", ">>", "<", "|")]
    words = words[: min(redirected, default=len(words))]
    assert words.pop(0) == PROGRAM
    path = next(path for path in all_commands() if words[: path.count(" ") + 1] == path.split())
    command = all_commands()[path]
    return path, command.make_context(path, words[path.count(" ") + 1 :], parent=ROOT)
