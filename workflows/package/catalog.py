"""The catalog: the packages of some directories, re-read when a file changes.

A package that changed on disk is used by the next run; a run in progress keeps the one it holds. A broken
edit keeps the last good version and is reported once.
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
log.addHandler(logging.NullHandler())  # a command sets up no log: it says itself what it finds refused

LIBRARY = Path(__file__).resolve().parent.parent / "library"
CHECK_INTERVAL_S = 1.0
SETTLE_S = 0.5
MAX_VERSIONS = 256  # a package in normal form is small; runs in progress may still go by an old one

Fingerprint = tuple[Stamp, ...]


def package_directories(configured: Sequence[Path]) -> tuple[Path, ...]:
    """What is configured; else ./workflows if it holds a package; else the packages we ship."""
    if configured:
        return tuple(path.absolute() for path in configured)
    own = Path("workflows").absolute()  # code of packages may move the working directory
    if own.is_dir() and own.resolve() != LIBRARY.parent and any(map(is_package, own.iterdir())):
        return (own,)
    return (LIBRARY,)


def find_package_folders(directory: Path) -> list[Path]:
    """A directory may be a package itself or hold packages; a broken package is one too."""
    if is_package(directory):
        return [directory]
    held = [entry for entry in sorted(directory.iterdir()) if looks_like_package(entry)] if directory.is_dir() else []
    return held or ([directory] if looks_like_package(directory) else [])


def list_package_folders(directories: Sequence[Path]) -> list[Path]:
    """Of all directories, each once. Resolved, as packages know their own folders."""
    return list(
        dict.fromkeys(folder.resolve() for directory in directories for folder in find_package_folders(directory))
    )


def name_taken_finding(name: str, holder: Path, *, file: str) -> Finding:
    message = f"the name {name} is taken by {holder}, so that no run of this one is started; rename one of them"
    return Finding("warning", "name_taken", file, "workflow_name", message, is_blocking=True)


def _is_young(written_ns: int) -> bool:
    return time.time_ns() - written_ns < SETTLE_S * 1e9


def _log_refusal(inspection: "Inspection") -> None:
    event = "package_refused" if inspection.verdict == "refused" else "package_not_started"
    said = [str(obstacle) for obstacle in inspection.obstacles]
    log.error(event, extra={"workflow": inspection.name, "folder": str(inspection.folder), "findings": said})


class Catalog:
    def __init__(self, directories: Sequence[Path]) -> None:
        self.directories = tuple(directories)
        self._fingerprints: dict[Path, Fingerprint] = {}
        self._packages: dict[str, Package] = {}
        self._versions: dict[tuple[str, str], Package] = {}
        self._inspections: dict[Path, Inspection] = {}
        self._wanted_names: dict[Path, str] = {}  # a name that another folder holds, by the folder that wants it
        self._unsettled: set[Path] = set()  # changed so lately that they are read at the next look
        self._skip_settling = False
        self._checked_at = float("-inf")
        self._lock = threading.Lock()  # a worker asks from many threads

    def packages(self) -> "Mapping[str, Package]":
        """Usable packages by workflow name, at most a second old."""
        with self._lock:
            if not self._is_fresh():
                self._refresh()
                self._checked_at = time.monotonic()
            return self._packages

    def cached_packages(self) -> "Mapping[str, Package] | None":
        """The same without waiting for a disk; None when that takes a look."""
        return self._packages if self._is_fresh() else None

    def _is_fresh(self) -> bool:
        interval_s = SETTLE_S if self._unsettled else CHECK_INTERVAL_S
        return time.monotonic() - self._checked_at < interval_s

    def invalidate(self) -> None:
        """The next question reads the directories, however recent the last look or an edit."""
        with self._lock:
            self._skip_settling = True
            self._checked_at = float("-inf")

    def get(self, workflow: str, *, version: str | None = None) -> "Package | None":
        """The version a run has pinned while this process still holds it, else the one on disk."""
        return self.find_version(self.packages(), workflow, version)

    def find_version(self, packages: "Mapping[str, Package]", workflow: str, version: str | None) -> "Package | None":
        current = packages.get(workflow)
        return current if version is None else self._versions.get((workflow, version), current)

    @property
    def refusals(self) -> Mapping[str, tuple[Finding, ...]]:
        """Why a folder is not used, by its path; a name that is also in `packages()` keeps its last good version."""
        return {
            str(inspection.folder): inspection.obstacles for inspection in self.inspections() if inspection.obstacles
        }

    def inspections(self) -> "Sequence[Inspection]":
        """Every package folder as it is on disk now, usable or not."""
        self.packages()
        return tuple(self._inspections.values())

    def explain_refusal(self, workflow: str) -> str | None:
        """What to tell somebody who wants a workflow that is here, but not in `packages()`."""
        found = next(
            (inspection for inspection in self.inspections() if inspection.name == workflow and inspection.obstacles),
            None,
        )
        if found is None:
            return None
        first, more = found.obstacles[0], len(found.obstacles) - 1
        rest = f" (and {more} more)" if more else ""
        return f"{workflow} is not started: {first}{rest}; see `unattended validate {found.folder}`"

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
            seen = read_tree(folder).fingerprint
            changed = self._fingerprints.get(folder) != seen and self._is_settled(folder, seen)
            if changed or self._is_name_free(folder):
                self._fingerprints[folder] = seen
                self._reload(folder)
        self._skip_settling = False

    def _is_settled(self, folder: Path, fingerprint: Fingerprint) -> bool:
        """A file that was written this very moment may be half of what its author means: it waits for the next look."""
        before = self._fingerprints.get(folder)
        if before is None or self._skip_settling or folder in self._unsettled:
            self._unsettled.discard(folder)
            return True
        changed = set(fingerprint) - set(before)  # empty when a file is gone, which nobody knows the time of
        if changed and not _is_young(max(ctime_ns for _, _, ctime_ns, _ in changed)):
            return True
        self._unsettled.add(folder)
        return False

    def _is_name_free(self, folder: Path) -> bool:
        """The folder that held the name this one wants is gone or has another name now."""
        return folder in self._wanted_names and self._wanted_names[folder] not in self._packages

    def _reload(self, folder: Path) -> None:
        from workflows.package.loader import inspect_package  # costs more than all that is asked of directories alone

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
