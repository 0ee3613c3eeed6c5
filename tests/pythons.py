"""The oldest and the newest Python of those that we support and this machine has, as `3.13 /path` lines.

    python -m tests.pythons

The Python that runs this is left out: it has an environment already.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13")
# Its own version, and only where it can make an environment: Debian has venv in a package of its own.
ASKED = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"


def installed(version: str) -> str | None:
    """On the PATH, or one of pyenv's, whose command on the PATH starts only the version that is chosen there."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python")))]
    return next((path for path in candidates if path and _version(path) == version), None)


def _version(path: str) -> str | None:
    try:
        done = subprocess.run([path, "-c", ASKED], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def others(found: Mapping[str, str], *, running: str) -> dict[str, str]:
    """The first and the last of what is there, without the running one."""
    there = [version for version in SUPPORTED if version in found or version == running]
    return {version: found[version] for version in dict.fromkeys((there[0], there[-1])) if version != running}


def main() -> None:
    running = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if running not in SUPPORTED:
        return
    found = {version: path for version in SUPPORTED if version != running and (path := installed(version))}
    for version, path in others(found, running=running).items():
        sys.stdout.write(f"{version} {path}\n")


if __name__ == "__main__":
    main()
