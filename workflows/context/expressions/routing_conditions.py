"""Conditions: routing expressions, parsed into a whitelisted tree, without `eval`.

Two kinds of names have no value. Suppressed ones (environment variables in production) make the whole condition false,
whatever its form: `not ${flag}` must not route on a suppressed value. Unset ones are None: `==`, `!=` and truth work,
orderings and `in` are false. Nothing raises at run time.
"""

import ast
import logging
import operator
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from workflows.context.values.value_types import equals_strictly

_NAME = r"[^\W\d]\w*(?:\.\w+)*"
_VARIABLE = re.compile(rf"\$\{{\s*({_NAME})\s*\}}|\bcontext_variables\.({_NAME})")
_QUOTED_TEXT = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPE_VALUES = {"n": "\n", "t": "\t", "r": "\r", "\n": "", **{mark: mark for mark in "\\'\""}}
_NUMBER = re.compile(r"(?<![\w.])\.?\d(?:[eE][+-]|[\w.])*")
_PLAIN_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_KEYWORD = re.compile(r"\b(?:AND|OR|NOT)\b")
_LITERAL_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "None", "none"), None),
}
_VARIABLE_ID = "$"  # prefix of a variable's node id, which no identifier in a source text can have
MAX_LENGTH = 2_000
MAX_NESTING = 100

log = logging.getLogger(__name__)

Values = Mapping[str, Any]
Node = Callable[[Values], Any]
Comparator = Callable[[Any, Any], bool]

