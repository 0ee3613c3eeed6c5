"""Expressions: faults are found when the package is read, wherever they stand."""

from pathlib import Path
from typing import Any

import jmespath
import pytest
from jmespath.exceptions import JMESPathError

from tests.unit.workflows.packages import errors, load
from triggers.event_expressions import evaluate
from workflows.package.jmespath_problems import MAX_CHARACTERS, find_jmespath_problem

HOOK: dict[str, Any] = {"type": "webhook", "apps": ["a"], "verify": {"scheme": "github", "secret": "env:S"}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty"),
        ("a[", "something is missing at its end"),
        ("a.b.", "something is missing at its end"),
        ("a ==", "something is missing at its end"),
        ("a b", "'b' at character 3 does not belong there"),
        ("#", "'#' at character 1 does not belong there"),
        ("a == 'x", "the quote at character 6 is not closed"),
        ("lenght(a)", "there is no function lenght; did you mean length?"),
        ("length(a, b)", "length takes 1 argument, and has 2"),
        ("a[?contains(b)]", "contains takes 2 arguments, and has 1"),
        ("merge()", "merge takes at least 1 argument, and has 0"),
        ("{x: {y: not_null()}}", "not_null takes at least 1 argument, and has 0"),
        ("map(&zzz(@), a)", "there is no function zzz; use one of abs, avg"),
        ("total > 100", "write numbers in backticks: total > `100`"),
        ("100 <= total && total < 1.5e3", "write numbers in backticks: `100` <= total && total < `1.5e3`"),
        ("items[?n == -5][0].id", "write numbers in backticks: items[?n == `-5`][0].id"),
        ("contains(a, 3)", "write numbers in backticks: contains(a, `3`)"),
        ("total > 100 and paid", "write numbers in backticks: `100`"),
        ("total > 100 && " + "!" * 1_900 + "a", "write numbers in backticks: `100`"),
        ("x == 'ü' && n > 5 || " * 12 + "y", "write numbers in backticks: `5`"),
        ("a.0", "'0' at character 3 does not belong there"),
        ("a 5", "'5' at character 3 does not belong there"),
        ("a > 1_000", "'1' at character 5 does not belong there"),
    ],
)
def test_it_is_one_sentence(text: str, problem: str) -> None:
    found = find_jmespath_problem(text)

    assert found is not None
    assert found.startswith(f"is not a JMESPath expression: {problem}")
    assert "\n" not in found
    with pytest.raises(JMESPathError):
        jmespath.search(text, {"a": [{"b": 1}]})


def test_bounds() -> None:
    assert (
        find_jmespath_problem("a" * (MAX_CHARACTERS + 1))
        == f"has more than {MAX_CHARACTERS} characters; let a tool compute it"
    )
    assert find_jmespath_problem("!" * 1999 + "a") == "is nested too deeply"


@pytest.mark.parametrize("expression", ["||".join(["a"] * 600), "|".join(["a"] * 200), "[" * 150 + "a" + "]" * 150])
def test_what_the_parser_takes_and_no_event_can_be_asked_is_refused(expression: str) -> None:
    assert find_jmespath_problem(expression) == "is nested too deeply"


@pytest.mark.parametrize("expression", ["||".join(["a=='x'"] * 99), "|".join(["a"] * 99), ".".join(["a"] * 99)])
def test_what_is_accepted_can_be_asked_of_an_event(expression: str) -> None:
    assert find_jmespath_problem(expression) is None
    assert evaluate(expression, {"a": "y"}) in (None, False)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "length(a)",
        "merge(a, b, c)",
        "not_null(a)",
        "sort_by(a, &b)[0].c",
        '`{"type": "x"}`',
        "join(', ', a || `[]`)",
    ],
)
def test_what_can_be_evaluated_has_no_problem(text: str) -> None:
    assert find_jmespath_problem(text) is None


@pytest.mark.parametrize("text", ["nope(a)", "length(a, b)", "a[", "total > 100"])
def test_every_place_of_one_is_checked(tmp_path: Path, text: str) -> None:
    external = {"type": "external", "url": "https://example.com", "select": text}
    package = load(
        tmp_path,
        context_variables={
            "definitions": {
                "c": {"type": "integer", "source": {"type": "computed", "computation": text, "inputs": []}},
                "e": {"type": "string", "source": external},
            }
        },
        triggers=[
            {**HOOK, "when": text},
            {**HOOK, "dedupe": f"={text}", "name": "b"},
            {**HOOK, "message": f"={text}", "name": "c"},
            {**HOOK, "input": {"x": [{"y": f"={text}"}]}, "name": "d"},
            {**HOOK, "apps": [], "app_id": f"={text}", "name": "e"},
        ],
    )

    found = errors(package)
    assert [(each.code, each.path) for each in found] == [
        ("bad_expression", "definitions.c.source.computation"),
        ("bad_expression", "definitions.e.source.select"),
        ("bad_trigger", "triggers[0].when"),
        ("bad_trigger", "triggers[1].dedupe"),
        ("bad_trigger", "triggers[2].message"),
        ("bad_trigger", "triggers[3].input.x"),
        ("bad_trigger", "triggers[4].app_id"),
    ]
    assert len({each.message for each in found}) == 1
