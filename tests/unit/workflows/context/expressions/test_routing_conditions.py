"""Conditions: the grammar, against a second evaluator, and what it refuses."""

import asyncio
import logging
import operator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.context.expressions.routing_conditions import MAX_LENGTH, ConditionError, compile_condition

NAMES = ("stage", "count", "_flag", "items", "context", "var_x", "v0", "größe", "stage.a", "items.b.c", "AND")
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(-2, 2),
    st.sampled_from(["", "a", "done", "true", "${stage}", 'it\'s "so" # AND', "a\\b\nc\u2028d", "\\'"]),
    st.text(max_size=4),
)
values = st.one_of(
    scalars,
    st.lists(st.one_of(scalars, st.lists(scalars, max_size=2)), max_size=3),
    st.dictionaries(
        st.sampled_from("abc"),
        st.one_of(scalars, st.dictionaries(st.sampled_from("abc"), scalars, max_size=2)),
        max_size=2,
    ),
    st.floats(),
)
contexts = st.dictionaries(st.sampled_from(NAMES), values, max_size=len(NAMES))


@dataclass(frozen=True)
class Expression:
    """A condition's text, and its meaning by the grammar's document."""

    text: str
    names: frozenset[str]
    kind: str
    parts: tuple[Any, ...] = ()


ABSENT = object()  # the length of a value without one: all comparisons with it are false


def meaning(expression: Expression, context: dict[str, Any]) -> Any:
    parts = expression.parts
    match expression.kind:
        case "variable":
            return value_of(parts[0], context)
        case "literal":
            return parts[0]
        case "list":
            return [meaning(part, context) for part in parts]
        case "len":
            value = meaning(parts[0], context)
            return len(value) if hasattr(value, "__len__") else ABSENT
        case "not":
            return not truth(meaning(parts[0], context))
        case "and":
            return all(truth(meaning(part, context)) for part in parts)
        case "or":
            return any(truth(meaning(part, context)) for part in parts)
        case _:
            return compare(expression.kind, *(meaning(part, context) for part in parts))


def value_of(name: str, context: dict[str, Any]) -> Any:
    """Looks up the name as written, else by the variable that its beginning names."""
    if name in context or "." not in name:
        return context.get(name)
    holder, _, key = name.rpartition(".")
    inside = value_of(holder, context)
    return inside.get(key) if isinstance(inside, dict) else None


def truth(value: Any) -> bool:
    return False if value is ABSENT else bool(value)


def compare(op: str, left: Any, right: Any) -> bool:
    if left is ABSENT or right is ABSENT:
        return False
    if op in ("==", "is", "!=", "is not"):
        same = (type(left) is bool) == (type(right) is bool) and left == right
        return same == (op in ("==", "is"))
    if op in ("in", "not in"):
        try:
            found = any(compare("==", left, each) for each in right) if isinstance(right, list) else left in right
        except TypeError:
            return False
        return not found if op == "not in" else found and left is not None
    orders = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
    try:
        return bool(orders[op](left, right))
    except TypeError:
        return False


def literal(value: Any) -> st.SearchStrategy[Expression]:
    spellings = {None: ["None", "null", "none"], True: ["True", "true", "TRUE"], False: ["False", "false"]}
    texts = spellings[value] if value is None or isinstance(value, bool) else [repr(value)]
    return st.sampled_from([Expression(text, frozenset(), "literal", (value,)) for text in texts])


def variable(name: str) -> st.SearchStrategy[Expression]:
    texts = (f"${{{name}}}", f"${{ {name} }}", f"context_variables.{name}")
    return st.sampled_from([Expression(text, frozenset({name}), "variable", (name,)) for text in texts])


def join_expressions(kind: str, text: str, *parts: Expression) -> Expression:
    return Expression(text, frozenset().union(*(part.names for part in parts)), kind, parts)


def list_expression(items: list[Expression]) -> Expression:
    return join_expressions("list", f"[{', '.join(item.text for item in items)}]", *items)


