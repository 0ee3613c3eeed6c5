"""Context variables that the syntax tree of a Python file certainly writes."""

import ast
from collections.abc import Iterator
from pathlib import Path

from workflows.package.readers.code.parsed_code import MAX_CODE_BYTES, parse_module

_ASKING_CALL = b"use_ui_tool"
_SHORT_CONTEXT_NAMES = frozenset({"ctx", "cv"})
_SETTER_METHODS = frozenset({"set", "setdefault"})


def find_unconditional_writes(file: Path) -> frozenset[str]:
    """Returns the variables that a file writes without asking a person.

    Returns none if the file asks a person, or cannot be parsed.
    """
    try:
        with file.open("rb") as source:
            content = source.read(MAX_CODE_BYTES)
        tree = parse_module(b"" if _ASKING_CALL in content else content)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(name for node in ast.walk(tree) for name in _iter_set_names(node))


def _iter_set_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Subscript(value=target, slice=ast.Constant(value=str() as name), ctx=ast.Store()):
            yield from (name,) if _is_context(target) else ()
        case ast.Call(
            func=ast.Name(id="set_context_variable") | ast.Attribute(attr="set_context_variable"),
            args=[_, ast.Constant(value=str() as name), *_],
        ):
            yield name
        case ast.Call(func=ast.Attribute(attr=method, value=target)) if _is_context(target):
            yield from _iter_names_set_by_call(method, node)


def _iter_names_set_by_call(method: str, call: ast.Call) -> Iterator[str]:
    if method == "update":
        keys = (key for arg in call.args if isinstance(arg, ast.Dict) for key in arg.keys)
        yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
        yield from (keyword.arg for keyword in call.keywords if keyword.arg is not None)
    elif method in _SETTER_METHODS and call.args:
        name = getattr(call.args[0], "value", None)
        yield from (name,) if isinstance(name, str) else ()


def _is_context(target: ast.expr) -> bool:
    """Recognizes the context by name.

    Names are `context_variables`, `ctx`, `self.context` and `context_variables.data`.
    """
    name: str = getattr(target, "id", "") or getattr(target, "attr", "")
    inner = getattr(target, "value", None)
    if name == "data" and isinstance(inner, ast.expr):
        return _is_context(inner)
    return "context" in name.lower() or name in _SHORT_CONTEXT_NAMES
