"""`unattended triggers pause`, `resume` and `fire`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.json_argument import JsonArgumentError, parse_json_object
from ops.cli.output import json_option, print_json
from ops.cli.runs.run_options import operator_name
from ops.cli.triggers.trigger_options import (
    APP_OPTION,
    NAME_ARGUMENT,
    StreamPositionType,
    exit_on_refusal,
    with_acceptance,
    with_triggers,
)

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
@click.option("--note", default="", help="Why, for whoever looks at it later.")
@json_option
def pause(name: str, app_id: str | None, note: str, as_json: bool) -> None:
    """Keeps a trigger from starting runs until it is resumed.

    What it has started goes on. Ticks and changes of the meantime are not made up for; a webhook's senders are told to
    try again later.
    """

    async def work(ground: "ControlContext") -> "PauseResult":
        from triggers.control.trigger_names import find_trigger
        from triggers.control.trigger_pauses import pause as pause_it

        known = await find_trigger(ground, name, app_id=app_id)
        return await pause_it(ground, known, by=operator_name(), note=note, app_id=app_id)

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
    "--from", "from_", type=StreamPositionType(), help="Of a change: now, token (where it stopped), an age or a time."
)
@json_option
def resume(name: str, app_id: str | None, from_: Any, as_json: bool) -> None:
    """Lets a paused trigger or a suspended stream go on.

    A stream that lost its history is suspended until you say from where it goes on. From an earlier time also what
    was skipped comes again; what has started a run already starts none.
    """

    async def work(ground: "ControlContext") -> "PauseResult":
        from triggers.control.trigger_names import find_trigger
        from triggers.control.trigger_pauses import resume as resume_it

        known = await find_trigger(ground, name, app_id=app_id)
        return await resume_it(ground, known, by=operator_name(), app_id=app_id, from_=from_)

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
    "--event", default="{}", metavar="JSON|@file", help="In the place of what it waits for: a body, a change."
)
@json_option
def fire(name: str, app_id: str | None, event: str, as_json: bool) -> None:
    """Starts a run now, as if what it waits for had happened.

    Without --app one of each of its apps. Also of one that is paused. Where an expression takes the app from the event,
    --app is for an event without one.
    """
    given = _parse_event(event)

    async def work(ground: "RoleContext") -> "Sequence[ManualRun]":
        from triggers.control.manual_fire import fire as fire_it
        from triggers.control.trigger_names import find_trigger

        known = await find_trigger(ground, name, app_id=app_id)
        return await fire_it(ground, known, by=operator_name(), app_id=app_id, event=given)

    with exit_on_refusal():
        fired = with_acceptance(work)
    if as_json:
        print_json([each.as_json() for each in fired])
        return
    for each in fired:
        click.echo(f"{each.run_id}  {each.app_id}")
    if not fired:
        click.echo("started nothing: there is no app to run it for", err=True)


def _parse_event(text: str) -> Mapping[str, Any]:
    try:
        return parse_json_object(text)
    except JsonArgumentError as error:
        raise click.BadParameter(str(error), param_hint="--event") from None


def _print_pause(result: "PauseResult", *, as_json: bool) -> None:
    if as_json:
        print_json(result.as_json())
    else:
        click.echo(f"{result.trigger_id} {result.said}")
