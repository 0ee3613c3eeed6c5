"""Plain functions: those of a module whose parameters show that they are never given the context."""

import ast
from collections.abc import Iterable, Sequence

_CONTEXT = "context_variables"
_PLAIN_TYPES = frozenset(
    {"str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "set", "frozenset", "None", "Any", "Optional"}
    | {"Union", "List", "Dict", "Tuple", "Set", "Sequence", "Mapping", "Iterable"}
)


def find_plain_functions(statements: Iterable[tuple[ast.stmt, Iterable[str]]]) -> frozenset[str]:
    """`statements` of the module's own scope, each with the names that it defines. A name that is defined in two ways
    is none."""
    plain: set[str] = set()
    others: set[str] = set()
    for statement, names in statements:
        (plain if _is_plain(statement) else others).update(names)
    return frozenset(plain - others)


def _is_plain(statement: ast.stmt) -> bool:
    """A decorator may return anything."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) or statement.decorator_list:
        return False
    given = statement.args
    return given.kwarg is None and all(
        parameter.arg != _CONTEXT and _is_plain_hint(parameter.annotation)
        for parameter in (*given.posonlyargs, *given.args, *given.kwonlyargs)
    )


def _is_plain_hint(hint: ast.expr | None) -> bool:
    """Whether each name in it is one of a plain type: any other may stand for the context."""
    waiting = [] if hint is None else [hint]
    while waiting:  # not by recursion: a union of thousands of types is nested as deeply
        parts = _hint_parts(waiting.pop())
        if parts is None:
            return False
        waiting += parts
    return True


def _hint_parts(hint: ast.expr) -> Sequence[ast.expr] | None:
    """The hints that this one is made of, none for a plain type; None for anything else."""
    match hint:
        case ast.Constant(value=value):
            return () if not isinstance(value, str) or value in _PLAIN_TYPES else None
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return () if name in _PLAIN_TYPES else None
        case ast.Subscript(value=ast.Name(id="Literal") | ast.Attribute(attr="Literal")):
            return ()
        case ast.Subscript(
            value=ast.Name(id="Annotated") | ast.Attribute(attr="Annotated"), slice=ast.Tuple(elts=parts)
        ):
            return parts[:1]
        case ast.Subscript(value=outer, slice=inner) | ast.BinOp(left=outer, op=ast.BitOr(), right=inner):
            return (outer, inner)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return parts
    return None