literals = scalars.flatmap(literal)
terms = st.one_of(
    st.sampled_from(NAMES).flatmap(variable),
    literals,
    st.lists(st.one_of(literals, st.lists(literals, max_size=2).map(list_expression)), max_size=3).map(list_expression),
    st.sampled_from(NAMES).flatmap(variable).map(lambda one: join_expressions("len", f"len({one.text})", one)),
)
comparisons = st.builds(
    lambda op, left, right: join_expressions(op, f"{left.text} {op} {right.text}", left, right),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not"]),
    terms,
    terms,
)


def grow_expression(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def both(word: str, left: Expression, right: Expression) -> Expression:
        return join_expressions(word.lower(), f"({left.text}) {word} ({right.text})", left, right)

    return st.one_of(
        st.builds(
            lambda word, one: join_expressions("not", f"{word} ({one.text})", one),
            st.sampled_from(["not", "NOT"]),
            inner,
        ),
        st.builds(both, st.sampled_from(["and", "or", "AND", "OR"]), inner, inner),
    )


expressions = st.recursive(st.one_of(comparisons, terms), grow_expression, max_leaves=8)


@pytest.mark.design("D1-65")
@given(expressions, contexts)
def test_a_condition_means_what_the_grammar_defines(expression: Expression, context: dict[str, Any]) -> None:
    condition = compile_condition(expression.text)

    assert condition.names == expression.names
    assert condition.holds(context) is truth(meaning(expression, context))


@given(expressions, contexts, st.sets(st.sampled_from(NAMES)))
def test_a_suppressed_name_makes_the_whole_condition_false(
    expression: Expression, context: dict[str, Any], suppressed: set[str]
) -> None:
    condition = compile_condition(expression.text)

    if any(name == each or name.startswith(f"{each}.") for name in expression.names for each in suppressed):
        assert not condition.holds(context, suppressed=suppressed)
    else:
        assert condition.holds(context, suppressed=suppressed) is condition.holds(context)


class RaisingValue:
    """An object of a tool in a context: refuses comparison, length and truth."""

    error: type[BaseException] = ArithmeticError

    def __eq__(self, other: object) -> bool:
        raise self.error

    def __lt__(self, other: object) -> bool:
        raise self.error

    def __contains__(self, other: object) -> bool:
        raise self.error

    def __len__(self) -> int:
        raise self.error

    def __bool__(self) -> bool:
        raise self.error

    __hash__ = None  # type: ignore[assignment]  # -- how Python spells unhashable


class ExitingValue(RaisingValue):
    """Would end the process, or the run."""

    error = SystemExit


class CancellingValue(RaisingValue):
    error = asyncio.CancelledError


class UnreadableContext(dict[str, Any]):
    """A mapping that cannot be read."""

    def get(self, *_: object) -> Any:
        raise asyncio.CancelledError

    def __len__(self) -> int:
        raise SystemExit


class SenselessValue:
    """Answers every operation with a value of a wrong type."""

    def __eq__(self, other: object) -> Any:
        return self

    def __lt__(self, other: object) -> Any:
        return "less"

    def __contains__(self, other: object) -> Any:
        return self

    def __bool__(self) -> Any:
        return "no"  # noqa: PLE0304 -- what a tool's class may do

    def __len__(self) -> int:
        return -1  # noqa: PLE0303 -- what a tool's class may do

    __hash__ = None  # type: ignore[assignment]  # -- how Python spells unhashable


def endless() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


odd = st.one_of(
    values,
    st.binary(max_size=3),
    st.sampled_from([Decimal("NaN"), datetime(2026, 1, 1, tzinfo=UTC), {1, 2}, (1,), object(), range(3)]),
    *(st.builds(kind) for kind in (RaisingValue, ExitingValue, CancellingValue, UnreadableContext, SenselessValue)),
    st.lists(st.builds(RaisingValue), min_size=1, max_size=2),
    st.builds(endless),
)


@given(expressions, st.dictionaries(st.sampled_from(NAMES), odd))
def test_nothing_raises_when_it_is_evaluated(expression: Expression, context: dict[str, Any]) -> None:
    assert compile_condition(expression.text).holds(context) in (True, False)


@given(st.text(max_size=60) | st.text(alphabet="${}ab_v0 '\"()[]<>=!.,andornot", max_size=60))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    with suppress(ConditionError):
        assert compile_condition(text).holds({}) in (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "${x}.__class__",
        "${x.__class__}.y",
        "().__class__",
        "${x}[0]",
        "${x}()",
        "__import__('os')",
        "open('/etc/passwd')",
        "len(${x}, ${y})",
        "len()",
        "len(x=${x})",
        "len(*[1])",
        "f'{1}'",
        "f'{${x}}'",
        "b'x' == ${x}",
        "lambda: 1",
        "[a for a in ${x}]",
        "${x} if ${y} else 1",
        "(${x} := 1)",
        "{'a': 1} == ${x}",
        "{1} == ${x}",
        "${a..b}",
        "${a.}",
        "${.a}",
        "${1a}",
        "${x.__class__}",
        "${x.__class__.__mro__}",
        "context_variables.x.__class__",
        "context_variables.get('x')",
        "context_variables['x']",
        "context_variables",
        "{x.__class__}",
        "print(${x})",
        "${x}.upper()",
        "context_variables.x.upper()",
        "exec('1')",
        "globals()",
        "yield ${x}",
        "(yield)",
        "*${x}",
        "{**${x}}",
        "'a' 'b' == ${x}",
        "'''a''' == ${x}",
        "r'a' == ${x}",
        "f'${x}' == 'a'",
        "'%s' % ${x} == 'a'",
        "-True == ${x}",
        "+1 == ${x}",
        "1_000 == ${x}",
        "0x10 == ${x}",
        "1.5.2 == ${x}",
        "${x} == 1and ${y}",
        "'\\U99999999' == ${x}",
        "${x} && ${y}",
        "!${x}",
        "And",
        "${x} is",
        "not",
        "1 < ${x} < 3",
        "${x} == ${y} == ${z}",
        "${x} is not null is not null",
        "${x} + 1 == 2",
        "-${x}",
        "~1",
        "x",
        "var_x == 1",
        "v0 == ${x}",
        "ᵛ0 == ${x}",
        "${x} ${y}",
        "${x}${y}",
        "${x",
        "${}",
        "${a-b}",
        "${x} == 1; 2",
        "${x} == 1 # always",
        "${x} == 'open",
        "${x} = 1",
        "...",
        "1j == ${x}",
        "await ${x}",
        "\x00",
        "\ud800",
    ],
)
def test_what_is_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        compile_condition(text)


