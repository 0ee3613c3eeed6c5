"""`unattended runs …`: all commands on runs."""

import click

from ops.cli.command import DeferredCommand, Group


@click.group(cls=Group)
def runs() -> None:
    """What ran, what runs, and what came of it."""


for name, place, first_words in (
    ("list", "list_runs_command:list_runs", "Lists runs, the newest first."),
    ("show", "show_run_command:show_run", "Tells the story of one run, and what to do next."),
    ("tail", "tail_command:tail", "Follows one run until it ends, or all of them."),
    ("answer", "answer_command:answer", "Answers a question of a run that waits for a person."),
    ("retry-now", "run_commands:retry_now", "Makes runs due that wait for their next attempt."),
    ("replay", "run_commands:replay", "Starts runs anew, each as a new run with the same input."),
    ("cancel", "run_commands:cancel", "Ends runs that wait or are being worked on."),
    ("discard", "run_commands:discard", "Gives up runs that are at rest; they become cancelled."),
):
    runs.add_command(DeferredCommand(name, f"ops.cli.runs.{place}", first_words))


@click.group(cls=Group)
def triggers() -> None:
    """Why things run.

    NAME is Workflow/name, or the name alone where no other trigger has it.
    """


for name, place, first_words in (
    ("list", "list_triggers_command:list_triggers", "Lists every trigger, when it fired last and what comes next."),
    ("show", "show_trigger_command:show_trigger", "Tells all of one trigger, and why something started nothing."),
    ("fire", "trigger_commands:fire", "Starts a run now, as if what it waits for had happened."),
    ("pause", "trigger_commands:pause", "Keeps a trigger from starting runs until it is resumed."),
    ("resume", "trigger_commands:resume", "Lets a paused trigger or a suspended stream go on."),
    ("backfill", "backfill_command:backfill", "Starts the runs of a schedule for times that have passed."),
    ("create", "trigger_edit_commands:create", "Makes a trigger of one app, without touching a package."),
    ("edit", "trigger_edit_commands:edit", "Replaces the whole entry of a trigger made at run time."),
    ("remove", "trigger_edit_commands:remove", "Removes a trigger that was made at run time."),
):
    triggers.add_command(DeferredCommand(name, f"ops.cli.triggers.{place}", first_words))


@click.group(cls=Group)
def budgets() -> None:
    """What may be spent: tokens or USD by app, workflow or run.

    In an hour, a day, a month or in all. ID is as `list` shows it, such as app:acme/day/usd.
    """


for name, place, first_words in (
    ("list", "list_budgets_command:list_budgets", "Lists budgets, with what is spent of them now."),
    ("show", "list_budgets_command:show_budget", "Tells what one budget limits, and how it stands."),
    ("set", "budget_commands:set_budget", "Makes a budget, or changes one."),
    ("remove", "budget_commands:remove_budget", "Removes a budget."),
):
    budgets.add_command(DeferredCommand(name, f"ops.cli.budgets.{place}", first_words))


@click.group(cls=Group)
def billing() -> None:
    """What goes to whoever bills the apps, and exports of usage.

    The scheduler posts every model call to UNATTENDED_BILLING_URL, in signed batches.
    """


for name, place, first_words in (
    ("status", "status_command:status", "Tells what waits, what is dead, and how the endpoint does."),
    ("list", "list_batches_command:list_batches", "Lists batches, the newest first."),
    ("show", "list_batches_command:show_batch", "Tells what became of one batch, and its events."),
    ("replay", "batch_commands:replay", "Posts batches again, with the same ids."),
    ("drop", "batch_commands:drop", "Gives up batches that are not delivered."),
    ("resume", "batch_commands:resume", "Lets batches go again to an endpoint that is left alone."),
    ("resend", "resend_command:resend", "Puts the calls of a time into new batches."),
    ("export", "export_command:export", "Writes the ledger's calls as CSV or JSON lines."),
):
    billing.add_command(DeferredCommand(name, f"ops.cli.billing.{place}", first_words))
