"""The operator's file: structured settings of an installation.

They include the databases that tools may open. The file and all of its entries are optional.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from workflows.context.documents.query_templates import is_system_collection
from workflows.package.files.data_files import read_document
from workflows.package.findings import PackageError

OPERATOR_FILE_NAME = "unattended.yaml"
MAX_DATABASES = 100

_BAD_CHARACTERS = r'/ \ . " $ * < > : | ?'
_PROBLEM_WORDS = {"model_type": "write a mapping", "tuple_type": "write a list", "string_type": "write a text"}

DatabaseName = Annotated[str, StringConstraints(strict=True, pattern=r'^[^/\\. "$*<>:|?\x00]{1,63}$')]


class OperatorFileError(ValueError):
    """The operator's file is invalid; the text names the file and the key."""


class _OperatorEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Compat(_OperatorEntry):
    """`databases`: those that `get_mongo_client` opens for all tools."""

    databases: tuple[DatabaseName, ...] = Field(default=(), max_length=MAX_DATABASES)


class OperatorFile(_OperatorEntry):
    compat: Compat = Compat()


def operator_file_schema() -> dict[str, Any]:
    """Builds the JSON Schema from the entries themselves."""
    schema = OperatorFile.model_json_schema(ref_template="#/definitions/{model}")
    definitions = schema.pop("$defs", {})
    return {**schema, "definitions": definitions}


def find_operator_path(configured: Path | None) -> Path | None:
    """Returns the configured file; else ./unattended.yaml if it exists; else None."""
    own = (configured or Path(OPERATOR_FILE_NAME)).absolute()
    return own if configured is not None or own.is_file() else None


def read_operator_file(path: Path | None, *, own_database: str) -> OperatorFile:
    """Reads the file, or returns an empty one without a path.

    `own_database` may not be listed.
    """
    if path is None:
        return OperatorFile()
    data = _read_data(path)
    try:
        file = OperatorFile.model_validate(data)
    except ValidationError as error:
        raise OperatorFileError(f"{path}: {_describe_problem(error)}") from None
    for index, name in enumerate(file.compat.databases):
        if name.lower() == own_database.lower() or is_system_collection(name, ""):
            owner = "the database server" if is_system_collection(name, "") else "Unattended itself"
            raise OperatorFileError(
                f"{path}: compat.databases.{index}: {name} belongs to {owner} and no package may open it; remove it"
            )
    return file


def _read_data(path: Path) -> Any:
    """Reads the data.

    Raises OperatorFileError if it is not a file, or has a key twice.
    """
    if path.exists() and not path.is_file():
        raise OperatorFileError(f"the operator's file {path} is not a file; name a file, or remove the setting")
    try:
        document = read_document(path)
    except PackageError as error:
        raise OperatorFileError(f"{path}: {error.finding.message}") from None
    except OSError as error:
        raise OperatorFileError(f"the operator's file {path} cannot be read: {error.strerror}") from None
    if document.notes:  # a duplicate key: one of its two values would be dropped
        note = document.notes[0]
        raise OperatorFileError(f"{path}{f':{note.line}' if note.line else ''}: {note.message}")
    return document.data


def _describe_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"{place} is not a key of the operator's file; docs/operator-file.md lists its keys"
    if first["type"] == "string_pattern_mismatch":
        return f"{place}: write the name of a database: at most 63 characters, without spaces and {_BAD_CHARACTERS}"
    if not place:
        return "write a mapping, such as compat: {databases: [shop]}"
    words = next((words for kind, words in _PROBLEM_WORDS.items() if first["type"].startswith(kind)), first["msg"])
    return f"{place}: {words}"
