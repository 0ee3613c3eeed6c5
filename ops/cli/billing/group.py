"""`unattended billing …`: what was and is to be posted to whoever bills the apps, and exports of the ledger."""

import click

from ops.cli.command import Group
from ops.cli.deferred import DeferredCommand


@click.group(cls=Group)
def billing() -> None:
    """What goes to whoever bills the apps, and exports of usage.

    The scheduler posts every model call to UNATTENDED_BILLING_URL, in signed batches.
    """


for name, place, first_words in (
    ("status", "status:status", "Tells what waits, what is dead, and how the endpoint does."),
    ("list", "listing:list_batches", "Lists batches, the newest first."),
    ("show", "listing:show_batch", "Tells what became of one batch, and its events."),
    ("replay", "change:replay", "Posts batches again, with the same ids."),
    ("drop", "change:drop", "Gives up batches that are not delivered."),
    ("resume", "change:resume", "Lets batches go again to an endpoint that is left alone."),
    ("resend", "resend:resend", "Puts the calls of a time into new batches."),
    ("export", "export:export", "Writes the ledger's calls as CSV or JSON lines."),
):
    billing.add_command(DeferredCommand(name, f"ops.cli.billing.{place}", first_words))