@pytest.mark.parametrize(
    "text",
    [
        "1 == " + "1" * MAX_LENGTH,
        "not " * 400 + "1",
        "[" * 300 + "]" * 300,
        "not (" * 150 + "1" + ")" * 150,
        "-" * 1500 + "1",
    ],
)
def test_huge_and_deep_conditions_are_refused_before_they_run(text: str) -> None:
    with pytest.raises(ConditionError):
        compile_condition(text)


@pytest.mark.parametrize(
    "text", ["'${x}' == '${x}'", '"${x}" == "${x}"', "'it is ${x}' == \"it is ${x}\"", "'a\\'${x}' == 'a\\'${x}'"]
)
def test_a_quoted_name_is_text(text: str) -> None:
    condition = compile_condition(text)

    assert condition.names == frozenset()
    assert condition.holds({"x": "anything"}, suppressed={"x"})


@pytest.mark.parametrize("text", ["'AND' == ${x}", '${x} == "AND"'])
def test_words_inside_quotes_stay_words(text: str) -> None:
    assert compile_condition(text).holds({"x": "AND"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${unset} != True", True),
        ("not ${unset}", True),
        ("${unset} == null", True),
        ("context_variables.unset is not null", False),
        ("${unset} < 1", False),
        ("${unset} >= 0", False),
        ("${unset} in ['a']", False),
        ("'a' in ${unset}", False),
        ("'a' not in ${unset}", False),
        ("len(${unset}) > 0", False),
        ("len(${unset}) == 0", False),
        ("len(${unset}) != 0", False),
        ("${unset}", False),
    ],
)
def test_an_unset_name_is_like_none(text: str, expected: bool) -> None:
    assert compile_condition(text).holds({}) is expected


