"""`unattended triggers …`: all commands on triggers."""

import click

from ops.cli.deferred import Deferred


@click.group()
def triggers() -> None:
    """Why things run.

    NAME is Workflow/name, or the name alone where no other trigger has it.
    """


for name, place, first_words in (
    (
        "list",
        "listing:list_triggers",
        "Every trigger: of the packages that are started, and those made at run time.",
    ),
    (
        "show",
        "show:show_trigger",
        "When it fires next or what it waits for, what came of it so far, and why something started nothing.",
    ),
    (
        "fire",
        "change:fire",
        "Starts a run now, as if what the trigger waits for had happened; without --app one of each of its apps.",
    ),
    ("pause", "change:pause", "Nothing more starts by this trigger until it is resumed."),
    ("resume", "change:resume", "Lets a paused trigger start runs again, or a suspended change stream go on."),
    (
        "backfill",
        "backfill:backfill",
        "Starts the runs of a schedule for its times from --from to --to, as if each had been a tick.",
    ),
    ("create", "make:create", "Makes a trigger of one app, without touching a package."),
    (
        "edit",
        "make:edit",
        "Replaces the whole entry of a trigger that was made by `create` or over HTTP; FILE as there.",
    ),
    ("remove", "make:remove", "Removes a trigger that was made by `create` or over HTTP."),
):
    triggers.add_command(Deferred(name, f"ops.cli.triggers.{place}", first_words))
