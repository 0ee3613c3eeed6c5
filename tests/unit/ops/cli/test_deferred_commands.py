"""Deferred commands: they have the help of the real ones, without their imports."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from ops.cli.command import DeferredCommand
from ops.cli.main import cli

WIDTHS = range(20, 111)


def deferred_in(group: click.Group) -> Iterator[DeferredCommand]:
    for command in group.commands.values():
        if isinstance(command, DeferredCommand):
            yield command
            real = command.load()
            if isinstance(real, click.Group):
                yield from deferred_in(real)


DEFERRED = list(deferred_in(cli))


@pytest.mark.parametrize("deferred", DEFERRED, ids=lambda each: each.target)
def test_help_of_a_deferred_command_equals_that_of_the_real_one(deferred: DeferredCommand) -> None:
    real = deferred.load()

    assert deferred.name == real.name
    for width in WIDTHS:
        assert deferred.get_short_help_str(width) == real.get_short_help_str(width)


def test_commands_of_every_group_are_deferred() -> None:
    assert {"runs", "list", "triggers", "schema", "worker"} <= {each.name for each in DEFERRED}


def test_a_deferred_command_has_the_arguments_and_suggestions_of_the_real() -> None:
    run = CliRunner().invoke

    assert run(cli, ["runs", "list", "--help"]).stdout.startswith(
        "Usage: cli runs list [OPTIONS]\n\n  Lists runs, the newest first."
    )
    assert "Invalid value for '--limit'" in run(cli, ["runs", "list", "--limit", "0"]).stderr
    assert "Did you mean" in run(cli, ["valdate"]).stderr
