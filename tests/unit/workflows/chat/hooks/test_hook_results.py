"""Hook results: providers take them, or they are refused in one sentence."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.chat.history.messages import to_history
from workflows.chat.hooks.hook_results import MAX_SENT_CHARACTERS, UnfitError, check_messages, check_text


def user(text: Any, **parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **parts}


def calling(*ids: str, text: str | None = None) -> dict[str, Any]:
    calls = [{"id": each, "type": "function", "function": {"name": "look", "arguments": "{}"}} for each in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def result(call: str | None, text: str = "found") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": text}


def test_messages_that_are_well_stay_as_they_are() -> None:
    messages = [
        user("Begin.", name="user"),
        calling("1", "2"),
        result("1"),
        result("2"),
        {"role": "assistant", "content": "Done.", "name": "A"},
        user("Go on.", name="B"),
    ]

    assert check_messages(messages) == messages


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([user("a"), result("9")], [user("a")]),
        ([calling("1"), user("a")], [user("a")]),
        ([calling("1", text="I look."), user("a")], [{"role": "assistant", "content": "I look."}, user("a")]),
        ([calling("1", "2"), result("2"), user("a")], [calling("2"), result("2"), user("a")]),
        ([calling("1"), user("a"), result("1")], [user("a")]),
        ([result("1"), calling("1"), result("1")], [calling("1"), result("1")]),
        ([calling("1"), result("1"), result("1", "again")], [calling("1"), result("1")]),
        ([calling(""), result("")], []),
        ([user(" "), user(None), user("a")], [user("a")]),
        ([{"content": "a"}, {"role": "narrator", "content": "b"}], [user("a"), user("b")]),
        ([{"role": "system", "content": "a"}], [user("a")]),
        ([user([{"type": "text", "text": "a"}, "b"])], [user("a\nb")]),
        ([user("a", name=5, parts=1)], [user("a")]),
        ([user("half \ud83d")], [user("half ?")]),
    ],
)
def test_what_no_provider_takes_is_put_right(messages: list[Any], expected: list[Any]) -> None:
    assert check_messages(messages) == expected


def test_arguments_that_are_data_become_text() -> None:
    call = {"id": "1", "function": {"name": "look", "arguments": {"n": 1}}}

    [message, _] = check_messages([{"role": "assistant", "tool_calls": [call]}, result("1")])

    assert message["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"n": 1}'}


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        (None, "nothing, where a list of messages is needed"),
        ("text", "of type str, where a list"),
        (({"role": "user"},), "of type tuple, where a list"),
        ([user("a"), "b"], "message 2 is of type str, where a mapping"),
        ([user({"text": "a"})], "the content of message 1 is of type dict, where text is needed"),
        ([user([{"type": "image_url"}])], "message 1 has a part that is no text"),
        ([{"role": "assistant", "tool_calls": [{"id": "1"}]}], "message 1 has a tool call without a function's name"),
    ],
)
def test_an_unsendable_result_is_reported(messages: Any, why: str) -> None:
    with pytest.raises(UnfitError, match=why):
        check_messages(messages)


def test_a_hook_that_floods_is_refused() -> None:
    longest = "x" * MAX_SENT_CHARACTERS

    assert check_text(longest, "it") == longest
    with pytest.raises(UnfitError, match="it has 1,000,001 characters; at most 1,000,000 are sent"):
        check_text(longest + "x", "it")
    with pytest.raises(UnfitError, match="the messages have 1,200,000 characters; at most 1,000,000"):
        check_messages([user("x" * 600_000)] * 2)


any_text = st.text(max_size=3) | st.sampled_from(["1", "2", ""])
any_call = st.fixed_dictionaries(
    {"id": any_text, "function": st.fixed_dictionaries({"name": any_text, "arguments": any_text})}
)
any_message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "x"]) | st.none()},
    optional={
        "content": any_text | st.none(),
        "name": any_text | st.integers(),
        "tool_call_id": any_text,
        "tool_calls": st.lists(any_call, max_size=3) | st.none(),
    },
)


@given(st.lists(any_message, max_size=8))
def test_whatever_a_hook_leaves_calls_and_results_belong_together(messages: list[Any]) -> None:
    fit = check_messages(messages)

    to_history(fit)
    json.dumps(fit)
    assert check_messages(fit) == fit
    waiting: list[str] = []
    for message in fit:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert waiting == []
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert waiting == []
