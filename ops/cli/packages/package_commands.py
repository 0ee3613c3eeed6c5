"""Commands that look at packages: what can run, why, and what their authors should know."""

from collections.abc import Sequence
from typing import Any

import click

from ops.cli.command import DeferredCommand, Group
from ops.cli.completion import complete_with, find_workflows
from ops.cli.output import json_option, print_json, print_table
from ops.presenters.printable_text import inspection_json, print_verdict, to_encodable
from ops.unmet_needs import add_unmet_needs
from workers.settings import load_settings
from workflows.package.catalog import Catalog, package_directories
from workflows.package.loader import Inspection
from workflows.package.normal_form.package_model import Package

_NOT_STARTED_TEXT = "not started in this state; running processes keep the last good version"


@click.group(cls=Group)
def packages() -> None:
    """What can run."""


@packages.command(
    "list",
    examples=["unattended packages list", "unattended packages list --json"],
    related=["validate", "triggers list"],
)
@json_option
def list_packages(as_json: bool) -> None:
    """Lists every package, and whether it is started.

    With what `unattended validate` says of it. As the files are now: after a broken edit a running role goes on with
    the version before it.
    """
    rows: list[dict[str, Any]] = [
        {
            "name": to_encodable(each.name),
            "verdict": each.verdict,
            "started": started is not None,
            "findings": len(each.findings),
            "agents": each.counts.agents,
            "version": started.version if started is not None else "",
            "folder": to_encodable(str(each.folder)),
        }
        for each, started in _inspect_packages()
    ]
    _print_rows(as_json, "Packages", rows)


@packages.command("show", examples=["unattended packages show DailyDigest"], related=["validate", "packages list"])
@click.argument("name", shell_complete=complete_with(find_workflows))
@json_option
def show_package(name: str, as_json: bool) -> None:
    """Tells every finding about one package.

    Exit code 1 when it is refused.
    """
    found = [(each, started) for each, started in _inspect_packages() if name in (each.name, each.folder.name)]
    if not found:
        click.echo(f"unattended: there is no package {name}; `unattended packages list` shows them", err=True)
        raise SystemExit(1)
    # Of several with one name: the one that is started.
    inspection, started = next((pair for pair in found if pair[1] is not None), found[0])
    refused = inspection.verdict == "refused"
    version = started.version if started is not None else ""
    if as_json:
        more = {"started": started is not None, "version": version, "refused": refused}
        print_json({**inspection_json(inspection, inspection.folder), **more})
    else:
        print_verdict(inspection, inspection.folder)
        click.echo(f"version {version}" if version else _NOT_STARTED_TEXT)
    raise SystemExit(1 if refused else 0)


def _inspect_packages() -> list[tuple[Inspection, Package | None]]:
    """Each package folder as it is on disk, and what is started of it: a broken edit keeps the last good version."""
    settings = load_settings()
    catalog = Catalog(package_directories(settings.packages))
    by_folder = {package.folder: package for package in catalog.packages().values()}
    found = catalog.inspections()
    names = {each.name for each in found}
    return [(add_unmet_needs(each, settings, workflows=names), by_folder.get(each.folder)) for each in found]


def _print_rows(as_json: bool, title: str, rows: Sequence[dict[str, Any]]) -> None:
    if as_json:
        print_json(list(rows))
        return
    columns = list(rows[0]) if rows else ["nothing found"]
    plain = [[", ".join(value) if isinstance(value, list) else value for value in row.values()] for row in rows]
    print_table(title, columns, plain)


packages.add_command(
    DeferredCommand(
        "schema",
        "ops.cli.packages.schema_command:export_schema",
        "Prints the JSON Schema of one package file, or of all.",
    )
)