@pytest.mark.parametrize(
    "text",
    [
        "${flag} == True",
        "not ${flag}",
        "${flag} != True",
        "True or ${flag}",
        "${a} == 1 or ${flag} == null",
        "${flag} in [null]",
    ],
)
def test_a_suppressed_name_is_false_whatever_the_form(text: str) -> None:
    assert not compile_condition(text).holds({"a": 1}, suppressed={"flag"})


@pytest.mark.parametrize(
    "text", ["not ${flag.a}", "${flag.a.b} != 1", "context_variables.flag.a is null", "${a} or ${flag.a}"]
)
def test_what_lies_in_a_suppressed_variable_is_suppressed(text: str) -> None:
    condition = compile_condition(text)

    assert condition.holds({"a": 1}, suppressed={"flags"})
    assert not condition.holds({"a": 1}, suppressed={"flag"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("order.status", "paid"),
        ("order.lines.first", 1),
        ("order.absent", None),
        ("order.status.deeper", None),
        ("order.list.0", None),
        ("order.items", None),  # a key, never a method
        ("literal.name", "by its own name"),
        ("literal.name.more", None),
        ("absent.name", None),
    ],
)
def test_a_dotted_name_is_a_name_or_a_key_inside_a_mapping(name: str, expected: Any) -> None:
    context = {
        "order": {"status": "paid", "lines": {"first": 1}, "list": ["x"]},
        "literal.name": "by its own name",
        "literal": {"name": {"more": "inside"}},
    }

    assert compile_condition(f"${{{name}}} == ${{wanted}}").holds({**context, "wanted": expected})


@pytest.mark.parametrize(
    ("text", "mismatch"),
    [
        ("${text} < 3", "str < int"),
        ("3 >= ${text}", "int >= str"),
        ("${text} > ${list}", "str > list"),
        ("${unset} < 3", None),
        ("${number} < 3", None),
        ("${text} == 3", None),
    ],
)
def test_an_ordering_of_different_types_is_false_and_an_event(
    text: str, mismatch: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="workflows.context"):
        assert not compile_condition(text).holds({"text": "a", "list": [1], "number": 5})

    said = [(each.levelname, each.getMessage(), vars(each)["types"]) for each in caplog.records]
    assert said == ([("INFO", "condition_type_mismatch", mismatch)] if mismatch else [])


def test_an_object_that_cannot_be_compared_is_an_event_and_not_an_end(caplog: pytest.LogCaptureFixture) -> None:
    assert not compile_condition("${x} == 1 or True").holds({"x": ExitingValue()})

    assert [each.getMessage() for each in caplog.records] == ["condition_not_evaluated"]


def test_a_chained_comparison_is_refused_with_an_alternative() -> None:
    with pytest.raises(ConditionError, match="compares more than two things; join two comparisons with and"):
        compile_condition("1 < ${x} < 3")


def test_a_condition_may_stand_on_several_lines() -> None:
    assert compile_condition("${a} == 1\n  AND\r\n\t${b} == 2\n").holds({"a": 1, "b": 2})


def test_equality_is_strict_about_text_numbers_and_truth() -> None:
    holds = {
        text: compile_condition(text).holds({"t": "true", "one": 1})
        for text in ("${t} == True", "${one} == True", "${one} == 1.0")
    }
    assert holds == {"${t} == True": False, "${one} == True": False, "${one} == 1.0": True}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("not ${t} and ${f}", False),
        ("not ${f} or ${f}", True),
        ("${t} or ${f} and ${f}", True),
        ("not ${f} == ${f}", False),
        ("not ${one} in [2]", True),
        ("(${t} or ${f}) and ${f}", False),
    ],
)
def test_precedence_is_pythons(text: str, expected: bool) -> None:
    assert compile_condition(text).holds({"t": True, "f": False, "one": 1}) is expected


def test_real_expressions_of_packages() -> None:
    text = "${task_batch_route_ready} and ${routing_mode} == 'task_batch' and len(${selected_capabilities}) > 0"
    context = {"task_batch_route_ready": True, "routing_mode": "task_batch", "selected_capabilities": ["a"]}

    assert compile_condition(text).holds(context)
    assert not compile_condition(text).holds({**context, "selected_capabilities": []})
