"""Package files: finds them, reads JSON and YAML, unwraps what authors wrap."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
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
SHARED = "_shared"  # beside a package; the one place outside of it that its tools may come from
MAX_FILE_BYTES = 5 * 1024 * 1024
MAX_EXPANDED = 2 * MAX_FILE_BYTES  # characters and nodes once every alias is written out


@dataclass(frozen=True, slots=True)
class PackageFile:
    name: str
    body: Any


def is_package(folder: Path) -> bool:
    return folder.is_dir() and all(_candidates(folder, stem) for stem in ("orchestrator", "agents"))


def read_package_files(folder: Path) -> dict[str, PackageFile]:
    return {stem: found for stem in STEMS if (found := _read_stem(folder, stem)) is not None}


def content_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every file a run of this package may use, by a name that does not depend on where the package lies."""
    for root, prefix in ((folder, ""), (folder.parent / SHARED, f"../{SHARED}/")):
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root)
            if "__pycache__" not in name.parts and path.is_file():
                yield prefix + name.as_posix(), path


def content_version(folder: Path) -> str:
    digest = hashlib.sha256()
    for name, path in content_files(folder):
        digest.update(name.encode(errors="surrogateescape") + b"\0")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def _candidates(folder: Path, stem: str) -> list[Path]:
    """Whatever has such a name: what cannot be read is refused aloud, a package never vanishes over it."""
    return [path for suffix in SUFFIXES if os.path.lexists(path := folder / f"{stem}{suffix}")]


def _read_stem(folder: Path, stem: str) -> PackageFile | None:
    found = _candidates(folder, stem)
    if not found:
        return None
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise _refuse("two_files", found[0].name, f"{names} both exist; keep one")
    if not found[0].resolve().is_relative_to(folder.resolve()):
        raise _refuse("leaves_package", found[0].name, "is a link to a file outside the package; copy the file here")
    if not found[0].is_file():  # asked without opening it: a named pipe would wait for a writer
        raise _refuse("unreadable", found[0].name, "is not a file; put a regular file in its place")
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
    except (ValueError, KeyError, AttributeError, TypeError) as error:  # numbers of 5 000 digits, `!!int x`, `!!bool x`
        raise _refuse("unreadable", path.name, f"holds a value that cannot be read: {error}") from None
    return {} if data is None else data


class _Loader(yaml.CSafeLoader):
    """Dates stay text, as in JSON: a run document has no dates, and `2026-02-30` would not even load."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def load_yaml(text: str) -> Any:
    _check_expanded_size(text)
    return yaml.load(text, _Loader)  # noqa: S506 -- a safe loader that knows fewer types


def _check_expanded_size(text: str) -> None:
    """An alias costs nothing until someone walks through the data; a hundred of them can stand for 10^30 nodes."""
    sizes: dict[str | None, int] = {}
    open_nodes: list[tuple[str | None, int]] = [(None, 0)]
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1))
            continue
        size, anchor = 0, None
        if isinstance(event, yaml.ScalarEvent):
            size, anchor = 1 + len(event.value), event.anchor
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_nodes.pop()
        elif isinstance(event, yaml.AliasEvent):
            if any(event.anchor == open_anchor for open_anchor, _ in open_nodes):
                raise yaml.YAMLError(f"the alias {event.anchor} stands inside of what it names")
            size = sizes.get(event.anchor, 0)
        sizes[anchor] = size
        open_nodes[-1] = (open_nodes[-1][0], open_nodes[-1][1] + size)
        if open_nodes[-1][1] > MAX_EXPANDED:
            raise yaml.YAMLError("its aliases expand to more than 10 MB")


def _yaml_place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else " ".join(problem.split())


def _unwrap(stem: str, body: Any) -> Any:
    """`{"handoffs": {...}}` in handoffs.json is its body; siblings of the wrapper are kept."""
    if isinstance(body, Mapping) and isinstance(body.get(stem), Mapping):
        return {**body[stem], **{key: value for key, value in body.items() if key != stem}}
    return body


def _refuse(code: str, file: str, message: str) -> PackageError:
    return PackageError(Finding("error", code, file, "", message))
