"""The catalog: the packages of some directories, re-read when a file changes.

A package that changed on disk is used by the next run; a run in progress keeps the one it holds. A broken
edit keeps the last good version and is reported once.
"""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from workflows.package.files import content_files, is_package
from workflows.package.findings import Finding, PackageError
from workflows.package.loader import load_package
from workflows.package.models import Package

log = logging.getLogger(__name__)

LIBRARY = Path(__file__).resolve().parent.parent / "library"
CHECK_INTERVAL_S = 1.0
KEPT_VERSIONS = 256  # a package in normal form is small; runs in progress may still go by an old one

Fingerprint = tuple[tuple[str, int, int, int], ...]


def package_directories(configured: Sequence[Path]) -> tuple[Path, ...]:
    """What is configured; else ./workflows if it holds a package; else the packages we ship."""
    if configured:
        return tuple(configured)
    own = Path("workflows")
    if own.is_dir() and own.resolve() != LIBRARY.parent and any(map(is_package, own.iterdir())):
        return (own,)
    return (LIBRARY,)


def package_folders(directories: Sequence[Path]) -> list[Path]:
    """A directory may be a package itself or hold packages. Resolved, as packages know their own folders."""
    found: dict[Path, None] = {}
    for directory in directories:
        if is_package(directory):
            found[directory.resolve()] = None
        elif directory.is_dir():
            found |= {folder.resolve(): None for folder in sorted(directory.iterdir()) if is_package(folder)}
    return list(found)


def _fingerprint(folder: Path) -> Fingerprint:
    return tuple(
        (name, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size)  # ctime: a file may become readable, nothing else
        for name, path in content_files(folder)
        for stat in (path.stat(),)
    )


class Catalog:
    def __init__(self, directories: Sequence[Path]) -> None:
        self.directories = tuple(directories)
        self._fingerprints: dict[Path, Fingerprint] = {}
        self._packages: dict[str, Package] = {}
        self._earlier: dict[tuple[str, str], Package] = {}
        self._refused: dict[str, tuple[Finding, ...]] = {}
        self._wanted: dict[Path, str] = {}  # a name that another folder holds, by the folder that wants it
        self._checked_at = float("-inf")
        self._looking = threading.Lock()  # a worker asks from many threads

    def packages(self) -> Mapping[str, Package]:
        """Usable packages by workflow name, at most a second old."""
        with self._looking:
            if time.monotonic() - self._checked_at >= CHECK_INTERVAL_S:
                self._refresh()
                self._checked_at = time.monotonic()
            return self._packages

    def look_again(self) -> None:
        """The next question reads the directories, however recent the last look."""
        with self._looking:
            self._checked_at = float("-inf")

    def get(self, workflow: str, *, version: str | None = None) -> Package | None:
        """The version a run has pinned while this process still holds it, else the one on disk."""
        current = self.packages().get(workflow)
        return current if version is None else self._earlier.get((workflow, version), current)

    @property
    def refused(self) -> Mapping[str, tuple[Finding, ...]]:
        """Why a folder is not used, by its path; a name that is also in `packages()` keeps its last good version."""
        self.packages()
        return self._refused

    def _refresh(self) -> None:
        folders = package_folders(self.directories)
        for gone in set(self._fingerprints) - set(folders):
            del self._fingerprints[gone]
            self._wanted.pop(gone, None)
            self._refused.pop(str(gone), None)
            self._packages = {name: each for name, each in self._packages.items() if each.folder != gone}
        for folder in folders:
            try:
                seen = _fingerprint(folder)
            except FileNotFoundError:  # vanished while we looked: the next look sees the end of the edit
                continue
            except OSError as error:  # stays so: loading says why, once for each reason
                seen = ((str(error), 0, 0, 0),)
            if self._fingerprints.get(folder) != seen or self._name_is_free(folder):
                self._fingerprints[folder] = seen
                self._reload(folder)

    def _name_is_free(self, folder: Path) -> bool:
        """The folder that held the name this one wants is gone or has another name now."""
        return folder in self._wanted and self._wanted[folder] not in self._packages

    def _reload(self, folder: Path) -> None:
        self._wanted.pop(folder, None)
        try:
            package = load_package(folder)
        except PackageError as error:
            self._refuse(folder, (error.finding,))
            return
        holder = self._packages.get(package.name)
        if package.refused:
            self._refuse(folder, tuple(each for each in package.findings if each.level == "error"))
        elif holder is not None and holder.folder != folder:
            clash = (
                f"the name {package.name} is already taken by {holder.folder}; give one of them another workflow_name"
            )
            self._wanted[folder] = package.name
            self._refuse(folder, (Finding("error", "name_taken", "orchestrator", "workflow_name", clash),))
        else:
            stale = {name: each for name, each in self._packages.items() if each.folder != folder}
            self._packages = {**stale, package.name: package}
            self._keep(package)
            self._refused.pop(str(folder), None)
            log.info("package_loaded", extra={"workflow": package.name, "version": package.version})

    def _keep(self, package: Package) -> None:
        self._earlier[package.name, package.version] = package
        while len(self._earlier) > KEPT_VERSIONS:
            del self._earlier[next(iter(self._earlier))]

    def _refuse(self, folder: Path, findings: tuple[Finding, ...]) -> None:
        self._refused[str(folder)] = findings
        log.error("package_refused", extra={"folder": str(folder), "findings": [str(each) for each in findings]})
