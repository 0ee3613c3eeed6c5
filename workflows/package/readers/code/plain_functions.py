"""Plain functions: according to their parameters they never receive the context."""

import ast
from collections.abc import Iterable, Sequence

_CONTEXT = "context_variables"
_PLAIN_TYPES = frozenset(
    {"str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "set", "frozenset", "None", "Any", "Optional"}
    | {"Union", "List", "Dict", "Tuple", "Set", "Sequence", "Mapping", "Iterable"}
)


def find_plain_functions(statements: Iterable[tuple[ast.stmt, Iterable[str]]]) -> frozenset[str]:
    """Returns the names of plain functions.

    A name with another definition too is not plain.

    `statements`: of the module's scope, each with the names that it defines.
    """
    plain: set[str] = set()
    others: set[str] = set()
    for statement, names in statements:
        (plain if _is_plain(statement) else others).update(names)
    return frozenset(plain - others)


def _is_plain(statement: ast.stmt) -> bool:
    """Returns whether a statement defines a plain function.

    Decorated ones are not: decorators may change it.
    """
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) or statement.decorator_list:
        return False
    arguments = statement.args
    return arguments.kwarg is None and all(
        parameter.arg != _CONTEXT and _is_plain_hint(parameter.annotation)
        for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    )


def _is_plain_hint(hint: ast.expr | None) -> bool:
    """Returns whether all names in a type hint are plain types.

    Any other name may be the context's type.
    """
    pending = [] if hint is None else [hint]
    while pending:  # without recursion: a union of thousands of types is nested as deeply
        parts = _hint_parts(pending.pop())
        if parts is None:
            return False
        pending += parts
    return True


def _hint_parts(hint: ast.expr) -> Sequence[ast.expr] | None:
    """Returns the parts of a hint, empty for a plain type; None for any other type."""
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
