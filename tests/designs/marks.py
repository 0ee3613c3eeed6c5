"""The marks `pytest.mark.design(…)` of all tests, read from their syntax trees: no test is imported."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
RULE = "a mark stands on a test, on its class, in `pytestmark`, or in the cases of a test's own `parametrize`"

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """One test that holds one statement; a file or a class stands for all its tests."""

    path: str
    test: str
    statement: str


def read_marks(folder: Path = TESTS, root: Path = ROOT) -> list[Mark]:
    """Reads the marks of every test file, each once, ordered by file and test."""
    files = sorted(folder.rglob("test_*.py"))
    return sorted({mark for file in files for mark in marks_of(file, file.relative_to(root).as_posix())})


def marks_of(file: Path, path: str) -> list[Mark]:
    """Reads the marks of one file; raises ValueError for one that no test has."""
    text = file.read_text(encoding="utf-8")
    if "mark.design" not in text:
        return []
    tree = ast.parse(text)
    held = list(_marked_tests(tree, ""))
    stray = {id(call): call for call in _calls(tree)}
    for call, _ in held:
        stray.pop(id(call), None)
    if stray:
        raise ValueError(f"{path}:{min(call.lineno for call in stray.values())}: {RULE}")
    return [Mark(path, test, statement) for call, test in held for statement in _statements(call, path)]


def _marked_tests(node: ast.Module | ast.ClassDef, owner: str) -> Iterator[tuple[ast.Call, str]]:
    for child in node.body:
        if isinstance(child, ast.Assign | ast.AnnAssign) and _sets_pytestmark(child):
            yield from ((call, owner) for call in _calls(child))
        elif isinstance(child, FunctionNode | ast.ClassDef) and child.name.startswith(("test_", "Test")):
            name = f"{owner}::{child.name}" if owner else child.name
            yield from ((call, name) for each in child.decorator_list for call in _calls(each))
            if isinstance(child, ast.ClassDef):
                yield from _marked_tests(child, name)


def _sets_pytestmark(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(each, ast.Name) and each.id == "pytestmark" for each in targets)


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and ast.unparse(each.func).endswith("mark.design"):
            yield each


def _statements(call: ast.Call, path: str) -> Iterator[str]:
    if not call.args or call.keywords:
        raise ValueError(f"{path}:{call.lineno}: a mark names statements, as in design('D1-2', 'D1-7')")
    for each in call.args:
        if not (isinstance(each, ast.Constant) and isinstance(each.value, str)):
            raise ValueError(f"{path}:{call.lineno}: a mark names its statements as plain texts")
        yield each.value
