"""Package files: their names in a folder, and their bodies without wrappers."""

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
FIRST_ERA = "workflow"  # the first format: one file for everything, with agents in Python
UI_CONFIG = "ui_config"
TASK_BATCHES = "extended_orchestration/task_batches"
SUFFIXES = (".yaml", ".yml", ".json")
SHARED_FOLDER = "_shared"  # beside a package; the only folder outside of it that its tools may be in
# Folders beside packages that are never packages.
_NON_PACKAGE_FOLDERS = frozenset({SHARED_FOLDER, "_pack", "__pycache__"})

_MIN_NAME_SIMILARITY = 0.8  # of names that differ in a letter; `variables` is not similar to `context_variables`

# Fields that describe a file itself and have no effect.
METADATA_FIELDS = ("schema_version", "version", "description", "$schema")
# The field that a bare list at the root of a file stands for.
_BARE_LISTS = {
    **{stem: stem for stem in ("agents", "tools", "hooks", "triggers")},
    "context_variables": "definitions",
    "handoffs": "handoff_rules",
    "transition_graph": "transition_rules",
    "middleware": "prompt_middleware",
}
# Keys under which a whole body may be wrapped, if other than the name of its file.
WRAPPERS = {"context_variables": ("context_variables", "ContextVariablesPlan")}
# `{"tools": {...}}` is a wrapper only if its value has one of these fields; otherwise its keys are entries.
_BODY_FIELDS = {
    "tools": ("tools", "lifecycle_tools", "backend_tools", "ui_tools"),
    "hooks": ("hooks", "prompt_middleware", "hook_files"),
    "middleware": ("hooks", "prompt_middleware", "hook_files"),
    "triggers": ("triggers",),
}


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file and its body, which is empty if the file is unreadable.

    A finding has the reason then. `wrapper` is the key around the body, `siblings` are the fields beside that key.
    """

    name: str
    body: Any
    is_readable: bool = True
    wrapper: str = ""
    siblings: frozenset[str] = frozenset()


def is_package(folder: Path) -> bool:
    return folder.is_dir() and all(_find_candidates(folder, stem) for stem in REQUIRED_STEMS)


def looks_like_package(folder: Path) -> bool:
    """Returns whether a folder has any required file.

    An incomplete package is reported, not skipped.
    """
    if folder.name in _NON_PACKAGE_FOLDERS or folder.name.startswith(".") or not folder.is_dir():
        return False
    return any(_find_candidates(folder, stem) for stem in REQUIRED_STEMS) or is_first_era(folder)


def is_first_era(folder: Path) -> bool:
    return os.path.lexists(folder / f"{FIRST_ERA}.json") and not any(
        _find_candidates(folder, stem) for stem in REQUIRED_STEMS
    )


def read_package_files(folder: Path, findings: Findings) -> dict[str, PackageFile]:
    """Returns the files by stem.

    An unreadable file is a finding, and the others are still read.
    """
    files = {stem: found for stem in STEMS if (found := _read_stem(folder, stem, findings)) is not None}
    for stem in REQUIRED_STEMS:
        if stem not in files:
            message = f"is missing; a package requires {stem}.yaml (or .yml, or .json)"
            findings.add("error", "missing_file", stem, "", message)
            files[stem] = PackageFile(stem, {}, is_readable=False)
    ui_config = _read_stem(folder, UI_CONFIG, findings)
    if ui_config is not None and ui_config.is_readable and _has_content(ui_config.body):
        message = "describes a user interface, which does not exist here; the file is not used"
        findings.add("info", "ui_only", ui_config.name, "", message)
    _report_misspelt_files(folder, findings)
    return files


def _report_misspelt_files(folder: Path, findings: Findings) -> None:
    """Warns of files with a name similar to a package file.

    They would be skipped silently.
    """
    for path in sorted(entry for entry in folder.iterdir() if entry.suffix.lower() in SUFFIXES):
        if path.suffix in SUFFIXES and path.stem in (*STEMS, UI_CONFIG):
            continue
        word = path.stem.lower().replace("-", "_").replace(" ", "_")
        near = difflib.get_close_matches(word, STEMS, n=1, cutoff=_MIN_NAME_SIMILARITY)
        if near:
            message = f"is not a package file and is not used; did you mean {near[0]}.yaml?"
            findings.add("warning", "unknown_file", path.name, "", message)


def read_task_batches(folder: Path, findings: Findings) -> PackageFile | None:
    return _read_stem(folder, TASK_BATCHES, findings)


def _find_candidates(folder: Path, stem: str) -> list[Path]:
    """Returns every path with this stem.

    Includes unreadable files and broken links, so that they are reported.
    """
    return [path for suffix in SUFFIXES if os.path.lexists(path := folder / f"{stem}{suffix}")]


def _read_stem(folder: Path, stem: str, findings: Findings) -> PackageFile | None:
    candidates = _find_candidates(folder, stem)
    if not candidates:
        return None
    name = candidates[0].relative_to(folder).as_posix()
    problem = _find_file_problem(candidates, folder)
    if problem is not None:
        findings.add("error", problem[0], name, "", problem[1])
        return PackageFile(name, {}, is_readable=False)
    try:
        document = read_document(candidates[0])
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
    except (OSError, RuntimeError):  # circular links
        return "unreadable", "is a broken link; replace it with a regular file"
    if not inside:
        return "leaves_package", "is a link to a file outside the package; copy the file into the package"
    if not path.is_file():  # checked without opening: opening a named pipe waits for a writer
        return "unreadable", "is not a regular file; replace it with one"
    return None


def _report_notes(notes: tuple[ReaderNote, ...], file: str, findings: Findings) -> None:
    for note in notes:
        findings.add_finding(Finding("warning", note.code, file, note.path, note.message, line=note.line or None))


def _unwrap_body(stem: str, name: str, body: Any) -> PackageFile:
    """Removes a wrapper and keeps its siblings.

    A wrapper is a key such as in `{"handoffs": {...}}` in handoffs.json.
    """
    if isinstance(body, list) and stem in _BARE_LISTS:
        return PackageFile(name, {_BARE_LISTS[stem]: body})
    if not isinstance(body, Mapping):
        return PackageFile(name, body)
    wrappers = WRAPPERS.get(stem, (stem,))
    # `$schema` is for editors. A wrapper with null counts as absent.
    fields = {
        key: value for key, value in body.items() if key != "$schema" and (value is not None or key not in wrappers)
    }
    wrapper = next((key for key in wrappers if isinstance(fields.get(key), Mapping)), None)
    if wrapper is None or not _is_body(stem, fields[wrapper]):
        return PackageFile(name, fields)
    siblings = {key: value for key, value in fields.items() if key != wrapper}
    names = frozenset(key for key in siblings if isinstance(key, str))
    return PackageFile(name, {**fields[wrapper], **siblings}, wrapper=wrapper, siblings=names)


def _is_body(stem: str, inner: Mapping[str, Any]) -> bool:
    keys = _BODY_FIELDS.get(stem)
    return keys is None or any(key in inner for key in keys)


def _has_content(body: Any) -> bool:
    """Returns whether a body has a value.

    Generators write `visual_agents: null` for every package.
    """
    if isinstance(body, Mapping):
        return any(_has_content(value) for key, value in body.items() if key not in METADATA_FIELDS)
    return body not in (None, [], "", False)
