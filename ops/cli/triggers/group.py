"""`unattended triggers …`: all commands on triggers."""

import click

from ops.cli.command import Group
from ops.cli.deferred import DeferredCommand


@click.group(cls=Group)
def triggers() -> None:
    """Why things run.

    NAME is Workflow/name, or the name alone where no other trigger has it.
    """


for name, place, first_words in (
    ("list", "listing:list_triggers", "Lists every trigger, when it fired last and what comes next."),
    ("show", "show:show_trigger", "Tells all of one trigger, and why something started nothing."),
    ("fire", "change:fire", "Starts a run now, as if what it waits for had happened."),
    ("pause", "change:pause", "Keeps a trigger from starting runs until it is resumed."),
    ("resume", "change:resume", "Lets a paused trigger or a suspended stream go on."),
    ("backfill", "backfill:backfill", "Starts the runs of a schedule for times that have passed."),
    ("create", "make:create", "Makes a trigger of one app, without touching a package."),
    ("edit", "make:edit", "Replaces the whole entry of a trigger made at run time."),
    ("remove", "make:remove", "Removes a trigger that was made at run time."),
):
    triggers.add_command(DeferredCommand(name, f"ops.cli.triggers.{place}", first_words))
