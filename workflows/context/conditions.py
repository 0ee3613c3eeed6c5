"""Conditions: routing expressions, parsed once into a whitelisted tree and evaluated without `eval`.

Two kinds of absent names. Suppressed ones (environment variables in production) make the whole condition
false, whatever its form: `not ${flag}` must not route on a value that was meant to vanish. Unset ones are
None: `==`, `!=` and truth work, orderings and `in` are false. Nothing raises at run time.
"""

import ast
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"\$\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}|\bcontext_variables\.([A-Za-z_][A-Za-z0-9_]*)")
_PREFIX = "var_"
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "None", "none"), None),
}
_KEYWORDS = {"AND": "and", "OR": "or", "NOT": "not"}
MAX_LENGTH = 2_000

Values = Mapping[str, Any]
Node = Callable[[Values], Any]


class ConditionError(ValueError):
    """An expression outside the grammar; the text says which part."""


@dataclass(frozen=True, slots=True)
class Condition:
    text: str
    names: frozenset[str]
    _evaluate: Node

    def holds(self, values: Values, *, suppressed: Collection[str] = ()) -> bool:
        if any(name in suppressed for name in self.names):
            return False
        return bool(self._evaluate(values))


def compile_condition(text: str) -> Condition:
    if len(text) > MAX_LENGTH:
        raise ConditionError(f"a condition has at most {MAX_LENGTH} characters")
    names: set[str] = set()
    source = "".join(part if _QUOTED.fullmatch(part) else _prepare(part, names) for part in _QUOTED.split(text.strip()))
    try:
        tree = ast.parse(source.strip(), mode="eval")
        node = _node(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ConditionError):
            raise
        raise ConditionError(f"{text!r} is not a condition such as ${{stage}} == 'done'") from None
    return Condition(text, frozenset(names), node)


def _prepare(part: str, names: set[str]) -> str:
    """`${name}` becomes an identifier before parsing; values never enter the source."""

    def placeholder(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        names.add(name)
        return f" {_PREFIX}{name.replace('.', '__dot__')} "

    part = _NAME.sub(placeholder, part)
    return re.sub(r"\b(AND|OR|NOT)\b", lambda match: _KEYWORDS[match[0]], part)


def _node(tree: ast.expr) -> Node:
    match tree:
        case ast.BoolOp(op=ast.And(), values=values):
            parts = [_node(value) for value in values]
            return lambda context: all(part(context) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=values):
            parts = [_node(value) for value in values]
            return lambda context: any(part(context) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            negated = _node(operand)
            return lambda context: not negated(context)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _comparison(op, _node(left), _node(right))
        case _:
            return _term(tree)


def _term(tree: ast.expr) -> Node:
    match tree:
        case ast.Name(id=name) if name.startswith(_PREFIX):
            variable = name.removeprefix(_PREFIX).replace("__dot__", ".")
            return lambda context: context.get(variable)
        case ast.Name(id=name) if name in _WORDS:
            return lambda _: _WORDS[name]
        case ast.Constant(value=value) if value is None or isinstance(value, str | int | float | bool):
            return lambda _: value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if isinstance(value, int | float):
            return lambda _: -value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            items = [_node(element) for element in elements]
            return lambda context: [item(context) for item in items]
        case ast.Call(func=ast.Name(id="len"), args=[argument], keywords=[]):
            return _length(_node(argument))
        case _:
            raise ConditionError(f"{ast.unparse(tree).replace(_PREFIX, '')!r} is not allowed in a condition")


def _length(argument: Node) -> Node:
    """None when it has no length: comparisons with it are then false."""

    def length(context: Values) -> int | None:
        value = argument(context)
        return len(value) if isinstance(value, str | list | tuple | dict | set) else None

    return length


_ORDERINGS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _comparison(op: ast.cmpop, left: Node, right: Node) -> Node:
    if isinstance(op, ast.Eq | ast.Is):
        return lambda context: _same(left(context), right(context))
    if isinstance(op, ast.NotEq | ast.IsNot):
        return lambda context: not _same(left(context), right(context))
    if isinstance(op, ast.In):
        return lambda context: _contains(right(context), left(context)) is True
    if isinstance(op, ast.NotIn):
        return lambda context: _contains(right(context), left(context)) is False
    ordering = _ORDERINGS.get(type(op))
    if ordering is None:
        raise ConditionError(f"{type(op).__name__} is not a comparison of this grammar")
    return lambda context: _ordered(ordering, left(context), right(context))


def _same(left: Any, right: Any) -> bool:
    """Strict: the text "true" is not true, and 1 is not True."""
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    return bool(left == right)


def _contains(container: Any, item: Any) -> bool | None:
    try:
        return item in container
    except TypeError:
        return None


def _ordered(ordering: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    try:
        return bool(ordering(left, right))
    except TypeError:
        return False
