"""Reads file variables: a file of the package, or of the shared folder beside it, as it is when it is loaded."""

import stat
from pathlib import Path
from typing import Any

from workflows.context.bounds import MAX_VALUE_BYTES
from workflows.context.fitting import MisfitError, fit, unstorable
from workflows.context.value_types import ValueType
from workflows.package.raw.data_files import UnreadableError, parse
from workflows.package.raw.files import SHARED
from workflows.package.reading.section import Section
from workflows.package.sources import FileSource

_FORMATS = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}
_ENCODINGS = {
    **dict.fromkeys(("utf-8", "utf8", "utf-8-sig"), "utf-8-sig"),
    **dict.fromkeys(("utf-16", "ascii", "latin-1", "iso-8859-1", "cp1252"), None),
}


def read_file(source: Section, *, folder: Path, declared: ValueType) -> FileSource:
    path = source.required_text("path")
    encoding = (source.text("encoding") or "utf-8").lower()
    form = (source.text("format") or _FORMATS.get(Path(path).suffix.lower(), "text")).lower()
    if form not in ("json", "yaml", "text"):
        source.error("wrong_value", "format", "must be json, yaml or text")
    elif encoding not in _ENCODINGS:
        source.error("wrong_value", "encoding", f"must be one of {', '.join(_ENCODINGS)}")
    elif path:
        raw = _bytes(source, path, folder)
        if raw is not None:
            return FileSource(path, _content(source, raw, form, _ENCODINGS[encoding] or encoding, declared))
    return FileSource(path)


def _bytes(source: Section, path: str, folder: Path) -> bytes | None:
    if "\\" in path or "\0" in path:
        source.error("wrong_value", "path", "must be a path inside the package, with / between folders")
        return None
    try:
        file = (folder / path).resolve()
        if not any(file.is_relative_to(root) for root in (folder.resolve(), (folder.parent / SHARED).resolve())):
            source.error("leaves_package", "path", f"leads out of the package; put the file there, or in ../{SHARED}")
        elif any(part.lower().startswith(".env") for part in (*Path(path).parts, file.name)):
            source.error("forbidden_file", "path", "holds secrets by its name, and is never read; use another file")
        else:
            return _read(source, file)
    except OSError as error:
        source.error("unreadable", "path", f"cannot be read: {error.strerror or error}")
    return None


def _read(source: Section, file: Path) -> bytes | None:
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        code, message = "missing_file", "does not exist in this package"
        if source.flag("required"):
            source.error(code, "path", f"{message}, and the variable is required; add the file")
        else:
            source.warning(code, "path", f"{message}, so the default is used; add the file")
        return None
    if not stat.S_ISREG(status.st_mode):  # asked without opening it: a named pipe would wait for a writer
        source.error("unreadable", "path", "is not a regular file")
        return None
    with file.open("rb") as stream:
        raw = stream.read(MAX_VALUE_BYTES + 1)
    if len(raw) > MAX_VALUE_BYTES:
        source.error("file_too_large", "path", f"is larger than {MAX_VALUE_BYTES // 1024} KB; let a tool read it")
        return None
    return raw


def _content(source: Section, raw: bytes, form: str, encoding: str, declared: ValueType) -> Any:
    try:
        value = _parsed(raw.decode(encoding), form)
    except (ValueError, UnreadableError) as error:
        reason = " ".join(str(error).split())[:200]
        source.error("unreadable", "path", f"is not {form} in {encoding}: {reason}")
        return None
    problem = unstorable(value)
    if problem is not None:
        source.error("unreadable", "path", f"{problem}; a context holds plain JSON")
        return None
    try:
        return fit(value, declared)
    except MisfitError:
        source.warning("wrong_type_of_value", "path", f"holds no {declared}, which the variable is declared as")
        return value


def _parsed(text: str, form: str) -> Any:
    return text if form == "text" else parse(text, is_json=form == "json").data
