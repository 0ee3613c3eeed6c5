"""`unattended triggers create`, `edit` and `remove`: triggers that no package declares."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_apps, find_workflows
from ops.cli.output import json_option, print_json
from ops.cli.runs.run_options import operator_name
from ops.cli.triggers.trigger_options import NAME_ARGUMENT, exit_on_refusal, with_triggers
from workers.control.errors import RefusedError
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
    help="What it starts. May also stand in FILE, beside `spec`.",
)
@click.option(
    "--app",
    "app_id",
    shell_complete=complete_with(find_apps),
    help="Whose trigger it is, and whose runs it starts. May also stand in FILE.",
)
@click.option("--type", "type_", metavar="TYPE", help="Such as schedule or webhook. May also stand in FILE.")
@json_option
def create(source: str, workflow: str | None, app_id: str | None, type_: str | None, as_json: bool) -> None:
    """Makes a trigger of one app, without touching a package.

    It is at work within seconds. FILE holds one entry of a package's triggers.yaml, as YAML or JSON; - reads it from
    stdin.
    """
    given = _read_entry(source)
    wrapped = given if isinstance(given.get("spec"), Mapping) else {"spec": given}
    workflow = _single_value("workflow", "--workflow", workflow, wrapped)
    app_id = _single_value("app_id", "--app", app_id, wrapped)
    spec = (
        wrapped["spec"]
        if type_ is None
        else {**wrapped["spec"], "type": _single_value("type", "--type", type_, wrapped["spec"])}
    )

    async def work(ground: "ControlContext") -> "dict[str, Any]":
        from triggers.control.runtime_triggers import create_trigger
        from triggers.control.trigger_view import show

        return await show(ground, await create_trigger(ground, workflow, app_id, spec, by=operator_name()))

    with exit_on_refusal():
        _print_trigger(with_triggers(work), "made", as_json=as_json)


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
@click.option("--app", "app_id", shell_complete=complete_with(find_apps), help="Whose trigger it is.")
@click.option("--revision", type=click.IntRange(min=1), help="Only if it is still this one, as `show` tells it.")
@json_option
def edit(name: str, source: str, app_id: str | None, revision: int | None, as_json: bool) -> None:
    """Replaces the whole entry of a trigger made at run time.

    One that was made by `create` or over HTTP; FILE as there.
    """
    given = _read_entry(source)
    spec = given["spec"] if isinstance(given.get("spec"), Mapping) else given

    async def work(ground: "ControlContext") -> "dict[str, Any]":
        from triggers.control.runtime_triggers import edit as edit_it
        from triggers.control.trigger_names import find_trigger
        from triggers.control.trigger_view import show

        known = await find_trigger(ground, name, app_id=app_id)
        return await show(ground, await edit_it(ground, known, spec, by=operator_name(), revision=revision))

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
@click.option("--app", "app_id", shell_complete=complete_with(find_apps), help="Whose trigger it is.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked, as in scripts.")
@json_option
def remove(name: str, app_id: str | None, yes: bool, as_json: bool) -> None:
    """Removes a trigger that was made at run time.

    By `create` or over HTTP. Its runs stay.
    """
    with exit_on_refusal():
        known = with_triggers(lambda ground: _find_trigger(ground, name, app_id))
        if not yes and known.app_id is not None:  # of a package's the refusal comes below
            _confirm_removal(known.id)
        with_triggers(lambda ground: _remove_trigger(ground, known))
    if as_json:
        print_json({"trigger_id": known.id, "removed": True})
    else:
        click.echo(f"{known.id} is removed")


async def _find_trigger(ground: "ControlContext", name: str, app_id: str | None) -> "TriggerEntry":
    from triggers.control.trigger_names import find_trigger

    return await find_trigger(ground, name, app_id=app_id)


async def _remove_trigger(ground: "ControlContext", known: "TriggerEntry") -> None:
    from triggers.control.runtime_triggers import remove as remove_it

    await remove_it(ground, known, by=operator_name())


def _confirm_removal(trigger_id: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(f"nobody can be asked whether to remove {trigger_id}: say --yes")
    if not click.confirm(f"remove {trigger_id}?", err=True):
        raise RefusedError("nothing was changed")


def _read_entry(source: str) -> dict[str, Any]:
    try:
        text, is_json = _read_text(source)
        data = parse_document(text, is_json=is_json).data
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"{error}; save it as UTF-8"
        raise click.BadParameter(f"{source} cannot be read: {why}", param_hint="FILE") from None
    except UnreadableError as error:
        raise click.BadParameter(f"{error}; {_EXAMPLE_TEXT}", param_hint="FILE") from None
    if isinstance(data, list) and len(data) == 1:  # with the dash that it has in a package
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
    written = entry.get(field)
    if argument is None and written is None:
        raise click.UsageError(f"say {option}, or write {field} beside spec")
    if argument is not None and written not in (None, argument):
        raise click.UsageError(f"{option} says {argument}, and FILE says {written}; keep one of them")
    return str(written if argument is None else argument)


def _print_trigger(trigger: Mapping[str, Any], outcome: str, *, as_json: bool) -> None:
    if as_json:
        print_json(trigger)
        return
    click.echo(f"{trigger['trigger_id']} is {outcome}, revision {trigger['revision']}")
    if trigger["inactive"]:
        click.echo(f"unattended: it starts nothing yet: {trigger['inactive']}", err=True)
    click.echo(f"look at it: unattended triggers show {trigger['trigger_id']}", err=True)
