"""No test replaces a constant of our modules: the product takes limits and timings as arguments.

A replaced name has no effect once the module reads its value from elsewhere or the constant is renamed, and the test
then passes or waits for another reason.
"""

import ast
import importlib.util
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
OUR_PACKAGES = frozenset({"accounting", "workflows", "workers", "triggers", "ops", "tests"})
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
# What every replacement looks like in text; parsing every file of the tests would take seconds.
SUSPECT = re.compile(r"(setattr|delattr|patch|object)\(|\._?[A-Z][A-Z0-9_]*\s*(:|,|\W?=(?!=))")
SETTERS = frozenset({"setattr", "delattr", "patch", "object"})  # of monkeypatch, Python and unittest.mock


def patched_constants(code: str) -> Iterator[str]:
    """Yields the constants that the code replaces, also in programs that it holds as text."""
    tree = ast.parse(code)
    modules = dict(_imported_modules(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            targets = list(_called_targets(node))
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = list(_assigned_targets(node))
        else:
            targets = []
        for target in targets:
            module, _, name = _absolute_name(target, modules).rpartition(".")
            if CONSTANT.fullmatch(name) and module.partition(".")[0] in OUR_PACKAGES and _is_module(module):
                yield f"{module}.{name}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import" in node.value:
            yield from _constants_in_text(node.value)


def _constants_in_text(text: str) -> Iterator[str]:
    try:
        yield from patched_constants(text)
    except SyntaxError:  # prose, or a template
        yield from _constants_in_template(text)


def _constants_in_template(text: str) -> Iterator[str]:
    try:
        yield from patched_constants(re.sub(r"\{\w*\}", "None", text))
    except SyntaxError:
        return


def _imported_modules(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yields each name that an import binds, with what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                full_name = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or full_name, full_name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _called_targets(call: ast.Call) -> Iterator[str]:
    """Yields what `setattr(module, "NAME", …)` or `setattr("module.NAME", …)` replaces."""
    setter = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if setter not in SETTERS:
        return
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Constant):
        yield str(first.value)
    elif first is not None and len(call.args) > 1 and isinstance(call.args[1], ast.Constant):
        yield f"{ast.unparse(first)}.{call.args[1].value!s}"


def _assigned_targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        yield from (ast.unparse(part) for part in parts if isinstance(part, ast.Attribute))


def _absolute_name(name: str, modules: Mapping[str, str]) -> str:
    first, dot, rest = name.partition(".")
    return modules.get(first, first) + dot + rest


@cache
def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@cache
def found_in_tests() -> frozenset[tuple[str, str]]:
    codes = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py") if path != Path(__file__).resolve()}
    return frozenset(
        (path.relative_to(TESTS).as_posix(), constant)
        for path, code in codes.items()
        if SUSPECT.search(code)
        for constant in patched_constants(code)
    )


def test_no_test_replaces_a_constant() -> None:
    assert sorted(found_in_tests()) == [], "give the value as an argument"


IMPORTS = "import triggers.service_loop\nfrom triggers import service_loop as loop\nfrom ag2 import agent\n"


@pytest.mark.parametrize(
    "line",
    [
        'monkeypatch.setattr(loop, "MIN_PAUSE_S", 0)',
        'monkeypatch.setattr("triggers.service_loop.MIN_PAUSE_S", 0)',
        'monkeypatch.delattr(triggers.service_loop, "MIN_PAUSE_S")',
        'setattr(loop, "MIN_PAUSE_S", 0)',
        'mock.patch("triggers.service_loop.MIN_PAUSE_S", 0)',
        'mock.patch.object(loop, "MIN_PAUSE_S", 0)',
        "loop.MIN_PAUSE_S = 0",
        "other, loop.MIN_PAUSE_S = 1, 0",
        "triggers.service_loop.MIN_PAUSE_S: float = 0",
        'PROGRAM = "import triggers.service_loop as it\\nit.MIN_PAUSE_S = {pause_s}"',
    ],
)
def test_every_way_to_replace_a_constant_is_found(line: str) -> None:
    assert SUSPECT.search(line)
    assert set(patched_constants(IMPORTS + line)) == {"triggers.service_loop.MIN_PAUSE_S"}


@pytest.mark.parametrize(
    "line",
    [
        'monkeypatch.setattr(loop, "repeat", None)',
        'monkeypatch.setattr(agent, "LIMIT", 0)',
        'monkeypatch.setattr("shutil.COPY_BUFSIZE", 0)',
        'monkeypatch.setattr(loop.Outage, "LIMIT", 0)',
        "self.LIMIT = 0",
        "MIN_PAUSE_S = loop.MIN_PAUSE_S",
        'TEXT = "an import of prose"',
    ],
)
def test_other_replacements_are_allowed(line: str) -> None:
    assert list(patched_constants(IMPORTS + line)) == []
