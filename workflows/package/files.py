"""Package files: finds them, reads JSON and YAML, unwraps what authors wrap."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from workflows.package.findings import Finding, PackageError

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
    "ui_config",
)
SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILE_BYTES = 5 * 1024 * 1024
MAX_ALIASES = 100  # an honest file uses a few; thousands are a bomb


@dataclass(frozen=True, slots=True)
class PackageFile:
    name: str
    body: Any


def is_package(folder: Path) -> bool:
    return folder.is_dir() and all(_candidates(folder, stem) for stem in ("orchestrator", "agents"))


def read_package_files(folder: Path) -> dict[str, PackageFile]:
    return {stem: found for stem in STEMS if (found := _read_stem(folder, stem)) is not None}


def content_version(folder: Path) -> str:
    """A hash over every file a run of this package may use."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _candidates(folder: Path, stem: str) -> list[Path]:
    return [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]


def _read_stem(folder: Path, stem: str) -> PackageFile | None:
    found = _candidates(folder, stem)
    if not found:
        return None
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise _refuse("two_files", found[0].name, f"{names} both exist; keep one")
    return PackageFile(found[0].name, _unwrap(stem, read_data_file(found[0])))


def read_data_file(path: Path) -> Any:
    """The file's data, `{}` when it is empty; PackageError with line and column when it cannot be read."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise _refuse("file_too_large", path.name, f"is larger than {MAX_FILE_BYTES // 1024 // 1024} MB")
    try:
        text = path.read_bytes().decode("utf-8-sig")
        data = json.loads(text) if path.suffix == ".json" and text.strip() else load_yaml(text)
    except json.JSONDecodeError as error:
        raise _refuse("unreadable", path.name, f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except yaml.YAMLError as error:
        raise _refuse("unreadable", path.name, _yaml_place(error)) from None
    except UnicodeDecodeError as error:
        raise _refuse("unreadable", path.name, f"byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except RecursionError:
        raise _refuse("unreadable", path.name, "is nested too deeply") from None
    return {} if data is None else data


def load_yaml(text: str) -> Any:
    if sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.CSafeLoader)) > MAX_ALIASES:
        raise yaml.YAMLError(f"more than {MAX_ALIASES} aliases")
    return yaml.load(text, yaml.CSafeLoader)


def _yaml_place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else problem


def _unwrap(stem: str, body: Any) -> Any:
    """`{"handoffs": {...}}` in handoffs.json is its body; siblings of the wrapper are kept."""
    if isinstance(body, Mapping) and isinstance(body.get(stem), Mapping):
        return {**body[stem], **{key: value for key, value in body.items() if key != stem}}
    return body


def _refuse(code: str, file: str, message: str) -> PackageError:
    return PackageError(Finding("error", code, file, "", message))