_ORDERINGS: Mapping[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_ORDER_OPERATORS: Mapping[str, Comparator] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _NoLength:
    """The length of a value without one: false, and every comparison with it is false."""

    def __bool__(self) -> bool:
        return False


_NO_LENGTH = _NoLength()


class ConditionError(ValueError):
    """An expression outside of the grammar; the text names the part."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled condition.

    `names` are as written: the variable may be any prefix of a dotted name."""

    text: str
    names: frozenset[str]
    _evaluate: Node

    def holds(self, values: Values, *, suppressed: Collection[str] = ()) -> bool:
        if any(prefix in suppressed for name in self.names for prefix in name_prefixes(name)):
            return False
        try:
            return bool(self._evaluate(values))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 -- a context may hold any object of a tool, and comparing it may raise anything
            log.warning("condition_not_evaluated", extra={"condition": self.text, "error": type(error).__name__})
            return False


def name_prefixes(name: str) -> list[str]:
    """Returns the ways to read a dotted name.

    `a.b.c` may be a name of its own, or `b.c` in `a.b`, or `c` in `b` in `a`."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def look_up(name: str, values: Values) -> Any:
    """Returns a variable's value, or the value at a path below it.

    The longest prefix that is a variable wins. The path follows keys of mappings, never attributes."""
    for prefix in name_prefixes(name):
        if prefix in values:
            return _walk_path(values[prefix], name[len(prefix) + 1 :])
    return None


def _walk_path(value: Any, path: str) -> Any:
    for key in path.split(".") if path else ():
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def compile_condition(text: str) -> Condition:
    if len(text) > MAX_LENGTH:
        raise ConditionError(f"a condition has at most {MAX_LENGTH} characters")
    try:
        terms = _SourceTerms(text)
        node = _compile_node(terms.restore_terms(_parse(terms.source)))
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        if isinstance(error, ConditionError):
            raise
        raise ConditionError(f"{text!r} is not a condition such as ${{stage}} == 'done'") from None
    return Condition(text, frozenset(terms.variables.values()), node)


@dataclass(frozen=True, slots=True)
class ConditionPart:
    """One part of a condition.

    `equals` is the variable and the literal, where the part is like `${a} == 1`."""

    condition: Condition
    equals: tuple[str, Any] | None


def split_alternatives(text: str) -> tuple[tuple[ConditionPart, ...], ...]:
    """Splits a condition into the alternatives of `or`, each into the parts of `and`."""
    terms = _SourceTerms(text)
    tree = terms.restore_terms(_parse(terms.source))
    return tuple(tuple(map(_read_part, _split_operands(way, ast.And))) for way in _split_operands(tree, ast.Or))


def _split_operands(tree: ast.expr, kind: type[ast.boolop]) -> list[ast.expr]:
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, kind):
        return [part for value in tree.values for part in _split_operands(value, kind)]
    return [tree]


def _read_part(tree: ast.expr) -> ConditionPart:
    condition = Condition(ast.unparse(tree), _variables_in(tree), _compile_node(tree))
    match tree:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            sides = [(left, right), (right, left)]
            named = [(one, other) for one, other in sides if isinstance(one, ast.Name) and not _variables_in(other)]
            found = next(((name, other) for one, other in named for name in _variables_in(one)), None)
            return ConditionPart(condition, None if found is None else (found[0], _compile_node(found[1])({})))
    return ConditionPart(condition, None)


def _variables_in(tree: ast.expr) -> frozenset[str]:
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return frozenset(name[2:-1] for name in names if name.startswith(_VARIABLE_ID))


class _SourceTerms:
    """Replaces names and texts by identifiers before Python's parser runs.

    Quoted text and variables' values are never parsed as source. `variables` and `texts` map the identifiers back."""

    def __init__(self, text: str) -> None:
        self.variables: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self._stem = "v"
        # Normalized as the parser does, so no name of the text equals one of ours.
        while self._stem in unicodedata.normalize("NFKC", text):
            self._stem += "_"
        parts = _QUOTED_TEXT.split(text)
        self.source = "".join(
            self._add_term(self.texts, _unquote(part)) if index % 2 else self._prepare_part(part)
            for index, part in enumerate(parts)
        ).strip()

    def _add_term(self, kind: dict[str, str], term: str) -> str:
        identifier = f"{self._stem}{len(self.variables) + len(self.texts)}"
        kind[identifier] = term
        return f" {identifier} "

    def _prepare_part(self, part: str) -> str:
        if "#" in part:
            raise ConditionError("a condition has no comments")
        part = _VARIABLE.sub(lambda match: self._add_term(self.variables, _check_name(match[1] or match[2])), part)
        for number in _NUMBER.findall(part):
            if not _PLAIN_NUMBER.fullmatch(number):
                raise ConditionError(f"{number!r} is not a number such as 12 or 0.5")
        return re.sub(r"\s", " ", _KEYWORD.sub(lambda match: match[0].lower(), part))

    def restore_terms(self, tree: ast.expr) -> ast.expr:
        """Puts names and texts back into the parsed tree, where they are only values."""
        named: ast.expr = _TermRestorer(self.variables, self.texts).visit(tree)
        return named


class _TermRestorer(ast.NodeTransformer):
    def __init__(self, variables: Mapping[str, str], texts: Mapping[str, str]) -> None:
        self._variables = variables
        self._texts = texts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._variables:
            return ast.Name(f"{_VARIABLE_ID}{{{self._variables[node.id]}}}", node.ctx)
        return ast.Constant(self._texts[node.id]) if node.id in self._texts else node


def _check_name(name: str) -> str:
    if any(part.startswith("__") for part in name.split(".")[1:]):
        raise ConditionError(f"{name!r} is not a name: no part after a dot begins with two underscores")
    return name


def _unquote(quoted: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        return chr(int(code, 16)) if code else _ESCAPE_VALUES.get(match[4], match[0])

    return _ESCAPE.sub(character, quoted[1:-1])


def _parse(source: str) -> ast.expr:
    tree = ast.parse(source, mode="eval").body
    level: list[ast.AST] = [tree]
    for _ in range(MAX_NESTING):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ConditionError(f"a condition is nested at most {MAX_NESTING} levels deep")
    return tree


def _compile_node(tree: ast.expr) -> Node:
    match tree:
        case ast.BoolOp(op=ast.And(), values=values):
            parts = [_compile_node(value) for value in values]
            return lambda context: all(part(context) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=values):
            parts = [_compile_node(value) for value in values]
            return lambda context: any(part(context) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            negated = _compile_node(operand)
            return lambda context: not negated(context)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compile_comparison(
                _select_comparator(op, ast.unparse(tree)), _compile_node(left), _compile_node(right)
            )
        case ast.Compare():
            raise ConditionError(f"{ast.unparse(tree)!r} compares more than two things; join two comparisons with and")
        case _:
            return _compile_term(tree)


def _compile_term(tree: ast.expr) -> Node:
    match tree:
        case ast.Name(id=name) if name.startswith(_VARIABLE_ID):
            variable = name[2:-1]
            return lambda context: look_up(variable, context)
        case ast.Name(id=name) if name in _LITERAL_WORDS:
            return lambda _: _LITERAL_WORDS[name]
        case ast.Constant(value=bool() | None | int() | float() | str() as value):
            return lambda _: value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)) if not isinstance(
            number, bool
        ):
            return lambda _: -number
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            items = [_compile_node(element) for element in elements]
            return lambda context: [item(context) for item in items]
        case ast.Call(func=ast.Name(id="len"), args=[argument], keywords=[]):
            measured = _compile_node(argument)
            return lambda context: _length_of(measured(context))
        case ast.Name() | ast.Attribute(value=ast.Name()):
            word = ast.unparse(tree)
            raise ConditionError(f"{word} stands alone: write '{word}' for a text, or ${{{word}}} for a variable")
        case _:
            raise ConditionError(f"{ast.unparse(tree)!r} is not allowed in a condition")


def _compile_comparison(compare: Comparator, left: Node, right: Node) -> Node:
    def evaluate(context: Values) -> bool:
        sides = left(context), right(context)
        return not any(side is _NO_LENGTH for side in sides) and compare(*sides)

    return evaluate


def _select_comparator(op: ast.cmpop, expression: str) -> Comparator:
    match op:
        case ast.Eq() | ast.Is():
            return equals_strictly
        case ast.NotEq() | ast.IsNot():
            return lambda left, right: not equals_strictly(left, right)
        case ast.In():
            return lambda item, container: item is not None and _contains_item(item, container) is True
        case ast.NotIn():
            return lambda item, container: _contains_item(item, container) is False
        case _:
            symbol = _ORDERINGS[type(op)]  # the grammar has no other comparison
            return lambda left, right: _compare_order(symbol, left, right, expression=expression)


def _length_of(value: Any) -> int | _NoLength:
    return len(value) if isinstance(value, str | list | tuple | Mapping | set | frozenset) else _NO_LENGTH


def _contains_item(item: Any, container: Any) -> bool | None:
    """Searches a container, comparing strictly. None when it is not searchable."""
    if isinstance(container, list | tuple | set | frozenset):
        return any(equals_strictly(item, element) for element in container)
    try:
        return item in container
    except TypeError:
        return None


def _compare_order(symbol: str, left: Any, right: Any, *, expression: str) -> bool:
    if left is None or right is None:
        return False
    try:
        return bool(_ORDER_OPERATORS[symbol](left, right))
    except TypeError:
        kinds = f"{type(left).__name__} {symbol} {type(right).__name__}"
        log.info("condition_type_mismatch", extra={"condition": expression, "types": kinds})
        return False
