"""`unattended validate`: checks packages without running their code."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from ops.cli.command import command
from ops.cli.exit_codes import EXIT_FAILURE
from ops.cli.output import json_option, print_json
from ops.cli.packages.verdicts import inspection_json, print_strict_result, print_totals, print_verdict
from ops.cli.progress import show_progress
from ops.missing_requirements import add_missing_requirements
from workers.settings import Settings, load_settings
from workflows.package.catalog import find_package_folders, name_taken_finding, package_directories
from workflows.package.loader import Inspection, inspect_package


@command(
    "validate",
    examples=[
        "unattended validate",
        "unattended validate workflows/Refunds --production",
        "unattended validate --strict",
        "unattended validate --json",
    ],
    related=["run", "packages list", "packages schema"],
)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@json_option
@click.option("--production", is_flag=True, help="Check as with ENVIRONMENT=production: without environment variables.")
@click.option("--strict", is_flag=True, help="Count warnings as errors: exit code 1.")
def validate(paths: tuple[Path, ...], as_json: bool, production: bool, strict: bool) -> None:
    """Checks packages: ready, with findings, or refused, and why.

    PATH is a package or a directory of packages. Default: the directories of UNATTENDED_PACKAGES. Package code is
    parsed, never run. Exit code 1 when a package is refused; with --strict also when one has a warning.
    """
    settings = load_settings()
    found = _inspect_all(paths, settings, production=production or settings.production)
    inspections = [inspection for _, inspection in found]
    warnings = sum(finding.level == "warning" for inspection in inspections for finding in inspection.findings)
    if as_json:
        strict_result = {"strict": True, "warnings": warnings} if strict else {}
        print_json({"packages": [inspection_json(inspection, path) for path, inspection in found], **strict_result})
    else:
        for path, inspection in found:
            print_verdict(inspection, path)
        print_totals(inspections)
        if strict:
            print_strict_result(warnings)
    refused = any(inspection.verdict == "refused" for inspection in inspections)
    raise SystemExit(EXIT_FAILURE if refused or (strict and warnings) else 0)


def _inspect_all(paths: Sequence[Path], settings: Settings, *, production: bool) -> list[tuple[Path, Inspection]]:
    folders = list(_package_folders(paths or package_directories(settings.packages), is_argument=bool(paths)))
    inspected: dict[Path, Inspection] = {}
    with show_progress("packages checked", len(folders)) as report:
        for path in folders:
            inspected[path] = inspect_package(path, production=production)
            report(len(inspected))
    is_single = len(inspected) == 1 and inspected.keys() <= set(paths)  # then the other workflows are unknown
    names = None if is_single else {inspection.name for inspection in inspected.values()}
    found: list[tuple[Path, Inspection]] = []
    path_by_name: dict[str, Path] = {}
    for path, own_inspection in inspected.items():
        inspection = add_missing_requirements(own_inspection, settings, workflows=names)
        if inspection.package is not None:
            first_path = path_by_name.setdefault(inspection.name, path)
            if first_path != path:
                file = inspection.package.file_names.get("orchestrator", "orchestrator")
                clash = name_taken_finding(inspection.name, first_path, file=file)
                inspection = replace(inspection, findings=(clash, *inspection.findings))
        found.append((path, inspection))
    return found


def _package_folders(directories: Sequence[Path], *, is_argument: bool) -> Iterator[Path]:
    """Yield each folder once, also where several paths lead to it."""
    seen: set[Path] = set()
    for directory in directories:
        if not directory.is_dir():
            problem = "is a file; name the directory of its package" if directory.exists() else "does not exist"
            hint = "PATH" if is_argument else "UNATTENDED_PACKAGES"
            raise click.BadParameter(f"{directory} {problem}", param_hint=hint)
        for folder in find_package_folders(directory) or [directory]:
            if folder.resolve() not in seen:
                seen.add(folder.resolve())
                yield folder
