"""The catalog: packages of several directories, read again after changes.

The next run uses a changed package; a run in progress keeps its version. After a broken edit the catalog keeps the
last good version and logs the findings once.
"""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from workflows.package.files.package_files import is_package, looks_like_package
from workflows.package.files.package_tree import Stamp, read_tree
from workflows.package.findings import Finding

if TYPE_CHECKING:
    from workflows.package.loader import Inspection
    from workflows.package.normal_form.package_model import Package

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # commands configure no log: they print refusals themselves

LIBRARY = Path(__file__).resolve().parent.parent / "library"
CHECK_INTERVAL_S = 1.0
SETTLE_S = 0.5
MAX_VERSIONS = 256  # a package in normal form is small; runs in progress may need an old version

Fingerprint = tuple[Stamp, ...]


def package_directories(configured: Sequence[Path]) -> tuple[Path, ...]:
    """Returns the configured directories, ./workflows, or the shipped packages.

    ./workflows is used only if it has a package.
    """
    if configured:
        return tuple(path.absolute() for path in configured)
    own = Path("workflows").absolute()  # package code may change the working directory
    if own.is_dir() and own.resolve() != LIBRARY.parent and any(map(is_package, own.iterdir())):
        return (own,)
    return (LIBRARY,)


def find_package_folders(directory: Path) -> list[Path]:
    """Returns the packages in a directory, or the directory itself if it is one.

    Includes broken ones.
    """
    if is_package(directory):
        return [directory]
    folders = (
        [entry for entry in sorted(directory.iterdir()) if looks_like_package(entry)] if directory.is_dir() else []
    )
    return folders or ([directory] if looks_like_package(directory) else [])


def list_package_folders(directories: Sequence[Path]) -> list[Path]:
    """Returns the package folders of all directories as resolved paths, each once."""
    return list(
        dict.fromkeys(folder.resolve() for directory in directories for folder in find_package_folders(directory))
    )


def name_taken_finding(name: str, holder: Path, *, file: str) -> Finding:
    message = f"the workflow name {name} is already used by {holder}, so this package starts no runs; rename one"
    return Finding("warning", "name_taken", file, "workflow_name", message, is_blocking=True)


def _is_young(written_ns: int, settle_s: float = SETTLE_S) -> bool:
    return time.time_ns() - written_ns < settle_s * 1e9


def _log_refusal(inspection: "Inspection") -> None:
    event = "package_refused" if inspection.verdict == "refused" else "package_not_started"
    findings = [str(obstacle) for obstacle in inspection.obstacles]
    log.error(event, extra={"workflow": inspection.name, "folder": str(inspection.folder), "findings": findings})


