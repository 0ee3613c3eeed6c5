"""`unattended packages`: the packages on disk, their verdicts and findings."""

from typing import Any

import click

from ops.cli.command import DeferredCommand, Group
from ops.cli.completion import complete_with, find_workflows
from ops.cli.exit_codes import EXIT_FAILURE
from ops.cli.output import exit_with_error, json_option, print_json, print_table
from ops.cli.packages.verdicts import inspection_json, print_verdict
from ops.missing_requirements import add_missing_requirements
from ops.presenters.printable_text import to_encodable
from workers.settings import load_settings
from workflows.package.catalog import Catalog, package_directories
from workflows.package.loader import Inspection
from workflows.package.normal_form.package_model import Package

_NOT_STARTED_TEXT = "runs of this version are not started; running processes keep the last good version"


@click.group(cls=Group)
def packages() -> None:
    """Lists and shows packages, exports their schemas."""


@packages.command(
    "list",
    examples=["unattended packages list", "unattended packages list --json"],
    related=["validate", "triggers list"],
)
@json_option
def list_packages(as_json: bool) -> None:
    """Lists packages, and whether runs of them are started.

    Shows the verdict of `unattended validate` on the files as they are now. After a broken edit, running roles keep the
    last good version.
    """
    rows: list[dict[str, Any]] = [
        {
            "name": to_encodable(inspection.name),
            "verdict": inspection.verdict,
            "started": started is not None,
            "findings": len(inspection.findings),
            "agents": inspection.counts.agents,
            "version": started.version if started is not None else "",
            "folder": to_encodable(str(inspection.folder)),
        }
        for inspection, started in _inspect_packages()
    ]
    if as_json:
        print_json(rows)
        return
    columns = list(rows[0]) if rows else ["nothing found"]
    print_table("Packages", columns, [list(row.values()) for row in rows])


@packages.command("show", examples=["unattended packages show DailyDigest"], related=["validate", "packages list"])
@click.argument("name", shell_complete=complete_with(find_workflows))
@json_option
def show_package(name: str, as_json: bool) -> None:
    """Shows every finding about one package.

    Exit code 1 when the package is refused.
    """
    found = [pair for pair in _inspect_packages() if name in (pair[0].name, pair[0].folder.name)]
    if not found:
        exit_with_error(f"there is no package {name}; `unattended packages list` lists the packages")
    # Several folders may have one name; only one of them is started.
    inspection, started = next((pair for pair in found if pair[1] is not None), found[0])
    refused = inspection.verdict == "refused"
    version = started.version if started is not None else ""
    if as_json:
        state = {"started": started is not None, "version": version, "refused": refused}
        print_json({**inspection_json(inspection, inspection.folder), **state})
    else:
        print_verdict(inspection, inspection.folder)
        click.echo(f"version {version}" if version else _NOT_STARTED_TEXT)
    raise SystemExit(EXIT_FAILURE if refused else 0)


def _inspect_packages() -> list[tuple[Inspection, Package | None]]:
    """Inspect each package folder on disk, and pair it with the version that is started."""
    settings = load_settings()
    catalog = Catalog(package_directories(settings.packages))
    started = {package.folder: package for package in catalog.packages().values()}
    found = catalog.inspections()
    names = {inspection.name for inspection in found}
    return [
        (add_missing_requirements(inspection, settings, workflows=names), started.get(inspection.folder))
        for inspection in found
    ]


packages.add_command(
    DeferredCommand(
        "schema",
        "ops.cli.packages.schema_command:export_schema",
        "Prints the JSON Schema of one package file, or of all.",
    )
)
