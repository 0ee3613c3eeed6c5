"""The pages on packages of another runtime and on the operator's file: complete, and true to the code."""

import re
from pathlib import Path

import pytest

from tests.unit.docs.test_docs import blocks, read
from tests.unit.workflows.packages import faults, load, write_tool
from workers.store.tool_client import CHANGES_OF_A_CURSOR, METHODS
from workflows.chat.package_code.package_modules import PackageModules
from workflows.compat.served_names import SERVED
from workflows.operator_file import OperatorFile, read_operator_file

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = DOCS / "package-format.md"
FURTHER_LOGGERS = re.compile(r"get_\w+_logger(_detailed)?")


def section() -> str:
    _, _, after = read(PAGE).partition("### Packages of another runtime\n")
    return after.partition("\n### ")[0]


@pytest.mark.parametrize("name", ["count_refunds", "note_order"])
def test_the_example_is_a_tool_that_can_be_loaded(tmp_path: Path, name: str) -> None:
    [source] = [each.text for each in blocks(PAGE) if each.file == f"tools/{name}.py"]
    file = write_tool(tmp_path / "P", f"{name}.py", source)
    package = load(tmp_path / "P", tools=[{"agent": "A", "file": file.name, "function": name}])

    assert faults(package) == []
    assert PackageModules(package).load_function(file, name).__name__ == name


def test_what_is_served_is_on_the_page() -> None:
    page = section()
    names = {name for served in SERVED.values() for name in served.names}

    assert {name for name in names if f"`{name}`" not in page and not FURTHER_LOGGERS.fullmatch(name)} == set()
    assert {name for name in {*METHODS, *CHANGES_OF_A_CURSOR} if f"`{name}`" not in page} == set()


def test_the_operators_file_of_the_page_is_read(tmp_path: Path) -> None:
    [example] = [each for each in blocks(DOCS / "operator-file.md") if each.language == "yaml"]
    path = tmp_path / "unattended.yaml"
    path.write_text(example.text, encoding="utf-8")

    assert read_operator_file(path, own_database="unattended").compat.databases == ("shop", "kb")


def test_every_key_of_the_operators_file_is_on_its_page() -> None:
    keys = [
        f"{name}.{inner}"
        for name, field in OperatorFile.model_fields.items()
        for inner in field.annotation.model_fields  # type: ignore[union-attr]  # each key is a mapping today
    ]

    assert [key for key in keys if f"| `{key}` |" not in read(DOCS / "operator-file.md")] == []
