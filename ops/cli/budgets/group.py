"""`unattended budgets …`: all commands on budgets."""

import click

from ops.cli.deferred import Deferred


@click.group()
def budgets() -> None:
    """What may be spent: tokens or USD, by an app, a workflow or a run.

    In an hour, a day, a month or in all. ID is as `list` shows it, such as app:acme/day/usd.
    """


for name, place, first_words in (
    ("list", "listing:list_budgets", "Every budget, with what is spent of it in the window that goes on."),
    ("show", "listing:show_budget", "One budget: what it limits, what happens when it is spent, and how it stands."),
    ("set", "change:set_budget", "Makes a budget, or changes the one of the same app, workflow, window and unit."),
    (
        "remove",
        "change:remove_budget",
        "Removes a budget. Runs that it holds go on, triggers it has paused are resumed.",
    ),
):
    budgets.add_command(Deferred(name, f"ops.cli.budgets.{place}", first_words))
