"""Problems of a JMESPath expression: syntax and unknown functions."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jmespath
from jmespath.exceptions import EmptyExpressionError, IncompleteExpressionError, JMESPathError
from jmespath.functions import Functions

MAX_CHARACTERS = 2_000
MAX_DEPTH = 100  # the parser accepts more, but evaluation recurses once per level
_TOO_DEEP = "is nested too deeply"
_NOT_JMESPATH = "is not a JMESPath expression"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])", re.ASCII)
_MAX_BARE_NUMBERS = 20  # quoted in backticks; each one parses the expression again
_MAX_SUGGESTION_CHARACTERS = 200


def find_jmespath_problem(text: str) -> str | None:
    if len(text) > MAX_CHARACTERS:
        return f"has more than {MAX_CHARACTERS} characters; compute it in a tool"
    try:
        tree = jmespath.compile(text).parsed
    except (JMESPathError, ValueError) as error:
        return f"{_NOT_JMESPATH}: {_explain_bare_number(text, error) or _explain_syntax(error)}"
    except RecursionError:
        return _TOO_DEEP
    if _is_deeper(tree, MAX_DEPTH):
        return _TOO_DEEP
    problems = (_find_call_problem(name, argument_count) for name, argument_count in _iter_calls(tree))
    return next(filter(None, problems), None)


def _explain_bare_number(text: str, error: Exception) -> str | None:
    """Suggests backticks if the fault is a bare number, as other languages write it."""
    number = _number_at_fault(text, error)
    if number is None:
        return None
    advice = f"write numbers in backticks: `{number[0][:40]}`"
    corrected = text
    for _ in range(_MAX_BARE_NUMBERS):
        corrected, behind = _with_backticks(corrected, number), number.end() + 2
        fault = _find_fault(corrected)
        if fault is None:
            return (
                f"write numbers in backticks: {corrected}" if len(corrected) <= _MAX_SUGGESTION_CHARACTERS else advice
            )
        if _fault_position(fault, corrected) < behind:
            return None  # no number is allowed there, even with backticks
        number = _number_at_fault(corrected, fault)
        if number is None:  # another fault follows
            break
    return advice


def _with_backticks(text: str, number: "re.Match[str]") -> str:
    return f"{text[: number.start()]}`{number[0]}`{text[number.end() :]}"


def _find_fault(text: str) -> Exception | None:
    try:
        jmespath.compile(text)
    except (JMESPathError, ValueError, RecursionError) as error:
        return error
    return None


def _number_at_fault(text: str, error: Exception) -> "re.Match[str] | None":
    is_number = getattr(error, "token_type", None) == "NUMBER"
    return _NUMBER.match(text, _fault_position(error, text)) if is_number else None


def _fault_position(error: Exception, text: str) -> int:
    """Returns the position at which the parser stopped, or the text's length."""
    position = getattr(error, "lex_position", None)
    return position if isinstance(position, int) else len(text)


def _explain_syntax(error: Exception) -> str:
    """Explains a syntax error in one sentence.

    The parser's own text names its tokens and repeats the expression in three lines.
    """
    token = getattr(error, "token_value", None)
    if isinstance(error, EmptyExpressionError):
        return "it is empty"
    if isinstance(error, IncompleteExpressionError) or token == "":
        return "its end is missing"
    position = getattr(error, "lex_position", None)
    if token is None or not isinstance(position, int):
        return "it cannot be read"
    if str(getattr(error, "message", "")).startswith("Unclosed"):
        return f"the quote at character {position + 1} is not closed"
    return f"unexpected {str(token)[:40]!r} at character {position + 1}"


def _is_deeper(tree: Mapping[str, Any], max_depth: int) -> bool:
    level = [tree]
    for _ in range(max_depth):
        level = [child for node in level for child in node.get("children", []) if isinstance(child, dict)]
    return bool(level)


def _iter_calls(tree: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yields every called function with the number of its arguments."""
    pending = [tree]
    while pending:
        node = pending.pop()
        children = node.get("children", [])
        if node["type"] == "function_expression":
            yield node["value"], len(children)
        pending.extend(child for child in reversed(children) if isinstance(child, dict))


def _find_call_problem(name: str, argument_count: int) -> str | None:
    known = Functions.FUNCTION_TABLE
    if name not in known:
        close = difflib.get_close_matches(name[:100], known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"use one of {', '.join(sorted(known))}"
        return f"{_NOT_JMESPATH}: the function {name[:100]} does not exist; {hint}"
    signature = known[name]["signature"]
    variadic = bool(signature) and bool(signature[-1].get("variadic"))
    if argument_count == len(signature) or (variadic and argument_count > len(signature)):
        return None
    needed = f"{'at least ' if variadic else ''}{len(signature)}"
    return f"{_NOT_JMESPATH}: {name} takes {needed} argument{'' if len(signature) == 1 else 's'}, not {argument_count}"
