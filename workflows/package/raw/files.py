"""Package files: finds them, reads each on its own, unwraps what authors wrap."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workflows.package.findings import Finding, Findings, PackageError
from workflows.package.raw.data_files import read_document
from workflows.package.raw.yaml_events import Note, read_yaml

STEMS = (
    "orchestrator",
    "agents",
    "context_variables",
    "handoffs",
    "transition_graph",
    "tools",
    "structured_outputs",
    "hooks",
    "middleware",
    "triggers",
)
NEEDED = ("orchestrator", "agents")
FIRST_ERA = "workflow"  # one file with everything, its agents in Python
SCREENS = "ui_config"
TASK_BATCHES = "extended_orchestration/task_batches"
SUFFIXES = (".yaml", ".yml", ".json")
SHARED = "_shared"  # beside a package; the one place outside of it that its tools may come from
# Beside packages and never one, whatever lies in them.
_NO_PACKAGES = frozenset({SHARED, "_pack", "__pycache__"})

# A bare list is the list that its file is named after.
_BARE_LISTS = {
    **{stem: stem for stem in ("agents", "tools", "hooks", "triggers")},
    "context_variables": "definitions",
    "handoffs": "handoff_rules",
    "transition_graph": "transition_rules",
    "middleware": "prompt_middleware",
}
# What is inside of `{"tools": {...}}` must look like the body, since the entries of a list have names too.
_WRAPPED = {
    "tools": ("tools", "lifecycle_tools", "backend_tools", "ui_tools"),
    "hooks": ("hooks", "prompt_middleware"),
    "middleware": ("hooks", "prompt_middleware"),
    "triggers": ("triggers",),
}


@dataclass(frozen=True, slots=True)
class PackageFile:
    """`readable`: else there is a finding that says why not, and `body` is empty."""

    name: str
    body: Any
    readable: bool = True


def is_package(folder: Path) -> bool:
    return folder.is_dir() and all(_candidates(folder, stem) for stem in NEEDED)


def looks_like_package(folder: Path) -> bool:
    """Also a broken one: who has a part of a package is told what is missing, it is never skipped in silence."""
    if folder.name in _NO_PACKAGES or folder.name.startswith(".") or not folder.is_dir():
        return False
    return any(_candidates(folder, stem) for stem in NEEDED) or is_first_era(folder)


def is_first_era(folder: Path) -> bool:
    return os.path.lexists(folder / f"{FIRST_ERA}.json") and not any(_candidates(folder, stem) for stem in NEEDED)


def read_package_files(folder: Path, findings: Findings) -> dict[str, PackageFile]:
    """By stem. What cannot be read is a finding, and the others are read all the same."""
    files = {stem: found for stem in STEMS if (found := _read_stem(folder, stem, findings)) is not None}
    for stem in NEEDED:
        if stem not in files:
            message = f"is missing; a package needs {stem}.yaml (or .yml, or .json)"
            findings.add("error", "missing_file", stem, "", message)
            files[stem] = PackageFile(stem, {}, readable=False)
    for path in _candidates(folder, SCREENS):
        findings.add("info", "ui_only", path.name, "", "describes a user interface; there is none here, it is not read")
    return files


def load_yaml(text: str) -> Any:
    return read_yaml(text).data


def read_task_batches(folder: Path, findings: Findings) -> PackageFile | None:
    return _read_stem(folder, TASK_BATCHES, findings)


def _candidates(folder: Path, stem: str) -> list[Path]:
    """Whatever has such a name: what cannot be read is refused aloud, a package never vanishes over it."""
    return [path for suffix in SUFFIXES if os.path.lexists(path := folder / f"{stem}{suffix}")]


def _read_stem(folder: Path, stem: str, findings: Findings) -> PackageFile | None:
    found = _candidates(folder, stem)
    if not found:
        return None
    name = found[0].relative_to(folder).as_posix()
    problem = _why_not_read(found, folder)
    if problem is not None:
        findings.add("error", problem[0], name, "", problem[1])
        return PackageFile(name, {}, readable=False)
    try:
        document = read_document(found[0])
    except PackageError as error:
        findings.include(replace(error.finding, file=name))
    except OSError as error:
        findings.add("error", "unreadable", name, "", f"cannot be read: {error.strerror or error}")
    else:
        _tell(document.notes, name, findings)
        return PackageFile(name, _unwrap(stem, document.data))
    return PackageFile(name, {}, readable=False)


def _why_not_read(found: list[Path], folder: Path) -> tuple[str, str] | None:
    path = found[0]
    if len(found) > 1:
        return "two_files", f"{' and '.join(each.name for each in found)} both exist; keep one"
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links in a circle
        return "unreadable", "is a link that leads nowhere; put a regular file in its place"
    if not inside:
        return "leaves_package", "is a link to a file outside the package; copy the file here"
    if not path.is_file():  # asked without opening it: a named pipe would wait for a writer
        return "unreadable", "is not a file; put a regular file in its place"
    return None


def _tell(notes: tuple[Note, ...], file: str, findings: Findings) -> None:
    for each in notes:
        findings.include(Finding("warning", each.code, file, each.path, each.message, line=each.line or None))


def _unwrap(stem: str, body: Any) -> Any:
    """`{"handoffs": {...}}` in handoffs.json is its body; siblings of the wrapper are kept."""
    if isinstance(body, list) and stem in _BARE_LISTS:
        return {_BARE_LISTS[stem]: body}
    inner = body.get(stem) if isinstance(body, Mapping) else None
    if not isinstance(inner, Mapping):
        return body
    keys = _WRAPPED.get(stem)
    if keys is not None and not any(key in inner for key in keys):
        return body
    return {**inner, **{key: value for key, value in body.items() if key != stem}}
