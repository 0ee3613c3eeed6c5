"""`unattended enqueue`: starts one run on the workers."""

from datetime import UTC, datetime

import click
from ulid import ULID

from ops.cli.command import command
from ops.cli.completion import complete_with, find_apps, find_workflows
from ops.cli.database_session import with_database
from ops.cli.output import exit_with_error, json_option, print_json
from ops.cli.parameters import parse_json_option
from workers.settings import Settings
from workers.store.run import Accepted, RunRequest, TriggerEvent
from workflows.package.trigger_specs.priority import DEFAULT_PRIORITY, MAX_PRIORITY, MIN_PRIORITY


class PackageNotStartedError(Exception):
    """A package exists but is not started; the text is the reason."""


def _parse_app_id(_context: click.Context, _option: click.Parameter, app_id: str) -> str:
    """Accept what other commands accept, so that budgets and usage of the app can be addressed."""
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
    help="App of the run.",
)
@click.option("--input", "input_text", default="{}", help="Input of the run: JSON, or @file.")
@click.option("--dedupe", help="Id of the event; the same id again starts no second run.")
@click.option(
    "--priority",
    type=click.IntRange(MIN_PRIORITY, MAX_PRIORITY),
    default=DEFAULT_PRIORITY,
    show_default=True,
    help="Order among the waiting runs of the app; 9 starts first.",
)
@json_option
def enqueue(workflow: str, app_id: str, input_text: str, dedupe: str | None, priority: int, as_json: bool) -> None:
    """Starts one run of WORKFLOW on the workers."""
    event = TriggerEvent(type="api", name="cli", id=dedupe or str(ULID()), fired_at=datetime.now(UTC))
    run_input = parse_json_option(input_text, "--input")
    request = RunRequest(app_id, workflow, event, input=run_input, priority=priority)
    try:
        accepted = with_database(lambda _, settings: _enqueue(settings, request), redis=True)
    except PackageNotStartedError as error:
        exit_with_error(str(error))
    if as_json:
        print_json({"run_id": accepted.run_id, "created": accepted.created})
        return
    click.echo(f"{accepted.run_id}{'' if accepted.created else '  (duplicate id; no new run was started)'}")


async def _enqueue(settings: Settings, request: RunRequest) -> Accepted:
    from triggers.role_context import open_role_context
    from workers.store.storable import NotStorableError

    async with open_role_context(settings) as context:
        workflow = request.workflow
        if context.catalog.get(workflow) is None:
            reason = context.catalog.explain_refusal(workflow)
            if reason is not None:
                raise PackageNotStartedError(reason)
            names = ", ".join(sorted(context.catalog.packages())) or "none"
            raise click.BadParameter(f"there is no package {workflow}; packages: {names}", param_hint="WORKFLOW")
        try:
            return await context.acceptance.accept(request)
        except NotStorableError as error:
            raise click.BadParameter(str(error), param_hint="--input") from None
