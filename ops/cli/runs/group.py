"""`unattended runs …`: all commands on runs."""

import click

from ops.cli.command import Group
from ops.cli.deferred import DeferredCommand


@click.group(cls=Group)
def runs() -> None:
    """What ran, what runs, and what came of it."""


for name, place, first_words in (
    ("list", "listing:list_runs", "Lists runs, the newest first."),
    ("show", "show:show_run", "Tells the story of one run, and what to do next."),
    ("tail", "tail:tail", "Follows one run until it ends, or all of them."),
    ("answer", "answer:answer", "Answers a question of a run that waits for a person."),
    ("retry-now", "change:retry_now", "Makes runs due that wait for their next attempt."),
    ("replay", "change:replay", "Starts runs anew, each as a new run with the same input."),
    ("cancel", "change:cancel", "Ends runs that wait or are being worked on."),
    ("discard", "change:discard", "Gives up runs that are at rest; they become cancelled."),
):
    runs.add_command(DeferredCommand(name, f"ops.cli.runs.{place}", first_words))
