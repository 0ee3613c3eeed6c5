"""Questions on the console's pages: how each version's are shown, which keys get a form, what it sends."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ops.console.allowed_run_actions import allowed_run_actions, possible_run_actions
from ops.console.page_renderer import PageRenderer
from ops.console.question_forms import parse_answer, question_views
from ops.console.sessions import Session
from ops.console.visitor import Visitor
from tests.unit.ops import questions
from triggers.api.caller_access import Caller
from triggers.api_keys import ApiKey
from triggers.gateway.http_problems import ProblemError

NOW = datetime.now(UTC)
PAY: dict[str, Any] = {
    **questions.PAY,
    "arguments": {"amount": 12, "to": "Ada <b>"},
    "payload": {"ticket": 0},
    "choices": ["yes", "no, <never>"],
}
ASK: dict[str, Any] = {"kind": "tool", "number": 4, "id": "q_1", "agent": "Clerk", "turn": 4, "tool": "Card"}
ANSWER_SCHEMA: dict[str, Any] = {"kind": "message", "number": 1, "agent": "A", "turn": 1, "text": "Which colour?"}
OLD: dict[str, Any] = {"kind": "tool", "number": 1, "agent": "A", "turn": 1, "text": "t waits", "tool": "Card"}
ANSWERED: dict[str, Any] = {"number": 2, "by": "Ada (api)", "question": {"id": "q_0", "tool": "Form", "keys": ["a"]}}
RUN: dict[str, Any] = {"run_id": "run_1", "workflow": "W", "app_id": "a", "state": "needs_human"}
WAITING = {**RUN, "question": ANSWER_SCHEMA, "questions": [ANSWER_SCHEMA, PAY, ASK], "answers": [ANSWERED]}


def visitor(*, may_approve: bool = True, may_act: bool = True, access: Any = "write") -> Visitor:
    key = ApiKey("key_1", "Ada", None, NOW, access=access, may=("approve",) if may_approve else ())
    return Visitor(Session("t" * 43, "hash", NOW + timedelta(minutes=5) if may_act else None), Caller(key))


def page(run: dict[str, Any], visitor_: Visitor) -> str:
    order = next(each for each in possible_run_actions(run) if each.name == "answer")
    values: dict[str, Any] = {
        "run": run,
        "order": order,
        "questions": question_views(run),
        "path": "/console/runs/run_1",
    }
    return bytes(PageRenderer().render("answer", visitor_, title="Answer?", **values).body).decode()


def test_each_question_is_shown_once_with_its_own_form() -> None:
    html = page(WAITING, visitor())

    assert html.count("Pay 12 EUR?") == html.count("Which colour?") == 1
    assert "pay waits for a person" not in html  # the title shows the question
    assert re.findall(r'name="question" value="([^"]*)"', html) == ["1", "q_5f0c", "q_1"]
    assert "<dt>amount</dt><dd>12</dd>" in html
    assert "<dt>to</dt><dd>Ada &lt;b&gt;</dd>" in html
    assert "&#34;ticket&#34;: 0" in html
    assert re.findall(r'name="choice" value="([^"]*)"', html) == ["yes", "no, &lt;never&gt;"]
    assert 'name="key.why"' in html
    assert 'name="key.verdict"' not in html  # the buttons replace the field
    assert (html.count('name="message"'), html.count('name="responses"')) == (1, 1)
    assert html.index("<button hidden disabled>") < html.index('name="choice"')  # Enter in a field presses this button
    assert "wrong" not in html


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"kind": "tool"},
        OLD,
        {**OLD, "keys": ["verdict"], "also": ["Form"]},
        {**OLD, "payload": "x" * 20_000},
        {**OLD, "choices": ["a"], "keys": []},
        {"kind": "message", "text": "half \ud83d", "number": 1},
        {**PAY, "arguments": '{"amount": 1… (90000 characters)', "payload": []},
    ],
)
def test_a_question_of_any_version_has_a_page_and_a_form(question: dict[str, Any]) -> None:
    run = {**RUN, "question": question or None}

    html = page(run, visitor())

    assert html.count('name="question"') == (1 if question else 0)
    assert "built-in method" not in html
    assert str(question.get("payload", "")) in html.replace("&#34;", '"')  # a person must see all that is approved


@pytest.mark.parametrize(
    ("who", "forms", "orders", "why_not"),
    [
        (visitor(), 3, ["discard"], ""),
        (visitor(may_act=False), 0, ["answer", "discard"], "This session is read-only."),
        (visitor(may_approve=False), 0, [], "keys create NAME --may approve"),
        (visitor(may_approve=False, may_act=False), 0, [], "keys create NAME --may approve"),
        (visitor(access="read"), 0, [], "This key is read-only"),
    ],
)
def test_only_a_session_that_may_approve_has_forms(who: Visitor, forms: int, orders: list[str], why_not: str) -> None:
    html = page(WAITING, who)

    assert html.count('action="/console/runs/run_1/answer"') == forms
    assert "Pay 12 EUR?" in html
    assert why_not in html
    assert ("why-not" in html) == bool(why_not)
    assert [order.name for order in allowed_run_actions(WAITING, who)] == orders


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"question": "1", "message": "blue"}, {"question": 1, "message": "blue"}),
        ({"question": "q_5f0c", "choice": "7"}, {"question": "q_5f0c", "responses": {"Refund": {"verdict": "7"}}}),
        (
            {"question": "3", "choice": "yes", "key.why": "true"},
            {"question": 3, "responses": {"Refund": {"verdict": "yes", "why": True}}},
        ),
        ({"question": "q_1", "responses": '{"n": 7}'}, {"question": "q_1", "responses": {"Card": {"n": 7}}}),
        ({"question": "q_1"}, {"question": "q_1", "responses": {"Card": {}}}),
        ({"question": "2", "key.a": "x"}, {"question": 2, "responses": {"Form": {"a": "x"}}}),  # a second click
        ({"question": "q_gone", "choice": "yes"}, {"question": "q_gone", "responses": {"tool": {"choice": "yes"}}}),
    ],
)
def test_a_form_answers_the_question_that_it_shows(form: dict[str, str], expected: dict[str, Any]) -> None:
    assert parse_answer(WAITING, form) == expected


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"question": ""},
        {"question": "9" * 5_000, "message": "x"},
        {"question": "٣" * 20, "message": "x"},
        {"question": "q_" + "x" * 5_000, "message": "x"},
        *({"question": "q_1", "responses": text} for text in ("", "[1]", "{", "null", "[" * 5_000, '{"a": NaN}')),
    ],
)
def test_an_impossible_form_gets_an_error(form: dict[str, str]) -> None:
    with pytest.raises(ProblemError) as raised:
        parse_answer(WAITING, form)
    assert raised.value.status == 422
