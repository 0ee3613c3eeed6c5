"""Choices of a question return from a form and a terminal as they were offered."""

import asyncio
from typing import Any

import pytest

from workflows.chat.questions.call_questions import PackageCall, UIToolError, check_choices, context_for_call
from workflows.tools import use_ui_tool


@pytest.mark.parametrize(
    "choices", [["yes", "no"], ("oui\u00a0!",), ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"], ["x" * 200]]
)
def test_a_choice_is_offered_as_it_is_given(choices: Any) -> None:
    assert check_choices(choices) == tuple(choices)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ("yes", "list of texts"),
        (["yes", 7], "list of texts"),
        ([], "1 to 20"),
        (["yes", "yes"], "different"),
        ([" "], "one line"),
        (["x" * 201], "200 characters"),
        (["x" * 300 + "a", "x" * 300 + "b"], "200 characters"),
        (["yes\nto all"], "one line"),
        (["yes\r\n"], "one line"),
        (["half \ud800"], "one line"),
    ],
)
def test_a_choice_that_would_come_back_as_another_text_is_refused(choices: Any, said: str) -> None:
    with pytest.raises(UIToolError, match=said):
        check_choices(choices)


@pytest.mark.parametrize("tool_id", ["", " \n"])
async def test_a_question_that_no_answer_could_name_is_not_asked(tool_id: str) -> None:
    with pytest.raises(UIToolError, match="tool_id"):
        await asyncio.create_task(use_ui_tool(tool_id, {}), context=context_for_call(PackageCall("pay")))
