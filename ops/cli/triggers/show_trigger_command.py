"""`unattended triggers show`: one trigger in detail."""

from typing import TYPE_CHECKING, Any

from ops.cli.command import command
from ops.cli.output import json_option, print_json, print_lines
from ops.cli.triggers.trigger_options import APP_OPTION, NAME_ARGUMENT, exit_on_refusal, with_triggers
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
    """Shows one trigger, and why events started no run.

    When it fires next, and how often it fired so far. A schedule shows its next ten times, a change trigger its
    stream's position, a webhook or form its address.
    """

    async def work(context: "ControlContext") -> dict[str, Any]:
        from triggers.control.trigger_names import find_trigger
        from triggers.control.trigger_view import show

        return await show(context, await find_trigger(context, name, app_id=app_id), app_id=app_id)

    with exit_on_refusal():
        shown = with_triggers(work)
    if as_json:
        print_json(shown)
    else:
        print_lines(trigger_lines(shown))
