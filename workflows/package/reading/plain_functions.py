"""Plain functions: those of a module that can never be given the context, as far as their parameters tell."""

import ast
from collections.abc import Iterable

_CONTEXT = "context_variables"
_PLAIN_TYPES = frozenset(
    {"str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "set", "frozenset", "None", "Any", "Optional"}
    | {"Union", "List", "Dict", "Tuple", "Set", "Sequence", "Mapping", "Iterable"}
)


def plain_functions(statements: Iterable[tuple[ast.stmt, Iterable[str]]]) -> frozenset[str]:
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
        each.arg != _CONTEXT and _is_plain_hint(each.annotation)
        for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)
    )


def _is_plain_hint(hint: ast.expr | None) -> bool:
    """Any other name may stand for the context."""
    match hint:
        case None:
            return True
        case ast.Constant(value=value):
            return not isinstance(value, str) or value in _PLAIN_TYPES
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _PLAIN_TYPES
        case ast.Subscript(value=ast.Name(id="Literal") | ast.Attribute(attr="Literal")):
            return True
        case ast.Subscript(
            value=ast.Name(id="Annotated") | ast.Attribute(attr="Annotated"), slice=ast.Tuple(elts=parts)
        ):
            return _is_plain_hint(parts[0])
        case ast.Subscript(value=outer, slice=inner) | ast.BinOp(left=outer, op=ast.BitOr(), right=inner):
            return _is_plain_hint(outer) and _is_plain_hint(inner)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return all(map(_is_plain_hint, parts))
    return False
