"""`unattended runs …`: all commands on runs."""

import click

from ops.cli.runs.answer import answer
from ops.cli.runs.change import cancel, discard, replay, retry_now
from ops.cli.runs.listing import list_runs
from ops.cli.runs.show import show_run
from ops.cli.runs.tail import tail


@click.group()
def runs() -> None:
    """What ran, what runs, and what came of it."""


for command in (list_runs, show_run, tail, cancel, replay, discard, retry_now, answer):
    runs.add_command(command)
