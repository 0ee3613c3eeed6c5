"""What the doctor says about workflow packages and the models file, given those who can read them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from ops.doctor.checks import Check, one_line
from workers.settings import SettingsError


class PackageReport(Protocol):
    """What validating one package gave: problems keep it from running, warnings do not."""

    @property
    def name(self) -> str: ...
    @property
    def problems(self) -> Sequence[str]: ...
    @property
    def warnings(self) -> Sequence[str]: ...


async def check_packages(validate: Callable[[], Sequence[PackageReport]]) -> list[Check]:
    reports = await asyncio.to_thread(validate)
    if not reports:
        return [Check("packages", "warning", "none found", "set UNATTENDED_PACKAGES to directories that hold some")]
    return [_package(report) for report in reports]


def _package(report: PackageReport) -> Check:
    name, advice = f"package {report.name}", f"unattended validate {report.name}"
    if report.problems:
        return Check(name, "problem", f"{report.problems[0]}{_more(report.problems)}", advice)
    if report.warnings:
        return Check(name, "warning", f"{report.warnings[0]}{_more(report.warnings)}", advice)
    return Check(name, "ok", "valid")


def _more(findings: Sequence[str]) -> str:
    return f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""


async def check_models(load: Callable[[], Sequence[str]]) -> list[Check]:
    """`load` gives the aliases, or raises SettingsError with what is wrong with the file or a key."""
    try:
        aliases = await asyncio.to_thread(load)
    except SettingsError as error:
        return [Check("models", "problem", one_line(error), "correct the file that UNATTENDED_MODELS names")]
    if "default" not in aliases:
        return [Check("models", "warning", f"{', '.join(aliases) or 'none'}: no default", "add the alias default")]
    return [Check("models", "ok", ", ".join(aliases))]
