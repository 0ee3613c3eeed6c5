"""The package loader: raw files, then normal form, then checks across files.

It executes no package code.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from workflows.package.checks.package_checks import check_package
from workflows.package.files.data_files import MAX_FILE_BYTES
from workflows.package.files.package_files import (
    FIRST_ERA,
    STEMS,
    SUFFIXES,
    UI_CONFIG,
    is_first_era,
    looks_like_package,
    read_package_files,
)
from workflows.package.files.package_tree import PackageTree, PackageTreeFile, compute_version, read_tree
from workflows.package.findings import Finding, Findings, PackageError, limit_findings
from workflows.package.normal_form.package_model import EntryCounts, Package
from workflows.package.readers.entry_counts import count_entries
from workflows.package.readers.package_reader import PackageReader
from workflows.package.readers.task_batches_reader import report_task_batches

_PACKAGE_FILES = frozenset(f"{stem}{suffix}" for stem in (*STEMS, UI_CONFIG) for suffix in SUFFIXES)

Verdict = Literal["ready", "findings", "refused"]


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of reading a folder.

    `package` is None if it could not be read; `findings` have the reason.
    """

    name: str
    folder: Path
    counts: EntryCounts
    findings: tuple[Finding, ...]
    package: Package | None = None

    @property
    def verdict(self) -> Verdict:
        if self.package is None or any(finding.level == "error" for finding in self.findings):
            return "refused"
        return "findings" if self.findings else "ready"

    @property
    def obstacles(self) -> tuple[Finding, ...]:
        """The findings because of which the package starts no runs."""
        return tuple(finding for finding in self.findings if finding.level == "error" or finding.is_blocking)


def inspect_package(folder: Path, *, production: bool = False) -> Inspection:
    """Reads and checks a folder.

    Every problem becomes a finding, also a folder that is not a package.
    """
    try:
        return _inspect(folder.resolve(), production=production)
    except (OSError, RuntimeError) as error:  # circular links, or a file that no reader expects
        return _failed_inspection(folder, "unreadable", f"cannot be read: {getattr(error, 'strerror', None) or error}")


def load_package(folder: Path) -> Package:
    """Returns a package; its errors are findings.

    Raises PackageError if the folder is not a package.
    """
    inspection = inspect_package(folder)
    if inspection.package is None:
        raise PackageError(inspection.findings[0])
    return inspection.package


def _inspect(folder: Path, *, production: bool) -> Inspection:
    if is_first_era(folder):
        message = "is a package of the first format, with agents in Python; write orchestrator.yaml and agents.yaml"
        return _failed_inspection(folder, "unsupported_era", message, file=f"{FIRST_ERA}.json")
    if not looks_like_package(folder):
        message = "is not a package: it needs an orchestrator and an agents file (.yaml, .yml or .json)"
        return _failed_inspection(folder, "not_a_package", message)
    findings = Findings()
    tree = read_tree(folder)
    version, problems = _compute_version(tree)  # before the files: an edit in between is seen at the next check
    files = read_package_files(folder, findings)
    _add_tree_problems(problems, findings)
    reader = PackageReader(folder, files, findings)
    package = reader.read_package(version)
    report_task_batches(folder, findings, agents=package.agents.keys())
    if reader.is_complete:  # else references to unread parts would look wrong
        check_package(package, findings, production=production)
    limited = limit_findings(findings.all)
    return Inspection(package.name, folder, count_entries(reader.files), limited, replace(package, findings=limited))


def _failed_inspection(folder: Path, code: str, message: str, *, file: str | None = None) -> Inspection:
    finding = Finding("error", code, file or str(folder), "", message)
    return Inspection(folder.name, folder, EntryCounts(), (finding,))


def _compute_version(tree: PackageTree) -> tuple[str, tuple[Finding, ...]]:
    """Returns the version and the problems of the files.

    The version is empty if a file is unreadable or too large.
    """
    if any(problem.level == "error" for problem in tree.problems) or any(_is_too_large(file) for file in tree.files):
        return "", tree.problems
    try:
        return compute_version(tree), tree.problems
    except OSError as error:
        place = Path(str(error.filename or "")).name
        message = f"cannot be read: {error.strerror or error}"
        return "", (*tree.problems, Finding("error", "unreadable", place, "", message))


def _is_too_large(file: PackageTreeFile) -> bool:
    return file.size > MAX_FILE_BYTES and file.name in _PACKAGE_FILES


def _add_tree_problems(problems: tuple[Finding, ...], findings: Findings) -> None:
    reported_files = {finding.file for finding in findings.all}
    for problem in problems:
        if problem.file not in reported_files:
            findings.add_finding(problem)
