"""`unattended triggers pause`, `resume` and `fire`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.json_argument import JsonArgumentError, json_object
from ops.cli.output import json_option, print_json
from ops.cli.runs.asking import who_asks
from ops.cli.triggers.asking import APP, NAME, refusals_in_one_line, with_acceptance, with_triggers
from ops.cli.triggers.places import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from triggers.control.firing import Fired
    from triggers.control.known import Ground
    from triggers.control.pausing import Paused
    from triggers.role import TriggerGround


@command(
    "pause",
    examples=[
        "unattended triggers pause weekday-morning --note 'the shop is closed'",
        "unattended triggers pause DailyDigest/weekday-morning --app acme",
    ],
    related=["triggers resume", "triggers list"],
)
@NAME
@APP
@click.option("--note", default="", help="Why, for whoever looks at it later.")
@json_option
def pause(name: str, app_id: str | None, note: str, as_json: bool) -> None:
    """Keeps a trigger from starting runs until it is resumed.

    What it has started goes on. Ticks and changes of the meantime are not made up for; a webhook's senders are told to
    try again later.
    """

    async def work(ground: "Ground") -> "Paused":
        from triggers.control.naming import find
        from triggers.control.pausing import pause as pause_it

        known = await find(ground, name, app_id=app_id)
        return await pause_it(ground, known, by=who_asks(), note=note, app_id=app_id)

    with refusals_in_one_line():
        _tell(with_triggers(work), as_json=as_json)


@command(
    "resume",
    examples=["unattended triggers resume weekday-morning", "unattended triggers resume paid-order --from token"],
    related=["triggers pause", "triggers show"],
)
@NAME
@APP
@click.option("--from", "from_", type=Place(), help="Of a change: now, token (where it stopped), an age or a time.")
@json_option
def resume(name: str, app_id: str | None, from_: Any, as_json: bool) -> None:
    """Lets a paused trigger or a suspended stream go on.

    A stream that lost its history is suspended until you say from where it goes on. From an earlier time also what
    was skipped comes again; what has started a run already starts none.
    """

    async def work(ground: "Ground") -> "Paused":
        from triggers.control.naming import find
        from triggers.control.resuming import resume as resume_it

        known = await find(ground, name, app_id=app_id)
        return await resume_it(ground, known, by=who_asks(), app_id=app_id, from_=from_)

    with refusals_in_one_line():
        _tell(with_triggers(work), as_json=as_json)


@command(
    "fire",
    examples=[
        "unattended triggers fire weekday-morning --app acme",
        'unattended triggers fire warehouse-closed --event \'{"data": {"region": "eu"}}\'',
    ],
    related=["triggers show", "enqueue"],
)
@NAME
@APP
@click.option(
    "--event", default="{}", metavar="JSON|@file", help="In the place of what it waits for: a body, a change."
)
@json_option
def fire(name: str, app_id: str | None, event: str, as_json: bool) -> None:
    """Starts a run now, as if what it waits for had happened.

    Without --app one of each of its apps. Also of one that is paused. Where an expression takes the app from the event,
    --app is for an event without one.
    """
    given = _event(event)

    async def work(ground: "TriggerGround") -> "Sequence[Fired]":
        from triggers.control.firing import fire as fire_it
        from triggers.control.naming import find

        known = await find(ground, name, app_id=app_id)
        return await fire_it(ground, known, by=who_asks(), app_id=app_id, event=given)

    with refusals_in_one_line():
        fired = with_acceptance(work)
    if as_json:
        print_json([each.as_json() for each in fired])
        return
    for each in fired:
        click.echo(f"{each.run_id}  {each.app_id}")
    if not fired:
        click.echo("started nothing: there is no app to run it for", err=True)


def _event(text: str) -> Mapping[str, Any]:
    try:
        return json_object(text)
    except JsonArgumentError as error:
        raise click.BadParameter(str(error), param_hint="--event") from None


def _tell(paused: "Paused", *, as_json: bool) -> None:
    if as_json:
        print_json(paused.as_json())
    else:
        click.echo(f"{paused.trigger_id} {paused.said}")
