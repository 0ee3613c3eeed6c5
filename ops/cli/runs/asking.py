"""What the commands on runs have in common: which runs are meant, who asks, and how a refusal is told."""

import getpass
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import click

from ops.cli.completing import apps, completed_by, trigger_names, workflows
from ops.cli.verdicts import printable
from workers.control.errors import RefusedError, RunNotFoundError
from workers.store.matching import Matching
from workers.store.run import HoldKind, RunState
from workflows.outcome import OutcomeKind

Command = Callable[..., Any]

SAID_NO = 1
MAX_BY = 200


class _Moment(click.ParamType[datetime]):
    name = "age|date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        from workflows.package.trigger_specs.values import parse_duration

        try:
            return datetime.now(UTC) - parse_duration(value)
        except ValueError:
            pass
        try:
            day = datetime.fromisoformat(value)
            return day.astimezone(UTC) if day.tzinfo else day.replace(tzinfo=UTC)
        except (ValueError, OverflowError):  # the latter at the calendar's ends
            self.fail("write a date such as 2026-01-31 or an age such as 7d or 12h", param, ctx)


MOMENT = _Moment()
STATES = tuple(state.value for state in RunState)
OUTCOMES = tuple(kind.value for kind in OutcomeKind)
_WHOSE = (
    click.option("--app", "app_id", shell_complete=completed_by(apps), help="Only this app's."),
    click.option("--workflow", shell_complete=completed_by(workflows), help="Only of this workflow."),
    click.option(
        "--trigger",
        shell_complete=completed_by(trigger_names),
        help="Only of this trigger: its name, or a type such as webhook.",
    ),
)
_WHICH = (
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


def whose_options(command: Command) -> Command:
    for option in reversed(_WHOSE):
        command = option(command)
    return command


def filter_options(command: Command) -> Command:
    for option in reversed(_WHICH):
        command = option(command)
    return whose_options(command)


def matching(given: dict[str, Any]) -> Matching:
    """From what `filter_options` or `whose_options` have put among a command's options."""
    hold, since, until = given.get("hold"), given.get("since"), given.get("until")
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since is later than --until, so that no run can match")
    return Matching(
        app_id=given["app_id"],
        workflow=given["workflow"],
        trigger=given["trigger"],
        states=tuple(RunState(state) for state in given.get("states", ())),
        outcome=given.get("outcome"),
        hold=None if hold is None else HoldKind(hold),
        since=since,
        until=until,
    )


@contextmanager
def refusals_in_one_line() -> Iterator[None]:
    try:
        yield
    except (RefusedError, RunNotFoundError) as error:
        click.echo(printable(f"unattended: {advised(error)}"), err=True)  # it repeats what a model or a caller sent
        raise SystemExit(SAID_NO) from None


def advised(error: Exception) -> str:
    known = "; `unattended runs list` shows them" if isinstance(error, RunNotFoundError) else ""
    return f"{error}{known}"


def who_asks() -> str:
    """For the record of a run: the name on this machine, as far as there is one."""
    user = _user()
    return "cli" if user is None else f"{user} (cli)"


def who_answers() -> str:
    """For the record of an answer: an approval names the machine too."""
    return f"{_user() or 'cli'}@{socket.gethostname()}"[:MAX_BY]


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run under a number
        return None
