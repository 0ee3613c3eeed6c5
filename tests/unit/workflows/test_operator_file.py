"""The operator's file: optional, strict, and without tracebacks."""

from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from workflows.operator_file import OperatorFile, OperatorFileError, find_operator_path, read_operator_file
from workflows.package.schemas.package_schemas import build_schema


def write(folder: Path, text: str, name: str = "unattended.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_nothing_is_allowed() -> None:
    assert read_operator_file(None, own_database="unattended") == OperatorFile()
    assert OperatorFile().compat.databases == ()


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}", "compat: {}", "compat: {databases: []}"])
def test_an_empty_file_allows_nothing(tmp_path: Path, text: str) -> None:
    assert read_operator_file(write(tmp_path, text), own_database="unattended") == OperatorFile()


@pytest.mark.parametrize(
    ("name", "text"),
    [("unattended.yaml", "compat: {databases: [shop, kb]}"), ("o.json", '{"compat": {"databases": ["shop", "kb"]}}')],
)
def test_databases_are_read(tmp_path: Path, name: str, text: str) -> None:
    assert read_operator_file(write(tmp_path, text, name), own_database="x").compat.databases == ("shop", "kb")


NAME = "write the name of a database: at most 63 characters, without spaces and / \\ ."
FAULTS = [
    ("compat: {databases: [shop]}\npublic_url: https://x", "public_url is not a key of the operator's file; docs/"),
    ("destinations: {}", "destinations is not a key of the operator's file"),
    ("allow_private: []", "allow_private is not a key of the operator's file"),
    ("keep_prompts: true", "keep_prompts is not a key of the operator's file"),
    ("compat: {database: [shop]}", "compat.database is not a key of the operator's file"),
    ("compat: {databases: shop}", "compat.databases: write a list"),
    ("compat: [shop]", "compat: write a mapping"),
    ("compat:", "compat: write a mapping"),
    ("compat: {databases: [1]}", "compat.databases.0: write a text"),
    ("compat: {databases: [a, b/c]}", f"compat.databases.1: {NAME}"),
    ("compat: {databases: ['']}", f"compat.databases.0: {NAME}"),
    ("compat: {databases: ['shop\n']}", f"compat.databases.0: {NAME}"),
    ("compat: {databases: [a.b]}", f"compat.databases.0: {NAME}"),
    ("compat: {databases: [shop, admin]}", "compat.databases.1: admin belongs to the database server and no package"),
    ("compat: {databases: [Local]}", "compat.databases.0: Local belongs to the database server"),
    ("compat: {databases: [config]}", "compat.databases.0: config belongs to the database server"),
    ("compat: {databases: [own]}", "compat.databases.0: own belongs to Unattended itself and no package may open it"),
    ("compat: {databases: [OWN]}", "compat.databases.0: OWN belongs to Unattended itself"),
    ("- compat", "write a mapping, such as compat: {databases: [shop]}"),
    ("compat: {", "did not find expected node content"),
    ("compat: {databases: [a]}\ncompat: {databases: [b]}", ":2: compat is a duplicate key"),
]


@pytest.mark.parametrize(("text", "words"), FAULTS)
def test_a_mistake_names_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)

    with pytest.raises(OperatorFileError) as caught:
        read_operator_file(path, own_database="own")

    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(OperatorFileError, match=r"operator's file .*/no\.yaml cannot be read: No such file"):
        read_operator_file(tmp_path / "no.yaml", own_database="own")


@pytest.mark.parametrize("path", [Path("/dev/zero"), Path("/")], ids=["a device", "a directory"])
def test_what_is_no_file_is_not_read(path: Path) -> None:
    with pytest.raises(OperatorFileError, match=f"the operator's file {path} is not a file"):
        read_operator_file(path, own_database="own")


def test_the_file_of_the_current_directory_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert find_operator_path(None) is None
    assert find_operator_path(Path("o.yaml")) == tmp_path / "o.yaml"  # configured, so its absence is reported
    write(tmp_path, "{}")
    assert find_operator_path(None) == tmp_path / "unattended.yaml"


@pytest.mark.parametrize("body", [{}, {"compat": {}}, {"compat": {"databases": ["shop"]}}])
def test_its_schema_takes_what_is_read(body: object) -> None:
    assert Draft7Validator(build_schema("unattended")).is_valid(body)


@pytest.mark.parametrize("body", [{"public_url": "x"}, {"compat": {"databases": ["a b"]}}, {"compat": []}])
def test_its_schema_notices_a_mistake(body: object) -> None:
    assert not Draft7Validator(build_schema("unattended")).is_valid(body)
