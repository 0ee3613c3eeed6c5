"""Checks of the workflow packages, the models file, and its prices."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ops.doctor.check_result import Check, Level, error_line
from ops.missing_requirements import find_disallowed_hosts
from workers.settings import Settings, SettingsError
from workflows.models_file import (
    HostedModel,
    ModelsFile,
    ModelsFileError,
    ModelSpec,
    ScriptModel,
    find_models_path,
    read_models_file,
)
from workflows.package.catalog import LIBRARY, Catalog, package_directories
from workflows.package.checks.trigger_checks import find_unknown_workflows
from workflows.package.environment_requirements import missing_environment_finding
from workflows.package.findings import Finding
from workflows.package.loader import Inspection
from workflows.package.normal_form.package_model import Package
from workflows.provider_libraries import describe_missing_library, install_command


async def check_packages_and_models(settings: Settings) -> list[Check]:
    return await asyncio.to_thread(_check_packages, settings)


def _check_packages(settings: Settings) -> list[Check]:
    directories = package_directories(settings.packages)
    catalog = Catalog(directories)
    packages = catalog.packages()
    checks = [_missing_folder(folder) for folder in directories if not folder.is_dir()]
    inspections = catalog.inspections()
    names = {inspection.name for inspection in inspections}
    checks += [_check_not_started(inspection) for inspection in inspections if inspection.obstacles]
    checks += [_check_package(package, settings, names) for package in packages.values()]
    if not checks:
        found = f"none in {', '.join(map(str, directories))}"
        advice = "put a package there, or set UNATTENDED_PACKAGES to a directory of packages"
        checks = [Check("packages", "warning", found, advice)]
    return [*checks, *_check_models(settings, packages)]


def _missing_folder(folder: Path) -> Check:
    return Check("packages", "problem", f"{folder} is not a directory", "correct UNATTENDED_PACKAGES")


def _check_not_started(inspection: Inspection) -> Check:
    level: Level = "problem" if inspection.verdict == "refused" else "warning"
    name = inspection.folder.name
    return Check(f"package {name}", level, _first_finding(inspection.obstacles), f"unattended packages show {name}")


def _check_package(package: Package, settings: Settings, workflows: Collection[str]) -> Check:
    problem = missing_environment_finding(package, settings.environ)
    if problem is not None:
        advice = "set it in the environment of the workers"
        return Check(f"package {package.name}", "problem", str(problem).removeprefix("warning: "), advice)
    warnings = [finding for finding in package.findings if finding.level == "warning"]
    warnings += [*find_disallowed_hosts(package, settings), *find_unknown_workflows(package, workflows)]
    if warnings:
        advice = f"unattended packages show {package.name}"
        return Check(f"package {package.name}", "warning", _first_finding(warnings), advice)
    return Check(f"package {package.name}", "ok", f"version {package.version}, {len(package.triggers)} triggers")


def _first_finding(findings: Sequence[Finding]) -> str:
    rest = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return f"{findings[0]}{rest}"


def _check_models(settings: Settings, packages: Mapping[str, Package]) -> list[Check]:
    path = find_models_path(settings.models, library=LIBRARY)
    try:
        file = read_models_file(path)
    except ModelsFileError as error:
        return [Check("models", "problem", error_line(error), "correct the file, or set UNATTENDED_MODELS to another")]
    models = file.models
    problems = [problem for alias, spec in models.items() if (problem := _check_model(alias, spec, settings))]
    used_aliases = {(alias, package.name) for package in packages.values() for alias in package.model_aliases}
    problems += [
        Check("models", "problem", f"{package} uses the alias {alias}, which is not defined", f"add {alias} to {path}")
        for alias, package in sorted(used_aliases)
        if alias not in models
    ]
    checks = problems or [Check("models", "ok", f"{', '.join(models)} ({path})")]
    return [*checks, *_check_prices(file)]


def _check_prices(file: ModelsFile) -> list[Check]:
    """Warn about models without a price: their calls count as zero in sums and budgets in USD."""
    today = datetime.now(UTC).date()
    hosted = {alias: spec for alias, spec in file.models.items() if isinstance(spec, HostedModel)}
    tables = {
        alias: file.prices.table_of(provider=spec.provider, model=spec.model, day=today)
        for alias, spec in hosted.items()
    }
    unpriced = [
        Check("prices", "warning", f"{alias}: no price is known for {hosted[alias].model}", f"add one to {file.path}")
        for alias, table in tables.items()
        if table is None
    ]
    known = ", ".join(f"{alias} ({table})" for alias, table in tables.items() if table is not None)
    return [*([Check("prices", "ok", known)] if known else []), *unpriced]


def _check_model(alias: str, spec: ModelSpec, settings: Settings) -> Check | None:
    if isinstance(spec, ScriptModel):
        if spec.file.is_file():
            return None
        return Check("models", "problem", f"{alias}: there is no file {spec.file}", "write it, or name another file")
    if describe_missing_library(spec.provider) is not None:
        message = f"{alias}: the library of provider {spec.provider} is not installed"
        return Check("models", "problem", message, install_command(spec.provider))
    if spec.api_key is None:
        return None
    try:
        settings.resolve_secret(spec.api_key)
    except SettingsError as error:
        return Check("models", "problem", f"{alias}: {error}", "set it for the worker role")
    return None
