"""Another version of the product: a commit's tree in a folder of its own, with this environment's libraries."""

import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


class UnknownCommitError(LookupError):
    """The repository has no such commit, as in a checkout without history."""


@dataclass(frozen=True, slots=True)
class ReleasedVersion:
    """`tree` is its code; that of this version is the repository itself."""

    name: str
    tree: Path

    def command(self, *arguments: str) -> tuple[str, ...]:
        return (sys.executable, "-P", str(self.tree / "unattended.py"), *arguments)

    def environment(self, **variables: str) -> dict[str, str]:
        """The installed package is this version: PYTHONPATH comes before it, also in processes that a role starts."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("UNATTENDED_")}
        return {**inherited, "PYTHONPATH": str(self.tree), **variables}


THIS_VERSION = ReleasedVersion("new", REPOSITORY)


@contextmanager
def unpack_version(commit: str, *, name: str = "old") -> Iterator[ReleasedVersion]:
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=REPOSITORY, capture_output=True, check=False
    )
    if archive.returncode:
        raise UnknownCommitError(archive.stderr.decode(errors="replace").strip())
    with tempfile.TemporaryDirectory(prefix="unattended-version-") as folder:
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
            tar.extractall(folder, filter="data")
        yield ReleasedVersion(name, Path(folder))
