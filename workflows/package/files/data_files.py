"""Data files of a package: JSON and YAML, read within bounds.

What their syntax drops silently, such as the first of two equal keys, becomes a note.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from workflows.context.values.value_sizes import count_values, is_deeper_than
from workflows.package.files.yaml_reader import MAX_DEPTH, MAX_NODES, DataDocument, ReaderNote, read_yaml
from workflows.package.findings import Finding, PackageError

MAX_FILE_BYTES = 5 * 1024 * 1024
_JSON_HINT = "use double quotes, no comments, and no comma before a closing bracket"
_YAML_HINT = "check the indentation, and quote text that begins with a sign or contains a colon, { or ["
_TAB_HINT = "indent with spaces: YAML does not allow tabs"


class UnreadableError(Exception):
    """A text that cannot be read as data; the message names line, column and reason."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(f"line {line}, column {column}: {message}" if line else message)


def read_data_file(path: Path) -> Any:
    """Returns the data, `{}` for an empty file.

    Raises PackageError with line and column.
    """
    return read_document(path).data


def read_document(path: Path) -> DataDocument:
    """Returns the data of a file with the notes of its reader."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise _package_error(
            "file_too_large", path, f"is larger than {MAX_FILE_BYTES // 1024 // 1024} MB; make it smaller"
        )
    try:
        document = parse_document(_decode(path.read_bytes()), is_json=path.suffix == ".json")
    except UnreadableError as error:
        raise _package_error("unreadable", path, str(error)) from None
    return document if document.data is not None else DataDocument({}, document.notes)


def parse_document(text: str, *, is_json: bool) -> DataDocument:
    try:
        return _parse_json(text) if is_json and text.strip() else read_yaml(text)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"{error.msg}; {_JSON_HINT}", error.lineno, error.colno) from None
    except yaml.YAMLError as error:
        raise _yaml_error(error, text) from None
    except RecursionError:
        raise UnreadableError("is nested too deeply") from None
    except ValueError as error:  # such as a number of 5,000 digits
        raise UnreadableError(f"has a value that cannot be read: {error}") from None


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not UTF-8; save the file as UTF-8"
        raise UnreadableError(message) from None


def _parse_json(text: str) -> DataDocument:
    repeated: list[str] = []

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            repeated.extend(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        return found

    data = json.loads(text, object_pairs_hook=mapping)
    _check_bounds(data)
    return DataDocument(data, _find_duplicate_keys(repeated, text) if repeated else ())


def _find_duplicate_keys(names: list[str], text: str) -> tuple[ReaderNote, ...]:
    """Locates the keys with the YAML reader: JSON is nearly always valid YAML too."""
    try:
        notes = read_yaml(text).notes
    except (yaml.YAMLError, ValueError):
        notes = ()
    found = tuple(note for note in notes if note.code == "duplicate_key")
    message = "is a duplicate key; the last value is used: remove one"
    return found or tuple(ReaderNote("duplicate_key", name, 0, f"{name} {message}") for name in names)


def _check_bounds(data: Any) -> None:
    if count_values(data, MAX_NODES, characters_per_value=None) > MAX_NODES:
        raise UnreadableError(f"holds too much: more than {MAX_NODES} values")
    if is_deeper_than(MAX_DEPTH, data):
        raise UnreadableError("is nested too deeply")


def _yaml_error(error: yaml.YAMLError, text: str) -> UnreadableError:
    mark = getattr(error, "problem_mark", None)
    problem = " ".join(str(getattr(error, "problem", None) or error).split())
    if mark and isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError):
        line = "".join(text.splitlines()[mark.line : mark.line + 1])
        problem += f"; {_TAB_HINT if line[mark.column :].startswith(chr(9)) else _YAML_HINT}"
    return UnreadableError(problem, mark.line + 1, mark.column + 1) if mark else UnreadableError(problem)


def _package_error(code: str, path: Path, message: str) -> PackageError:
    return PackageError(Finding("error", code, path.name, "", message))
