"""`unattended runs …`: all commands on runs."""

import click

from ops.cli.deferred import Deferred


@click.group()
def runs() -> None:
    """What ran, what runs, and what came of it."""


for name, place, first_words in (
    ("list", "listing:list_runs", "Newest first."),
    (
        "show",
        "show:show_run",
        "The story of one run: owners, turns, tools, what changed, errors, cost, and what to do next.",
    ),
    (
        "tail",
        "tail:tail",
        "Follows RUN_ID until it ends, or without one all runs until Ctrl-C: turns, owners, holds, ends.",
    ),
    (
        "cancel",
        "change:cancel",
        "Ends runs: one that waits at once, one that is worked on with its worker's next heartbeat.",
    ),
    ("replay", "change:replay", "Starts runs anew, each as a new run with the same input."),
    ("discard", "change:discard", "Gives up runs that are at rest; they become cancelled."),
    ("retry-now", "change:retry_now", "Makes runs due that wait for their next attempt."),
    ("answer", "answer:answer", "Answers a run that waits for a person, which then goes on where it stands."),
):
    runs.add_command(Deferred(name, f"ops.cli.runs.{place}", first_words))
