"""What the commands on runs have in common: which runs are meant, who asks, and how a refusal is told."""

import getpass
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import click

from ops.cli.completion import complete_with, find_apps, find_trigger_names, find_workflows
from ops.presenters.printable_text import to_printable
from workers.control.errors import RefusedError, RunNotFoundError
from workers.store.matching import Matching
from workers.store.run import HoldKind, RunState
from workflows.outcome import OutcomeKind

CommandFunction = Callable[..., Any]

EXIT_FAILURE = 1
MAX_ACTOR_LENGTH = 200


class _MomentType(click.ParamType[datetime]):
    name = "age|date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        from workflows.package.trigger_specs.spec_values import parse_duration

        try:
            return datetime.now(UTC) - parse_duration(value)
        except ValueError:
            pass
        try:
            day = datetime.fromisoformat(value)
            return day.astimezone(UTC) if day.tzinfo else day.replace(tzinfo=UTC)
        except (ValueError, OverflowError):  # the latter at the calendar's ends
            self.fail("write a date such as 2026-01-31 or an age such as 7d or 12h", param, ctx)


MOMENT = _MomentType()
STATES = tuple(state.value for state in RunState)
OUTCOMES = tuple(kind.value for kind in OutcomeKind)
_OWNER_OPTIONS = (
    click.option("--app", "app_id", shell_complete=complete_with(find_apps), help="Only this app's."),
    click.option("--workflow", shell_complete=complete_with(find_workflows), help="Only of this workflow."),
    click.option(
        "--trigger",
        shell_complete=complete_with(find_trigger_names),
        help="Only of this trigger: its name, or a type such as webhook.",
    ),
)
_STATE_OPTIONS = (
    click.option(
        "--state",
        "states",
        multiple=True,
        type=click.Choice(STATES),
        metavar="STATE",
        help=f"In this state: {', '.join(STATES)}. May be repeated.",
    ),
    click.option(
        "--outcome",
        type=click.Choice(OUTCOMES),
        metavar="KIND",
        help=f"What came of them: {', '.join(OUTCOMES)}.",
    ),
    click.option("--hold", type=click.Choice([hold.value for hold in HoldKind]), help="What holds them back."),
    click.option("--since", type=MOMENT, help="Accepted since: an age (2h, 7d) or a date (2026-01-31)."),
    click.option("--until", type=MOMENT, help="Accepted before: an age or a date."),
)


def owner_options(command: CommandFunction) -> CommandFunction:
    for option in reversed(_OWNER_OPTIONS):
        command = option(command)
    return command


def filter_options(command: CommandFunction) -> CommandFunction:
    for option in reversed(_STATE_OPTIONS):
        command = option(command)
    return owner_options(command)


def parse_run_filter(options: dict[str, Any]) -> Matching:
    """From what `filter_options` or `whose_options` have put among a command's options."""
    hold, since, until = options.get("hold"), options.get("since"), options.get("until")
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since is later than --until, so that no run can match")
    return Matching(
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
        click.echo(
            to_printable(f"unattended: {refusal_text(error)}"), err=True
        )  # it repeats what a model or a caller sent
        raise SystemExit(EXIT_FAILURE) from None


def refusal_text(error: Exception) -> str:
    known = "; `unattended runs list` shows them" if isinstance(error, RunNotFoundError) else ""
    return f"{error}{known}"


def operator_name() -> str:
    """For the record of a run: the name on this machine, as far as there is one."""
    user = _user_name()
    return "cli" if user is None else f"{user} (cli)"


def answerer_name() -> str:
    """For the record of an answer: an approval names the machine too."""
    return f"{_user_name() or 'cli'}@{socket.gethostname()}"[:MAX_ACTOR_LENGTH]


def _user_name() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run under a number
        return None
