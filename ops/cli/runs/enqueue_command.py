"""`unattended enqueue`: starts a run by hand."""

from datetime import UTC, datetime
from typing import Any

import click
from ulid import ULID

from ops.cli.command import command
from ops.cli.completion import complete_with, find_apps, find_workflows
from ops.cli.json_argument import JsonArgumentError, parse_json_object
from ops.cli.output import json_option, print_json
from ops.cli.session import with_database
from workers.settings import Settings
from workers.store.run import Accepted, RunRequest, TriggerEvent
from workflows.package.trigger_specs.priority import DEFAULT_PRIORITY, MAX_PRIORITY, MIN_PRIORITY


class PackageNotStartedError(Exception):
    """A package is here, but no run of it is started; the text says why."""


def _parse_app_id(_context: click.Context, _option: click.Parameter, app_id: str) -> str:
    """As everywhere else that names one: nobody could set a budget for it, or ask for what it used."""
    from triggers.occurrence import MAX_APP_ID_LENGTH

    if not app_id or len(app_id) > MAX_APP_ID_LENGTH or not app_id.isprintable():
        raise click.BadParameter(f"must be printable text of at most {MAX_APP_ID_LENGTH} characters")
    return app_id


@command(
    "enqueue",
    examples=[
        'unattended enqueue DailyDigest --app acme --input \'{"region": "eu"}\'',
        "unattended enqueue DailyDigest --app acme --input @input.json --dedupe 2026-01-31",
    ],
    related=["runs show", "runs tail", "run"],
)
@click.argument("workflow", shell_complete=complete_with(find_workflows))
@click.option(
    "--app",
    "app_id",
    required=True,
    callback=_parse_app_id,
    shell_complete=complete_with(find_apps),
    help="Whose run it is.",
)
@click.option("--input", "input_text", default="{}", help="JSON, or @file with JSON in it.")
@click.option("--dedupe", help="An id of your own: the same id again starts nothing.")
@click.option(
    "--priority",
    type=click.IntRange(MIN_PRIORITY, MAX_PRIORITY),
    default=DEFAULT_PRIORITY,
    show_default=True,
    help="9 is most urgent: among the waiting runs of its app it starts first.",
)
@json_option
def enqueue(workflow: str, app_id: str, input_text: str, dedupe: str | None, priority: int, as_json: bool) -> None:
    """Starts one run of WORKFLOW by hand, on the workers."""
    event = TriggerEvent(type="api", name="cli", id=dedupe or str(ULID()), fired_at=datetime.now(UTC))
    request = RunRequest(app_id, workflow, event, input=_parse_input(input_text), priority=priority)
    try:
        accepted = with_database(lambda _, settings: _enqueue(settings, request), redis=True)
    except PackageNotStartedError as error:
        click.echo(f"unattended: {error}", err=True)
        raise SystemExit(1) from None
    if as_json:
        print_json({"run_id": accepted.run_id, "created": accepted.created})
        return
    click.echo(f"{accepted.run_id}{'' if accepted.created else '  (this id was seen before; nothing new was started)'}")


def _parse_input(text: str) -> dict[str, Any]:
    try:
        return parse_json_object(text)
    except JsonArgumentError as error:
        raise click.BadParameter(str(error), param_hint="--input") from None


async def _enqueue(settings: Settings, request: RunRequest) -> Accepted:
    from triggers.role_context import open_role_context
    from workers.store.storable import NotStorableError

    async with open_role_context(settings) as ground:
        workflow = request.workflow
        if ground.catalog.get(workflow) is None:
            why = ground.catalog.explain_refusal(workflow)
            if why is not None:
                raise PackageNotStartedError(why)
            known = ", ".join(sorted(ground.catalog.packages())) or "none"
            raise click.BadParameter(f"there is no package {workflow}; there are: {known}", param_hint="WORKFLOW")
        try:
            return await ground.acceptance.accept(request)
        except NotStorableError as error:
            raise click.BadParameter(str(error), param_hint="--input") from None
