"""Commands that look at packages: what can run, why, and what their authors should know."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from ops.cli.output import json_option, print_json, print_table
from workers.settings import load_settings
from workflows.package.catalog import Catalog, package_directories
from workflows.package.findings import Finding


def _catalog() -> Catalog:
    return Catalog(package_directories(load_settings().packages))


@click.group()
def triggers() -> None:
    """Why things run."""


@triggers.command("list")
@json_option
def list_triggers(as_json: bool) -> None:
    """Every trigger of the packages here."""
    rows: list[dict[str, Any]] = [
        {
            "workflow": package.name,
            "name": spec.name,
            "type": spec.type,
            "apps": list(spec.apps) or ([str(spec.app_id)] if spec.app_id is not None else []),
        }
        for package in _catalog().packages().values()
        for spec in package.triggers
    ]
    _show(as_json, "Triggers", rows)


@click.group()
def packages() -> None:
    """What can run."""


@packages.command("list")
@json_option
def list_packages(as_json: bool) -> None:
    """Usable packages, and those that are refused."""
    catalog = _catalog()
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "verdict": "findings" if each.findings else "ready",
            "findings": len(each.findings),
            "agents": len(each.agents),
            "version": each.version,
            "folder": str(each.folder),
        }
        for each in catalog.packages().values()
    ]
    rows += [
        {
            "name": folder.rpartition("/")[2],
            "verdict": "refused",
            "findings": len(found),
            "agents": 0,
            "version": "",
            "folder": folder,
        }
        for folder, found in catalog.refused.items()
    ]
    _show(as_json, "Packages", rows)


@packages.command("show")
@click.argument("name")
@json_option
def show_package(name: str, as_json: bool) -> None:
    """One package and every finding about it. Exit code 1 when it is refused."""
    catalog = _catalog()
    package = catalog.get(name)
    refusal = next((found for folder, found in catalog.refused.items() if folder.rpartition("/")[2] == name), None)
    if package is None and refusal is None:
        click.echo(f"unattended: there is no package {name}; `unattended packages list` shows them", err=True)
        raise SystemExit(1)
    found: Sequence[Finding] = refusal or (package.findings if package is not None else ())
    if as_json:
        print_json({"name": name, "refused": refusal is not None, "findings": [asdict(each) for each in found]})
    else:
        state = "refused" if refusal is not None else f"version {package.version}" if package is not None else ""
        click.echo(f"{name}: {state}, {len(found)} findings")
        for each in found:
            click.echo(f"  {each}")
    raise SystemExit(1 if refusal is not None else 0)


def _show(as_json: bool, title: str, rows: Sequence[dict[str, Any]]) -> None:
    if as_json:
        print_json(list(rows))
        return
    columns = list(rows[0]) if rows else ["nothing found"]
    plain = [[", ".join(value) if isinstance(value, list) else value for value in row.values()] for row in rows]
    print_table(title, columns, plain)
