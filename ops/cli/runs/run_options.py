"""Options that select runs, the operator's name for records, and refusals as one line."""

import getpass
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from ops.cli.command import add_options
from ops.cli.completion import complete_with, find_apps, find_trigger_names, find_workflows
from ops.cli.output import exit_with_error
from ops.cli.parameters import MOMENT
from workers.control.change_result import RefusedError, RunNotFoundError
from workers.store.run import HoldKind, RunState
from workers.store.run_filter import RunFilter
from workflows.outcome import OutcomeKind

MAX_ACTOR_LENGTH = 200
STATES = tuple(state.value for state in RunState)
OUTCOMES = tuple(kind.value for kind in OutcomeKind)

owner_options = add_options(
    click.option("--app", "app_id", shell_complete=complete_with(find_apps), help="Only runs of this app."),
    click.option("--workflow", shell_complete=complete_with(find_workflows), help="Only runs of this workflow."),
    click.option(
        "--trigger",
        shell_complete=complete_with(find_trigger_names),
        help="Only runs of this trigger: its name, or a type such as webhook.",
    ),
)
filter_options = add_options(
    owner_options,
    click.option(
        "--state",
        "states",
        multiple=True,
        type=click.Choice(STATES),
        metavar="STATE",
        help=f"Only runs in this state: {', '.join(STATES)}. May be repeated.",
    ),
    click.option(
        "--outcome",
        type=click.Choice(OUTCOMES),
        metavar="KIND",
        help=f"Only runs with this outcome: {', '.join(OUTCOMES)}.",
    ),
    click.option("--hold", type=click.Choice([hold.value for hold in HoldKind]), help="Only runs with this hold."),
    click.option("--since", type=MOMENT, help="Accepted at or after: an age (2h, 7d) or a date (2026-01-31)."),
    click.option("--until", type=MOMENT, help="Accepted before: an age or a date."),
)


def parse_run_filter(options: dict[str, Any]) -> RunFilter:
    """Read the values of `filter_options` or `owner_options` from a command's options."""
    hold, since, until = options.get("hold"), options.get("since"), options.get("until")
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since must be before --until; no run can match")
    return RunFilter(
        app_id=options["app_id"],
        workflow=options["workflow"],
        trigger=options["trigger"],
        states=tuple(RunState(state) for state in options.get("states", ())),
        outcome=options.get("outcome"),
        hold=None if hold is None else HoldKind(hold),
        since=since,
        until=until,
    )


@contextmanager
def exit_on_refusal() -> Iterator[None]:
    try:
        yield
    except (RefusedError, RunNotFoundError) as error:
        exit_with_error(refusal_text(error))


def refusal_text(error: Exception) -> str:
    advice = "; `unattended runs list` lists the runs" if isinstance(error, RunNotFoundError) else ""
    return f"{error}{advice}"


def operator_name() -> str:
    """Return the user name on this machine, for records of changes."""
    user = _user_name()
    return "cli" if user is None else f"{user} (cli)"


def answerer_name() -> str:
    """Return user and machine, for records of answers."""
    return f"{_user_name() or 'cli'}@{socket.gethostname()}"[:MAX_ACTOR_LENGTH]


def _user_name() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user id may have no name
        return None
