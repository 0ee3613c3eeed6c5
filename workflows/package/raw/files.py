"""Package files: finds them, reads each on its own, unwraps what authors wrap."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workflows.package.findings import Finding, Findings, PackageError
from workflows.package.raw.data_files import read_document
from workflows.package.raw.yaml_events import Note

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

_NEARLY_A_NAME = 0.8  # of two names that differ in a letter; `variables` is none of `context_variables`

ABOUT_THE_FILE = ("schema_version", "version", "description", "$schema")
# A bare list is the list that its file is named after.
_BARE_LISTS = {
    **{stem: stem for stem in ("agents", "tools", "hooks", "triggers")},
    "context_variables": "definitions",
    "handoffs": "handoff_rules",
    "transition_graph": "transition_rules",
    "middleware": "prompt_middleware",
}
# Under what a whole body may stand, besides the name of its file.
WRAPPERS = {"context_variables": ("context_variables", "ContextVariablesPlan")}
# What is inside of `{"tools": {...}}` must look like the body, since the entries of a list have names too.
_WRAPPED = {
    "tools": ("tools", "lifecycle_tools", "backend_tools", "ui_tools"),
    "hooks": ("hooks", "prompt_middleware", "hook_files"),
    "middleware": ("hooks", "prompt_middleware", "hook_files"),
    "triggers": ("triggers",),
}


@dataclass(frozen=True, slots=True)
class PackageFile:
    """`readable`: else there is a finding that says why not, and `body` is empty.

    `wrapper` is the key that the body stood under, `beside` are the fields that stood beside that key."""

    name: str
    body: Any
    readable: bool = True
    wrapper: str = ""
    beside: frozenset[str] = frozenset()


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
    screens = _read_stem(folder, SCREENS, findings)
    if screens is not None and screens.readable and _says_something(screens.body):
        message = "describes a user interface; there is none here, and nothing of it is used"
        findings.add("info", "ui_only", screens.name, "", message)
    _tell_of_misspelt_files(folder, findings)
    return files


def _tell_of_misspelt_files(folder: Path, findings: Findings) -> None:
    """What is not named as we name it is left out, and the package looks whole without it."""
    for path in sorted(each for each in folder.iterdir() if each.suffix.lower() in SUFFIXES):
        if path.suffix in SUFFIXES and path.stem in (*STEMS, SCREENS):
            continue
        word = path.stem.lower().replace("-", "_").replace(" ", "_")
        near = difflib.get_close_matches(word, STEMS, n=1, cutoff=_NEARLY_A_NAME)
        if near:
            message = f"is no file of a package, so nothing of it is used; did you mean {near[0]}.yaml?"
            findings.add("warning", "unknown_file", path.name, "", message)


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
        return _unwrapped(stem, name, document.data)
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


def _unwrapped(stem: str, name: str, body: Any) -> PackageFile:
    """`{"handoffs": {...}}` in handoffs.json is its body; siblings of the wrapper are kept."""
    if isinstance(body, list) and stem in _BARE_LISTS:
        return PackageFile(name, {_BARE_LISTS[stem]: body})
    if not isinstance(body, Mapping):
        return PackageFile(name, body)
    wrappers = WRAPPERS.get(stem, (stem,))
    # `$schema` is for editors; null is how authors leave out, also what a wrapper would hold.
    said = {
        key: value for key, value in body.items() if key != "$schema" and (value is not None or key not in wrappers)
    }
    wrapper = next((key for key in wrappers if isinstance(said.get(key), Mapping)), None)
    if wrapper is None or not _is_body(stem, said[wrapper]):
        return PackageFile(name, said)
    beside = {key: value for key, value in said.items() if key != wrapper}
    names = frozenset(key for key in beside if isinstance(key, str))
    return PackageFile(name, {**said[wrapper], **beside}, wrapper=wrapper, beside=names)


def _is_body(stem: str, inner: Mapping[str, Any]) -> bool:
    keys = _WRAPPED.get(stem)
    return keys is None or any(key in inner for key in keys)


def _says_something(body: Any) -> bool:
    """Generators write the file for every package: `visual_agents: null`."""
    if isinstance(body, Mapping):
        return any(_says_something(value) for key, value in body.items() if key not in ABOUT_THE_FILE)
    return body not in (None, [], "", False)
