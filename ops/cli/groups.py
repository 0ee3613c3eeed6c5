"""The command groups runs, triggers, budgets and billing, each with its commands."""

from collections.abc import Mapping, Sequence

import click

from ops.cli.command import DeferredCommand, Group


@click.group(cls=Group)
def runs() -> None:
    """Lists, follows, answers and changes runs."""


@click.group(cls=Group)
def triggers() -> None:
    """Lists, fires, pauses and edits triggers.

    NAME is Workflow/name, or the name alone if no other trigger has it.
    """


@click.group(cls=Group)
def budgets() -> None:
    """Limits the tokens or USD of an app, workflow or run.

    Per hour, day, month, run or in total. ID is as `list` shows it, such as app:acme/day/usd.
    """


@click.group(cls=Group)
def billing() -> None:
    """Delivers usage to a billing endpoint, and exports it.

    The scheduler posts every model call to UNATTENDED_BILLING_URL, in signed batches.
    """


# name, module:attribute, first sentence of its help
COMMANDS: Mapping[click.Group, Sequence[tuple[str, str, str]]] = {
    runs: (
        ("list", "ops.cli.runs.list_runs_command:list_runs", "Lists runs, the newest first."),
        ("show", "ops.cli.runs.show_run_command:show_run", "Shows the history of one run, and what to do next."),
        ("tail", "ops.cli.runs.tail_command:tail", "Follows one run until it ends, or all runs."),
        ("answer", "ops.cli.runs.answer_command:answer", "Answers a question of a run that waits for a person."),
        ("retry-now", "ops.cli.runs.run_commands:retry_now", "Starts the next attempt of waiting runs now."),
        ("replay", "ops.cli.runs.run_commands:replay", "Starts a new run with the same input, for each run."),
        ("cancel", "ops.cli.runs.run_commands:cancel", "Cancels queued, running or waiting runs."),
        ("discard", "ops.cli.runs.run_commands:discard", "Gives up runs at rest; they become cancelled."),
    ),
    triggers: (
        (
            "list",
            "ops.cli.triggers.list_triggers_command:list_triggers",
            "Lists triggers, when each fired last and what comes next.",
        ),
        (
            "show",
            "ops.cli.triggers.show_trigger_command:show_trigger",
            "Shows one trigger, and why events started no run.",
        ),
        ("fire", "ops.cli.triggers.trigger_commands:fire", "Starts a run now, as if the trigger's event had occurred."),
        (
            "pause",
            "ops.cli.triggers.trigger_commands:pause",
            "Pauses a trigger: it starts no runs until it is resumed.",
        ),
        ("resume", "ops.cli.triggers.trigger_commands:resume", "Resumes a paused trigger or a suspended stream."),
        ("backfill", "ops.cli.triggers.backfill_command:backfill", "Starts the runs of a schedule for past times."),
        (
            "create",
            "ops.cli.triggers.trigger_edit_commands:create",
            "Creates a trigger of one app, outside of a package.",
        ),
        ("edit", "ops.cli.triggers.trigger_edit_commands:edit", "Replaces a trigger that was created at run time."),
        ("remove", "ops.cli.triggers.trigger_edit_commands:remove", "Removes a trigger that was created at run time."),
    ),
    budgets: (
        ("list", "ops.cli.budgets.list_budgets_command:list_budgets", "Lists budgets, and what is spent of each."),
        ("show", "ops.cli.budgets.list_budgets_command:show_budget", "Shows one budget, and what is spent of it."),
        ("set", "ops.cli.budgets.budget_commands:set_budget", "Creates or changes a budget."),
        ("remove", "ops.cli.budgets.budget_commands:remove_budget", "Removes a budget."),
    ),
    billing: (
        (
            "status",
            "ops.cli.billing.status_command:status",
            "Shows waiting and dead batches, and the endpoint's health.",
        ),
        ("list", "ops.cli.billing.list_batches_command:list_batches", "Lists batches, the newest first."),
        ("show", "ops.cli.billing.list_batches_command:show_batch", "Shows one batch and its events."),
        ("replay", "ops.cli.billing.batch_commands:replay", "Posts batches again, with the same ids."),
        ("drop", "ops.cli.billing.batch_commands:drop", "Gives up undelivered batches."),
        ("resume", "ops.cli.billing.batch_commands:resume", "Resumes delivery to an endpoint that was paused."),
        ("resend", "ops.cli.billing.resend_command:resend", "Puts the calls of a period into new batches."),
        ("export", "ops.cli.billing.export_command:export", "Writes the ledger's calls as CSV or JSON lines."),
    ),
}

for group, commands in COMMANDS.items():
    for name, target, summary in commands:
        group.add_command(DeferredCommand(name, target, summary))
