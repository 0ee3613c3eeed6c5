"""`unattended triggers show`: all there is to say of one trigger."""

from typing import TYPE_CHECKING, Any

from ops.cli.command import command
from ops.cli.output import json_option, print_json
from ops.cli.triggers.trigger_options import APP_OPTION, NAME_ARGUMENT, exit_on_refusal, with_triggers
from ops.presenters.times import print_lines
from ops.presenters.trigger_lines import trigger_lines

if TYPE_CHECKING:
    from triggers.control.trigger_entry import ControlContext


@command(
    "show",
    examples=[
        "unattended triggers show DailyDigest/weekday-morning",
        "unattended triggers show weekday-morning --app acme --json",
    ],
    related=["triggers list", "triggers fire", "runs list"],
)
@NAME_ARGUMENT
@APP_OPTION
@json_option
def show_trigger(name: str, app_id: str | None, as_json: bool) -> None:
    """Tells all of one trigger, and why something started nothing.

    When it fires next or what it waits for, and what came of it so far. For a schedule the next ten times, for a change
    the position of its stream, for a webhook or form its address.
    """

    async def work(ground: "ControlContext") -> dict[str, Any]:
        from triggers.control.trigger_names import find_trigger
        from triggers.control.trigger_view import show

        return await show(ground, await find_trigger(ground, name, app_id=app_id), app_id=app_id)

    with exit_on_refusal():
        shown = with_triggers(work)
    if as_json:
        print_json(shown)
    else:
        print_lines(trigger_lines(shown))