class Catalog:
    def __init__(
        self, directories: Sequence[Path], *, check_interval_s: float = CHECK_INTERVAL_S, settle_s: float = SETTLE_S
    ) -> None:
        """Directories are looked at every `check_interval_s`; what was written within `settle_s` is read at the next
        look, that soon after."""
        self.directories = tuple(directories)
        self._check_interval_s = check_interval_s
        self._settle_s = settle_s
        self._fingerprints: dict[Path, Fingerprint] = {}
        self._packages: dict[str, Package] = {}
        self._versions: dict[tuple[str, str], Package] = {}
        self._inspections: dict[Path, Inspection] = {}
        self._wanted_names: dict[Path, str] = {}  # by folder, its workflow name if another folder has it already
        self._unsettled: set[Path] = set()  # changed a moment ago; read at the next check
        self._skip_settling = False
        self._checked_at = float("-inf")
        self._lock = threading.Lock()  # workers call the catalog from many threads

    def packages(self) -> "Mapping[str, Package]":
        """Returns the usable packages by workflow name, at most one check interval old."""
        with self._lock:
            if not self._is_fresh():
                self._refresh()
                self._checked_at = time.monotonic()
            return self._packages

    def cached_packages(self) -> "Mapping[str, Package] | None":
        """Returns the usable packages without reading the disk; None if a check is due."""
        return self._packages if self._is_fresh() else None

    def _is_fresh(self) -> bool:
        interval_s = self._settle_s if self._unsettled else self._check_interval_s
        return time.monotonic() - self._checked_at < interval_s

    def invalidate(self) -> None:
        """Makes the next call read the directories, even after a recent check or edit."""
        with self._lock:
            self._skip_settling = True
            self._checked_at = float("-inf")

    def get(self, workflow: str, *, version: str | None = None) -> "Package | None":
        """Returns the version that a run has pinned, else the current one.

        A version is available while this process keeps it.
        """
        return self.find_version(self.packages(), workflow, version)

    def find_version(self, packages: "Mapping[str, Package]", workflow: str, version: str | None) -> "Package | None":
        current = packages.get(workflow)
        return current if version is None else self._versions.get((workflow, version), current)

    @property
    def refusals(self) -> Mapping[str, tuple[Finding, ...]]:
        """Returns the findings that block a folder, by its path.

        `packages()` may keep its last good version.
        """
        return {
            str(inspection.folder): inspection.obstacles for inspection in self.inspections() if inspection.obstacles
        }

    def inspections(self) -> "Sequence[Inspection]":
        """Returns every package folder as it is on disk now, usable or not."""
        self.packages()
        return tuple(self._inspections.values())

    def explain_refusal(self, workflow: str) -> str | None:
        """Returns why a workflow in these directories is not in `packages()`.

        Returns None for any other.
        """
        refused = next(
            (inspection for inspection in self.inspections() if inspection.name == workflow and inspection.obstacles),
            None,
        )
        if refused is None:
            return None
        first, others = refused.obstacles[0], len(refused.obstacles) - 1
        rest = f" (and {others} more)" if others else ""
        return f"{workflow} is not started: {first}{rest}; see `unattended validate {refused.folder}`"

    def _refresh(self) -> None:
        folders = list_package_folders(self.directories)
        for gone in set(self._fingerprints) - set(folders):
            del self._fingerprints[gone]
            self._wanted_names.pop(gone, None)
            self._unsettled.discard(gone)
            self._inspections = {
                folder: inspection for folder, inspection in self._inspections.items() if folder != gone
            }
            self._packages = {name: package for name, package in self._packages.items() if package.folder != gone}
        for folder in folders:
            fingerprint = read_tree(folder).fingerprint
            changed = self._fingerprints.get(folder) != fingerprint and self._is_settled(folder, fingerprint)
            if changed or self._is_name_free(folder):
                self._fingerprints[folder] = fingerprint
                self._reload(folder)
        self._skip_settling = False

    def _is_settled(self, folder: Path, fingerprint: Fingerprint) -> bool:
        """Delays a change to the next check if a file is younger than `SETTLE_S`.

        Such a file may be half written.
        """
        before = self._fingerprints.get(folder)
        if before is None or self._skip_settling or folder in self._unsettled:
            self._unsettled.discard(folder)
            return True
        changed = set(fingerprint) - set(before)  # empty after a deletion, which has no time
        if changed and not _is_young(max(ctime_ns for _, _, ctime_ns, _ in changed), self._settle_s):
            return True
        self._unsettled.add(folder)
        return False

    def _is_name_free(self, folder: Path) -> bool:
        """Returns whether the workflow name that this folder waits for is free now."""
        return folder in self._wanted_names and self._wanted_names[folder] not in self._packages

    def _reload(self, folder: Path) -> None:
        from workflows.package.loader import inspect_package  # slow import: callers that only list directories skip it

        self._wanted_names.pop(folder, None)
        inspection = inspect_package(folder)
        package = inspection.package
        holder = self._packages.get(inspection.name)
        if package is not None and not inspection.obstacles and holder is not None and holder.folder != folder:
            self._wanted_names[folder] = package.name
            clash = name_taken_finding(package.name, holder.folder, file=package.file_names["orchestrator"])
            inspection = replace(inspection, findings=(clash, *inspection.findings))
        self._inspections = {**self._inspections, folder: inspection}
        if package is None or inspection.obstacles:
            _log_refusal(inspection)
            return
        stale = {name: package for name, package in self._packages.items() if package.folder != folder}
        self._packages = {**stale, package.name: package}
        self._remember_version(package)
        log.info("package_loaded", extra={"workflow": package.name, "version": package.version})

    def _remember_version(self, package: "Package") -> None:
        self._versions[package.name, package.version] = package
        while len(self._versions) > MAX_VERSIONS:
            del self._versions[next(iter(self._versions))]
