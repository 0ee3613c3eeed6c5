"""The store is one room: no product module outside of workers/store asks the collections of runs and turns."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOM = ROOT / "workers" / "store"
FOLDERS = ("accounting", "workflows", "workers", "triggers", "ops")
COLLECTIONS = frozenset({"runs", "turns"})
_READS = {"aggregate", "count_documents", "distinct", "estimated_document_count", "find", "find_one", "watch"}
_WRITES = {"bulk_write", "delete_many", "delete_one", "insert_many", "insert_one", "update_many", "update_one"}
_OTHERS = {"find_one_and_delete", "find_one_and_replace", "find_one_and_update", "find_raw_batches", "replace_one"}
QUERIES = _READS | _WRITES | _OTHERS | {"with_options"}


def questions(source: str) -> Iterator[str]:
    """`store.runs.find(…)`, `runs = store.runs`, `database["runs"]`, `database.get_collection("turns")`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in QUERIES and _is_collection(node.value):
            yield f"line {node.lineno}: .{node.attr}"
        elif isinstance(node, ast.Attribute) and _is_collection(node) and _is_store(node.value):
            yield f"line {node.lineno}: .{node.attr} of a store"
        elif isinstance(node, ast.Subscript) and _is_name(node.slice) and not _is_field(node.value):
            yield f"line {node.lineno}: a database's collection"
        elif isinstance(node, ast.Call) and _called(node) == "get_collection" and any(map(_is_name, node.args)):
            yield f"line {node.lineno}: get_collection"


def _is_collection(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in COLLECTIONS


def _is_store(node: ast.expr) -> bool:
    """By its name: `store`, `self._store`, `ground.store`, or the `runs` that a scheduler calls its store."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.lstrip("_") in {"store", "runs", "run_store"}


def _is_name(node: ast.expr) -> bool:
    """Also by a constant, `database[RUNS]`."""
    if isinstance(node, ast.Name):
        return node.id.lower() in COLLECTIONS and node.id.isupper()
    return isinstance(node, ast.Constant) and node.value in COLLECTIONS


def _is_field(node: ast.expr) -> bool:
    """Documents and reports have a field `turns`; a database is called one."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return "database" not in name and "client" not in name


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def modules() -> list[Path]:
    found = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in found if not path.is_relative_to(ROOM)]


def test_no_module_outside_of_the_store_asks_for_runs_or_turns() -> None:
    found = {str(path.relative_to(ROOT)): asked for path in modules() if (asked := list(questions(path.read_text())))}

    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "await store.runs.find_one({})",
        "self._runs = store.runs",
        "runs.runs.aggregate([])",
        "self._store.turns.find({})",
        'database["runs"].distinct("app_id")',
        "self._database[RUNS]",
        'self._client[name].get_collection("runs")',
    ],
)
def test_each_way_to_ask_is_found(source: str) -> None:
    assert list(questions(source))


@pytest.mark.parametrize("source", ["chat.turns.append(turn)", 'run["turns"]', "report.runs", "story['turns']"])
def test_what_is_only_called_like_a_collection_is_none(source: str) -> None:
    assert not list(questions(source))
