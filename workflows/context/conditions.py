"""Conditions: routing expressions, parsed once into a whitelisted tree and evaluated without `eval`.

Two kinds of absent names. Suppressed ones (environment variables in production) make the whole condition
false, whatever its form: `not ${flag}` must not route on a value that was meant to vanish. Unset ones are
None: `==`, `!=` and truth work, orderings and `in` are false. Nothing raises at run time.
"""

import ast
import logging
import operator
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"\$\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}|\bcontext_variables\.([A-Za-z_][A-Za-z0-9_]*)")
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "None", "none"), None),
}
_KEYWORDS = {"AND": "and", "OR": "or", "NOT": "not"}
_VARIABLE = "$"  # begins the id of a variable's node: no identifier in a source text can
MAX_LENGTH = 2_000
MAX_NESTING = 100

log = logging.getLogger(__name__)

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
        try:
            return bool(self._evaluate(values))
        except Exception as error:  # noqa: BLE001 -- a tool may put any object into a context, and any may refuse to be compared
            log.warning("condition_not_evaluated", extra={"condition": self.text, "error": type(error).__name__})
            return False


def compile_condition(text: str) -> Condition:
    if len(text) > MAX_LENGTH:
        raise ConditionError(f"a condition has at most {MAX_LENGTH} characters")
    stem = "v"
    while stem in unicodedata.normalize("NFKC", text):  # as the parser reads names: none of the author's is ours
        stem += "_"
    names: dict[str, str] = {}
    parts = (part if _QUOTED.fullmatch(part) else _prepare(part, names, stem) for part in _QUOTED.split(text.strip()))
    try:
        node = _node(_parsed("".join(parts), names))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ConditionError):
            raise
        raise ConditionError(f"{text!r} is not a condition such as ${{stage}} == 'done'") from None
    return Condition(text, frozenset(names.values()), node)


def _prepare(part: str, names: dict[str, str], stem: str) -> str:
    """`${name}` becomes an identifier before parsing; values never enter the source."""
    if "#" in part:
        raise ConditionError("a condition has no comments")

    def placeholder(match: re.Match[str]) -> str:
        identifier = f"{stem}{len(names)}"
        names[identifier] = match[1] or match[2]
        return f" {identifier} "

    part = _NAME.sub(placeholder, part)
    return re.sub(r"\b(AND|OR|NOT)\b", lambda match: _KEYWORDS[match[0]], part)


def _parsed(source: str, names: Mapping[str, str]) -> ast.expr:
    tree = ast.parse(source.strip(), mode="eval").body
    level: list[ast.AST] = [tree]
    for _ in range(MAX_NESTING):
        for node in level:
            if isinstance(node, ast.Name) and node.id in names:
                node.id = f"{_VARIABLE}{{{names[node.id]}}}"
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ConditionError(f"a condition is nested at most {MAX_NESTING} levels deep")
    return tree


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
        case ast.Name(id=name) if name.startswith(_VARIABLE):
            variable = name[2:-1]
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
            raise ConditionError(f"{ast.unparse(tree)!r} is not allowed in a condition")


class _NoLength:
    """The length of what has none: every comparison with it is false, `!=` too, and it is not true."""

    def __bool__(self) -> bool:
        return False


_NO_LENGTH = _NoLength()


def _length(argument: Node) -> Node:
    def length(context: Values) -> int | _NoLength:
        value = argument(context)
        return len(value) if isinstance(value, str | list | tuple | Mapping | set | frozenset) else _NO_LENGTH

    return length


_ORDERINGS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _comparison(op: ast.cmpop, left: Node, right: Node) -> Node:
    compare = _comparator(op)

    def compared(context: Values) -> bool:
        sides = left(context), right(context)
        return not any(side is _NO_LENGTH for side in sides) and compare(*sides)

    return compared


def _comparator(op: ast.cmpop) -> Callable[[Any, Any], bool]:
    if isinstance(op, ast.Eq | ast.Is):
        return _same
    if isinstance(op, ast.NotEq | ast.IsNot):
        return lambda left, right: not _same(left, right)
    if isinstance(op, ast.In):
        return lambda item, container: _contains(container, item) is True
    if isinstance(op, ast.NotIn):
        return lambda item, container: _contains(container, item) is False
    ordering = _ORDERINGS[type(op)]  # the grammar has no other comparison
    return lambda left, right: _ordered(ordering, left, right)


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
