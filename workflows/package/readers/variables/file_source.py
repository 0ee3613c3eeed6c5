"""File variables: the content of a file, read when the package is loaded.

The file is in the package or in `../_shared`.
"""

import stat
from pathlib import Path
from typing import Any

from workflows.context.values.size_limits import MAX_VALUE_BYTES
from workflows.context.values.type_coercion import MisfitError, coerce, find_unstorable
from workflows.context.values.value_types import ValueType
from workflows.package.files.data_files import UnreadableError, parse_document
from workflows.package.files.package_files import SHARED_FOLDER
from workflows.package.normal_form.variable_sources import FileSource
from workflows.package.readers.section import Section

_FORMATS = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}
_ENCODINGS = {
    **dict.fromkeys(("utf-8", "utf8", "utf-8-sig"), "utf-8-sig"),
    **dict.fromkeys(("utf-16", "ascii", "latin-1", "iso-8859-1", "cp1252"), None),
}


def read_file_source(source: Section, *, folder: Path, declared_type: ValueType) -> FileSource:
    path = source.required_text("path")
    encoding = (source.text("encoding") or "utf-8").lower()
    form = (source.text("format") or _FORMATS.get(Path(path).suffix.lower(), "text")).lower()
    if form not in ("json", "yaml", "text"):
        source.error("wrong_value", "format", "must be json, yaml or text")
    elif encoding not in _ENCODINGS:
        source.error("wrong_value", "encoding", f"must be one of {', '.join(_ENCODINGS)}")
    elif path:
        raw = _read_bytes(source, path, folder)
        if raw is not None:
            return FileSource(path, _parse_content(source, raw, form, _ENCODINGS[encoding] or encoding, declared_type))
    return FileSource(path)


def _read_bytes(source: Section, path: str, folder: Path) -> bytes | None:
    if "\\" in path or "\0" in path:
        source.error("wrong_value", "path", "must be a path inside the package, with / between folders")
        return None
    try:
        file = (folder / path).resolve()
        if not any(file.is_relative_to(root) for root in (folder.resolve(), (folder.parent / SHARED_FOLDER).resolve())):
            source.error(
                "leaves_package", "path", f"leads out of the package; move the file into it, or into ../{SHARED_FOLDER}"
            )
        elif any(part.lower().startswith(".env") for part in (*Path(path).parts, file.name)):
            source.error("forbidden_file", "path", "is never read: .env files contain secrets; use another file")
        else:
            return _read_bounded(source, file)
    except OSError as error:
        source.error("unreadable", "path", f"cannot be read: {error.strerror or error}")
    return None


def _read_bounded(source: Section, file: Path) -> bytes | None:
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        code, message = "missing_file", "does not exist in this package"
        if source.flag("required"):
            source.error(code, "path", f"{message}, and the variable is required; add the file")
        else:
            source.warning(code, "path", f"{message}, so the default is used; add the file")
        return None
    if not stat.S_ISREG(status.st_mode):  # checked without opening: opening a named pipe waits for a writer
        source.error("unreadable", "path", "is not a regular file")
        return None
    with file.open("rb") as stream:
        raw = stream.read(MAX_VALUE_BYTES + 1)
    if len(raw) > MAX_VALUE_BYTES:
        source.error("file_too_large", "path", f"is larger than {MAX_VALUE_BYTES // 1024} KB; read it in a tool")
        return None
    return raw


def _parse_content(source: Section, raw: bytes, file_format: str, encoding: str, declared_type: ValueType) -> Any:
    try:
        value = _parse_text(raw.decode(encoding), file_format)
    except (ValueError, UnreadableError) as error:
        reason = " ".join(str(error).split())[:200]
        source.error("unreadable", "path", f"is not {file_format} in {encoding}: {reason}")
        return None
    problem = find_unstorable(value)
    if problem is not None:
        source.error("unreadable", "path", f"{problem}; context variables must be plain JSON")
        return None
    try:
        return coerce(value, declared_type)
    except MisfitError:
        source.warning("wrong_type_of_value", "path", f"is not of type {declared_type}, which the variable declares")
        return value


def _parse_text(text: str, file_format: str) -> Any:
    return text if file_format == "text" else parse_document(text, is_json=file_format == "json").data
