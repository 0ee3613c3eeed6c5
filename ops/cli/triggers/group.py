"""`unattended triggers …`: all commands on triggers."""

import click

from ops.cli.triggers.backfill import backfill
from ops.cli.triggers.change import fire, pause, resume
from ops.cli.triggers.listing import list_triggers
from ops.cli.triggers.make import create, edit, remove
from ops.cli.triggers.show import show_trigger


@click.group()
def triggers() -> None:
    """Why things run.

    NAME is Workflow/name, or the name alone where no other trigger has it.
    """


for command in (list_triggers, show_trigger, fire, pause, resume, backfill, create, edit, remove):
    triggers.add_command(command)
