"""`unattended triggers create`, `edit` and `remove`, for triggers created at run time."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_apps, find_workflows
from ops.cli.confirmation import confirm_or_exit, yes_option
from ops.cli.output import json_option, print_error, print_json
from ops.cli.runs.run_options import operator_name
from ops.cli.triggers.trigger_options import NAME_ARGUMENT, exit_on_refusal, with_triggers
from workflows.package.files.data_files import UnreadableError, parse_document

if TYPE_CHECKING:
    from triggers.control.trigger_entry import ControlContext, TriggerEntry

MAX_CHARACTERS = 1024 * 1024
_SOURCE_ARGUMENT = click.argument("source", metavar="FILE|-|JSON")
_EXAMPLE_TEXT = 'write a mapping such as {"name": "nightly", "type": "schedule", "cron": "0 2 * * *"}'


@command(
    "create",
    examples=[
        "unattended triggers create nightly.yaml --workflow DailyDigest --app acme",
        "unattended triggers create --workflow DailyDigest --app acme --type schedule @nightly.json",
        "unattended triggers create - --workflow DailyDigest --app acme < nightly.yaml",
    ],
    related=["triggers show", "triggers edit", "triggers remove"],
)
@_SOURCE_ARGUMENT
@click.option(
    "--workflow",
    shell_complete=complete_with(find_workflows),
    help="Workflow that it starts. FILE may name it too, beside `spec`.",
)
@click.option(
    "--app",
    "app_id",
    shell_complete=complete_with(find_apps),
    help="App of the trigger and of its runs. FILE may name it too.",
)
@click.option("--type", "type_", metavar="TYPE", help="Type, such as schedule or webhook. FILE may name it too.")
@json_option
def create(source: str, workflow: str | None, app_id: str | None, type_: str | None, as_json: bool) -> None:
    """Creates a trigger of one app, outside of a package.

    It takes effect within seconds. FILE holds one entry of a package's triggers.yaml, as YAML or JSON; - reads stdin.
    """
    content = _read_entry(source)
    entry = content if isinstance(content.get("spec"), Mapping) else {"spec": content}
    workflow = _single_value("workflow", "--workflow", workflow, entry)
    app_id = _single_value("app_id", "--app", app_id, entry)
    spec = entry["spec"]
    if type_ is not None:
        spec = {**spec, "type": _single_value("type", "--type", type_, spec)}

    async def work(context: "ControlContext") -> "dict[str, Any]":
        from triggers.control.runtime_triggers import create_trigger
        from triggers.control.trigger_view import show

        return await show(context, await create_trigger(context, workflow, app_id, spec, by=operator_name()))

    with exit_on_refusal():
        _print_trigger(with_triggers(work), "created", as_json=as_json)


@command(
    "edit",
    examples=[
        "unattended triggers edit nightly nightly.yaml --app acme",
        "unattended triggers edit DailyDigest/nightly nightly.yaml --app acme --revision 2",
    ],
    related=["triggers show", "triggers create"],
)
@NAME_ARGUMENT
@_SOURCE_ARGUMENT
@click.option("--app", "app_id", shell_complete=complete_with(find_apps), help="App of the trigger.")
@click.option(
    "--revision",
    type=click.IntRange(min=1),
    help="Edit only if the trigger still has this revision, as `show` prints it.",
)
@json_option
def edit(name: str, source: str, app_id: str | None, revision: int | None, as_json: bool) -> None:
    """Replaces a trigger that was created at run time.

    By `create` or over HTTP. FILE holds the whole new entry, as for `create`.
    """
    content = _read_entry(source)
    spec = content["spec"] if isinstance(content.get("spec"), Mapping) else content

    async def work(context: "ControlContext") -> "dict[str, Any]":
        from triggers.control.runtime_triggers import edit as edit_trigger
        from triggers.control.trigger_names import find_trigger
        from triggers.control.trigger_view import show

        trigger = await find_trigger(context, name, app_id=app_id)
        edited = await edit_trigger(context, trigger, spec, by=operator_name(), revision=revision)
        return await show(context, edited)

    with exit_on_refusal():
        _print_trigger(with_triggers(work), "edited", as_json=as_json)


@command(
    "remove",
    examples=[
        "unattended triggers remove nightly --app acme",
        "unattended triggers remove DailyDigest/nightly --app acme --yes",
    ],
    related=["triggers list", "triggers pause"],
)
@NAME_ARGUMENT
@click.option("--app", "app_id", shell_complete=complete_with(find_apps), help="App of the trigger.")
@yes_option
@json_option
def remove(name: str, app_id: str | None, yes: bool, as_json: bool) -> None:
    """Removes a trigger that was created at run time.

    By `create` or over HTTP. Its runs stay.
    """
    with exit_on_refusal():
        trigger = with_triggers(lambda context: _find_trigger(context, name, app_id))
        if not yes and trigger.app_id is not None:  # a package's trigger is refused below
            confirm_or_exit(f"remove {trigger.id}", has_dry_run=False)
        with_triggers(lambda context: _remove_trigger(context, trigger))
    if as_json:
        print_json({"trigger_id": trigger.id, "removed": True})
    else:
        click.echo(f"{trigger.id} is removed")


async def _find_trigger(context: "ControlContext", name: str, app_id: str | None) -> "TriggerEntry":
    from triggers.control.trigger_names import find_trigger

    return await find_trigger(context, name, app_id=app_id)


async def _remove_trigger(context: "ControlContext", trigger: "TriggerEntry") -> None:
    from triggers.control.runtime_triggers import remove as remove_trigger

    await remove_trigger(context, trigger, by=operator_name())


def _read_entry(source: str) -> dict[str, Any]:
    try:
        text, is_json = _read_text(source)
        data = parse_document(text, is_json=is_json).data
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{error}; save it as UTF-8"
        raise click.BadParameter(f"{source} cannot be read: {reason}", param_hint="FILE") from None
    except UnreadableError as error:
        raise click.BadParameter(f"{error}; {_EXAMPLE_TEXT}", param_hint="FILE") from None
    if isinstance(data, list) and len(data) == 1:  # an entry with its dash, as in a package
        data = data[0]
    if not isinstance(data, dict):
        raise click.BadParameter(_EXAMPLE_TEXT, param_hint="FILE")
    return data


def _read_text(source: str) -> tuple[str, bool]:
    if source.lstrip().startswith("{"):
        return source, True
    if source == "-":
        text = sys.stdin.read(MAX_CHARACTERS)
        return text, text.lstrip().startswith("{")
    with Path(source.removeprefix("@")).open(encoding="utf-8-sig") as file:
        return file.read(MAX_CHARACTERS), source.endswith(".json")


def _single_value(field: str, option: str, argument: str | None, entry: Mapping[str, Any]) -> str:
    value = entry.get(field)
    if argument is None and value is None:
        raise click.UsageError(f"{option} is needed, or {field} beside spec in FILE")
    if argument is not None and value not in (None, argument):
        raise click.UsageError(f"{option} is {argument}, but FILE has {value}; keep one of them")
    return str(value if argument is None else argument)


def _print_trigger(trigger: Mapping[str, Any], outcome: str, *, as_json: bool) -> None:
    if as_json:
        print_json(trigger)
        return
    click.echo(f"{trigger['trigger_id']} is {outcome}, revision {trigger['revision']}")
    if trigger["inactive"]:
        print_error(f"it starts no runs yet: {trigger['inactive']}")
    click.echo(f"details: unattended triggers show {trigger['trigger_id']}", err=True)
