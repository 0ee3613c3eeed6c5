"""The file tree of a package, within bounds, and the version of its content.

Links are followed inside a package, as mounted ConfigMaps require, and into `../_shared`, never elsewhere.
"""

import hashlib
import os
import stat
import threading
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from workflows.package.files.package_files import SHARED_FOLDER
from workflows.package.findings import Finding

MAX_FILES = 5_000
MAX_FOLDER_DEPTH = 30
MAX_TREE_BYTES = 256 * 1024 * 1024
# Not used by runs. Folders that begin with two dots are skipped too: a mounted ConfigMap links into them.
SKIPPED_FOLDERS = frozenset({"__pycache__", ".git", ".venv", "node_modules"})
_MIN_SETTLED_NS = 2_000_000_000  # the coarsest file system clock in use
_MAX_DIGESTS = 50_000

Stamp = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class PackageTreeFile:
    """A file.

    `name` is relative to the package, so it does not depend on the package's location.
    """

    name: str
    path: Path
    size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def stamp(self) -> Stamp:
        return (self.name, self.mtime_ns, self.ctime_ns, self.size)  # ctime changes alone when a file becomes readable


@dataclass(frozen=True, slots=True)
class PackageTree:
    """The files of a package. If `problems` is not empty, files are missing."""

    files: tuple[PackageTreeFile, ...]
    problems: tuple[Finding, ...] = ()

    @property
    def fingerprint(self) -> tuple[Stamp, ...]:
        return (*(file.stamp for file in self.files), *((str(problem), 0, 0, 0) for problem in self.problems))


def read_tree(folder: Path, *, max_files: int = MAX_FILES) -> PackageTree:
    """Lists the files of the package and of `../_shared`.

    A link out of both is a problem.
    """
    root = folder.resolve()
    shared = root.parent / SHARED_FOLDER
    walk = _TreeWalk((root, shared), max_files=max_files)
    files = [
        *walk.collect_files(root, ""),
        *_TreeWalk((shared,), max_files=max_files, count=walk.count).collect_files(shared, f"../{SHARED_FOLDER}/"),
    ]
    problem = None
    if len(files) > max_files or walk.has_too_many:
        problem = ("too_many_files", f"has more than {max_files} files and folders")
    elif sum(file.size for file in files) > MAX_TREE_BYTES:
        problem = ("package_too_large", f"is larger than {MAX_TREE_BYTES >> 20} MB")
    if problem is not None:
        message = f"{problem[1]}, {SHARED_FOLDER} beside it included; move files elsewhere that no run uses"
        return PackageTree((), (Finding("error", problem[0], root.name, "", message),))
    return PackageTree(tuple(files), tuple(walk.problems))


class _TreeWalk:
    """Walks a tree.

    Visits each folder once, even if several links lead to it, and stops at the limit of entries.
    """

    def __init__(self, roots: tuple[Path, ...], *, max_files: int, count: int = 0) -> None:
        self.roots = roots
        self.max_files = max_files
        self.count = count
        self.problems: list[Finding] = []

    @property
    def has_too_many(self) -> bool:
        return self.count > self.max_files

    def collect_files(self, root: Path, prefix: str) -> list[PackageTreeFile]:
        files: list[PackageTreeFile] = []
        seen = _root_identity(root)  # links may be circular
        folders = [(root, prefix)]
        while folders and not self.has_too_many:
            folder, prefix = folders.pop()
            for entry in self._scan_folder(folder, prefix):
                name = prefix + entry.name
                facts = self._stat_entry(entry, name)
                if facts is not None and stat.S_ISDIR(facts.st_mode):
                    identity = (facts.st_dev, facts.st_ino)
                    if identity not in seen and self._should_enter(entry.name, name):
                        folders.append((Path(entry.path), f"{name}/"))
                        seen.add(identity)
                elif facts is not None and stat.S_ISREG(facts.st_mode):
                    times = (facts.st_mtime_ns, facts.st_ctime_ns)
                    files.append(PackageTreeFile(name, Path(entry.path), facts.st_size, *times))
        return sorted(files, key=lambda file: file.name)

    def _scan_folder(self, folder: Path, prefix: str) -> list[os.DirEntry[str]]:
        """Lists entries sorted by name.

        So of two links to one folder the same one is always used.
        """
        try:
            with os.scandir(folder) as listed:
                entries = sorted(islice(listed, self.max_files + 1 - self.count), key=lambda entry: entry.name)
        except FileNotFoundError:  # _shared does not exist, or was just deleted
            return []
        except OSError as error:
            message = f"cannot be read: {error.strerror or error}"
            self.problems.append(Finding("error", "unreadable", prefix.rstrip("/") or folder.name, "", message))
            return []
        self.count += len(entries)
        return entries

    def _stat_entry(self, entry: os.DirEntry[str], name: str) -> os.stat_result | None:
        """Returns None for links out of the package and for broken links.

        The reader of a file reports a broken link.
        """
        try:
            if entry.is_symlink() and not self._is_inside(Path(entry.path).resolve(strict=True), name):
                return None
            return entry.stat()
        except (OSError, RuntimeError):  # just deleted, or circular links
            return None

    def _should_enter(self, folder: str, name: str) -> bool:
        if folder in SKIPPED_FOLDERS or folder.startswith(".."):
            return False
        if name.count("/") < MAX_FOLDER_DEPTH:
            return True
        message = f"is more than {MAX_FOLDER_DEPTH} folders deep; move files elsewhere that no run uses"
        self.problems.append(Finding("error", "too_many_files", name, "", message))
        return False

    def _is_inside(self, target: Path, name: str) -> bool:
        if any(target.is_relative_to(root) for root in self.roots):
            return True
        message = "is a link out of the package and is not followed; copy its target into the package"
        self.problems.append(Finding("error", "leaves_package", name, "", message))
        return False


def _root_identity(folder: Path) -> set[tuple[int, int]]:
    try:
        facts = folder.stat()
    except OSError:  # the folder does not exist
        return set()
    return {(facts.st_dev, facts.st_ino)}


def compute_content_version(folder: Path) -> str:
    """Returns the version of a folder's content; empty if a file cannot be read."""
    tree = read_tree(folder)
    return "" if any(problem.level == "error" for problem in tree.problems) else compute_version(tree)


def compute_version(tree: PackageTree) -> str:
    """Hashes names and contents. Raises OSError if a file cannot be read."""
    digest = hashlib.sha256()
    for file in tree.files:
        digest.update(file.name.encode(errors="surrogateescape") + b"\0")
        digest.update(_digests.digest_of(file))
    return digest.hexdigest()[:16]


class _DigestCache:
    """Caches the digest of each file until its stamp changes."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Stamp, bytes]] = {}
        self._lock = threading.Lock()

    def digest_of(self, file: PackageTreeFile) -> bytes:
        with self._lock:
            stamp, digest = self._known.get(file.path, (None, b""))
        if stamp == file.stamp:
            return digest
        with file.path.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").digest()
        # A file written a moment ago may be written again within one tick of the clock, with equal times.
        if time.time_ns() - file.ctime_ns > _MIN_SETTLED_NS:
            self._remember(file, digest)
        return digest

    def _remember(self, file: PackageTreeFile, digest: bytes) -> None:
        with self._lock:
            if len(self._known) >= _MAX_DIGESTS:
                self._known.clear()
            self._known[file.path] = (file.stamp, digest)


_digests = _DigestCache()
