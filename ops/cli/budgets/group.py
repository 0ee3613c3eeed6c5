"""`unattended budgets …`: all commands on budgets."""

import click

from ops.cli.command import Group
from ops.cli.deferred import DeferredCommand


@click.group(cls=Group)
def budgets() -> None:
    """What may be spent: tokens or USD by app, workflow or run.

    In an hour, a day, a month or in all. ID is as `list` shows it, such as app:acme/day/usd.
    """


for name, place, first_words in (
    ("list", "listing:list_budgets", "Lists budgets, with what is spent of them now."),
    ("show", "listing:show_budget", "Tells what one budget limits, and how it stands."),
    ("set", "change:set_budget", "Makes a budget, or changes one."),
    ("remove", "change:remove_budget", "Removes a budget."),
):
    budgets.add_command(DeferredCommand(name, f"ops.cli.budgets.{place}", first_words))
