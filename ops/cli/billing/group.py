"""`unattended billing …`: what was and is to be posted to whoever bills the apps, and exports of the ledger."""

import click

from ops.cli.deferred import Deferred


@click.group()
def billing() -> None:
    """What is posted to whoever bills the apps, and exports of the ledger.

    The scheduler posts every model call to UNATTENDED_BILLING_URL, in signed batches.
    """


for name, place, first_words in (
    ("status", "status:status", "What waits, what is dead, and whether the endpoint takes anything."),
    ("list", "listing:list_batches", "Batches, newest first."),
    ("show", "listing:show_batch", "One batch: what became of it, and its events."),
    ("replay", "change:replay", "Posts batches again, with the same ids: named ones, or all that are dead."),
    ("drop", "change:drop", "Gives up batches that are not delivered: named ones, or all that are dead."),
    ("resume", "change:resume", "Lets batches go to an endpoint again that answered 410, or that is being spared."),
    ("resend", "resend:resend", "Puts calls of a time into new batches, as after billing was switched on late."),
    ("export", "export:export", "Writes the ledger's calls as CSV or JSON lines, in the order of their time."),
):
    billing.add_command(Deferred(name, f"ops.cli.billing.{place}", first_words))
