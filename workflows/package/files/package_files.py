"""Package files: finds them, reads each on its own, unwraps what authors wrap."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workflows.package.files.data_files import read_document
from workflows.package.files.yaml_reader import ReaderNote
from workflows.package.findings import Finding, Findings, PackageError

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
REQUIRED_STEMS = ("orchestrator", "agents")
FIRST_ERA = "workflow"  # one file with everything, its agents in Python
UI_CONFIG = "ui_config"
TASK_BATCHES = "extended_orchestration/task_batches"
SUFFIXES = (".yaml", ".yml", ".json")
SHARED_FOLDER = "_shared"  # beside a package; the one place outside of it that its tools may come from
# Beside packages and never one, whatever lies in them.
_NON_PACKAGE_FOLDERS = frozenset({SHARED_FOLDER, "_pack", "__pycache__"})

_MIN_NAME_SIMILARITY = 0.8  # of two names that differ in a letter; `variables` is none of `context_variables`

METADATA_FIELDS = ("schema_version", "version", "description", "$schema")
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
_BODY_FIELDS = {
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
    is_readable: bool = True
    wrapper: str = ""
    siblings: frozenset[str] = frozenset()


def is_package(folder: Path) -> bool:
    return folder.is_dir() and all(_find_candidates(folder, stem) for stem in REQUIRED_STEMS)


def looks_like_package(folder: Path) -> bool:
    """Also a broken one: who has a part of a package is told what is missing, it is never skipped in silence."""
    if folder.name in _NON_PACKAGE_FOLDERS or folder.name.startswith(".") or not folder.is_dir():
        return False
    return any(_find_candidates(folder, stem) for stem in REQUIRED_STEMS) or is_first_era(folder)


def is_first_era(folder: Path) -> bool:
    return os.path.lexists(folder / f"{FIRST_ERA}.json") and not any(
        _find_candidates(folder, stem) for stem in REQUIRED_STEMS
    )


def read_package_files(folder: Path, findings: Findings) -> dict[str, PackageFile]:
    """By stem. What cannot be read is a finding, and the others are read all the same."""
    files = {stem: found for stem in STEMS if (found := _read_stem(folder, stem, findings)) is not None}
    for stem in REQUIRED_STEMS:
        if stem not in files:
            message = f"is missing; a package needs {stem}.yaml (or .yml, or .json)"
            findings.add("error", "missing_file", stem, "", message)
            files[stem] = PackageFile(stem, {}, is_readable=False)
    screens = _read_stem(folder, UI_CONFIG, findings)
    if screens is not None and screens.is_readable and _has_content(screens.body):
        message = "describes a user interface; there is none here, and nothing of it is used"
        findings.add("info", "ui_only", screens.name, "", message)
    _report_misspelt_files(folder, findings)
    return files


def _report_misspelt_files(folder: Path, findings: Findings) -> None:
    """What is not named as we name it is left out, and the package looks whole without it."""
    for path in sorted(entry for entry in folder.iterdir() if entry.suffix.lower() in SUFFIXES):
        if path.suffix in SUFFIXES and path.stem in (*STEMS, UI_CONFIG):
            continue
        word = path.stem.lower().replace("-", "_").replace(" ", "_")
        near = difflib.get_close_matches(word, STEMS, n=1, cutoff=_MIN_NAME_SIMILARITY)
        if near:
            message = f"is no file of a package, so nothing of it is used; did you mean {near[0]}.yaml?"
            findings.add("warning", "unknown_file", path.name, "", message)


def read_task_batches(folder: Path, findings: Findings) -> PackageFile | None:
    return _read_stem(folder, TASK_BATCHES, findings)


def _find_candidates(folder: Path, stem: str) -> list[Path]:
    """Whatever has such a name: what cannot be read is refused aloud, a package never vanishes over it."""
    return [path for suffix in SUFFIXES if os.path.lexists(path := folder / f"{stem}{suffix}")]


def _read_stem(folder: Path, stem: str, findings: Findings) -> PackageFile | None:
    found = _find_candidates(folder, stem)
    if not found:
        return None
    name = found[0].relative_to(folder).as_posix()
    problem = _find_file_problem(found, folder)
    if problem is not None:
        findings.add("error", problem[0], name, "", problem[1])
        return PackageFile(name, {}, is_readable=False)
    try:
        document = read_document(found[0])
    except PackageError as error:
        findings.add_finding(replace(error.finding, file=name))
    except OSError as error:
        findings.add("error", "unreadable", name, "", f"cannot be read: {error.strerror or error}")
    else:
        _report_notes(document.notes, name, findings)
        return _unwrap_body(stem, name, document.data)
    return PackageFile(name, {}, is_readable=False)


def _find_file_problem(candidates: list[Path], folder: Path) -> tuple[str, str] | None:
    path = candidates[0]
    if len(candidates) > 1:
        return "two_files", f"{' and '.join(candidate.name for candidate in candidates)} both exist; keep one"
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links in a circle
        return "unreadable", "is a link that leads nowhere; put a regular file in its place"
    if not inside:
        return "leaves_package", "is a link to a file outside the package; copy the file here"
    if not path.is_file():  # asked without opening it: a named pipe would wait for a writer
        return "unreadable", "is not a file; put a regular file in its place"
    return None


def _report_notes(notes: tuple[ReaderNote, ...], file: str, findings: Findings) -> None:
    for note in notes:
        findings.add_finding(Finding("warning", note.code, file, note.path, note.message, line=note.line or None))


def _unwrap_body(stem: str, name: str, body: Any) -> PackageFile:
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
    return PackageFile(name, {**said[wrapper], **beside}, wrapper=wrapper, siblings=names)


def _is_body(stem: str, inner: Mapping[str, Any]) -> bool:
    keys = _BODY_FIELDS.get(stem)
    return keys is None or any(key in inner for key in keys)


def _has_content(body: Any) -> bool:
    """Generators write the file for every package: `visual_agents: null`."""
    if isinstance(body, Mapping):
        return any(_has_content(value) for key, value in body.items() if key not in METADATA_FIELDS)
    return body not in (None, [], "", False)
