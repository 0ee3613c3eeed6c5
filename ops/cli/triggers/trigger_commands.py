"""`unattended triggers pause`, `resume` and `fire`."""

from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.output import json_option, print_json
from ops.cli.parameters import StreamPositionType, parse_json_option
from ops.cli.runs.run_options import operator_name
from ops.cli.triggers.trigger_options import APP_OPTION, NAME_ARGUMENT, exit_on_refusal, with_acceptance, with_triggers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from triggers.control.manual_fire import ManualRun
    from triggers.control.trigger_entry import ControlContext
    from triggers.control.trigger_pauses import PauseResult
    from triggers.role_context import RoleContext


@command(
    "pause",
    examples=[
        "unattended triggers pause weekday-morning --note 'the shop is closed'",
        "unattended triggers pause DailyDigest/weekday-morning --app acme",
    ],
    related=["triggers resume", "triggers list"],
)
@NAME_ARGUMENT
@APP_OPTION
@click.option("--note", default="", help="A note for readers, such as the reason.")
@json_option
def pause(name: str, app_id: str | None, note: str, as_json: bool) -> None:
    """Pauses a trigger: it starts no runs until it is resumed.

    Runs that it has started continue. Ticks and changes during the pause are skipped; a webhook answers 503, so that
    senders retry later.
    """

    async def work(context: "ControlContext") -> "PauseResult":
        from triggers.control.trigger_names import find_trigger
        from triggers.control.trigger_pauses import pause as pause_trigger

        trigger = await find_trigger(context, name, app_id=app_id)
        return await pause_trigger(context, trigger, by=operator_name(), note=note, app_id=app_id)

    with exit_on_refusal():
        _print_pause(with_triggers(work), as_json=as_json)


@command(
    "resume",
    examples=["unattended triggers resume weekday-morning", "unattended triggers resume paid-order --from token"],
    related=["triggers pause", "triggers show"],
)
@NAME_ARGUMENT
@APP_OPTION
@click.option(
    "--from",
    "from_",
    type=StreamPositionType(),
    help="Where a stream resumes: now, token (where it stopped), an age or a time.",
)
@json_option
def resume(name: str, app_id: str | None, from_: Any, as_json: bool) -> None:
    """Resumes a paused trigger or a suspended stream.

    A stream that lost its history stays suspended until --from sets its position. An earlier position delivers skipped
    changes again; a change that started a run starts no second one.
    """

    async def work(context: "ControlContext") -> "PauseResult":
        from triggers.control.trigger_names import find_trigger
        from triggers.control.trigger_pauses import resume as resume_trigger

        trigger = await find_trigger(context, name, app_id=app_id)
        return await resume_trigger(context, trigger, by=operator_name(), app_id=app_id, from_=from_)

    with exit_on_refusal():
        _print_pause(with_triggers(work), as_json=as_json)


@command(
    "fire",
    examples=[
        "unattended triggers fire weekday-morning --app acme",
        'unattended triggers fire warehouse-closed --event \'{"data": {"region": "eu"}}\'',
    ],
    related=["triggers show", "enqueue"],
)
@NAME_ARGUMENT
@APP_OPTION
@click.option(
    "--event", default="{}", metavar="JSON|@file", help="The event, such as a webhook's body or a change event."
)
@json_option
def fire(name: str, app_id: str | None, event: str, as_json: bool) -> None:
    """Starts a run now, as if the trigger's event had occurred.

    Without --app it starts a run for each app of the trigger. It works for paused triggers too. If an expression takes
    the app from the event, --app applies to events without one.
    """
    event_fields = parse_json_option(event, "--event")

    async def work(context: "RoleContext") -> "Sequence[ManualRun]":
        from triggers.control.manual_fire import fire as fire_trigger
        from triggers.control.trigger_names import find_trigger

        trigger = await find_trigger(context, name, app_id=app_id)
        return await fire_trigger(context, trigger, by=operator_name(), app_id=app_id, event=event_fields)

    with exit_on_refusal():
        started = with_acceptance(work)
    if as_json:
        print_json([run.as_json() for run in started])
        return
    for run in started:
        click.echo(f"{run.run_id}  {run.app_id}")
    if not started:
        click.echo("started no run: the trigger has no app", err=True)


def _print_pause(result: "PauseResult", *, as_json: bool) -> None:
    if as_json:
        print_json(result.as_json())
    else:
        click.echo(f"{result.trigger_id} {result.said}")
