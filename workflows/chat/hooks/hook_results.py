"""Hook results: a hook's returns and changes, in a form that all providers take.

Providers refuse a tool call without its result and a result without its call. If a hook drops one half, the other is
dropped too.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from workflows.chat.history.messages import Message
from workflows.context.values.storable_values import storable_text

MAX_SENT_CHARACTERS = 1_000_000  # of a text, or of all messages together


class UnfitError(ValueError):
    """A hook left something that cannot be sent; the text names the problem."""


def check_text(content: Any, subject: str) -> str:
    """Returns text, also from a list of text parts as in chat completions."""
    if isinstance(content, list | tuple):
        content = "\n".join(_part_text(part, subject) for part in content)
    if not isinstance(content, str):
        raise UnfitError(f"{subject} is {_describe_type(content)}, where text is needed")
    if len(content) > MAX_SENT_CHARACTERS:
        raise UnfitError(f"{subject} has {len(content):,} characters; at most {MAX_SENT_CHARACTERS:,} are sent")
    return storable_text(content)


def check_messages(messages: Any) -> list[Message]:
    if not isinstance(messages, list):
        raise UnfitError(f"its result is {_describe_type(messages)}, where a list of messages is needed")
    fit = _pair_calls_with_results(
        [_check_message(message, f"message {number}") for number, message in enumerate(messages, 1)]
    )
    total = sum(len(message["content"] or "") for message in fit)
    if total > MAX_SENT_CHARACTERS:
        raise UnfitError(f"the messages have {total:,} characters; at most {MAX_SENT_CHARACTERS:,} are sent")
    return fit


def _check_message(raw: Any, subject: str) -> Message:
    """Checks one message.

    An unknown role becomes `user`, as in classic AG2; so does a system message between others."""
    if not isinstance(raw, Mapping):
        raise UnfitError(f"{subject} is {_describe_type(raw)}, where a mapping with role and content is needed")
    role, content, name = raw.get("role"), raw.get("content"), raw.get("name")
    message: Message = {"role": role if role in ("assistant", "tool") else "user"}
    message["content"] = "" if content is None else check_text(content, f"the content of {subject}")
    if isinstance(name, str) and name:
        message["name"] = storable_text(name)
    if role == "tool":
        message["tool_call_id"] = str(raw.get("tool_call_id") or "")
    if role == "assistant":
        message["tool_calls"] = [_check_call(call, subject) for call in raw.get("tool_calls") or ()]
    return message


def _check_call(raw: Any, subject: str) -> dict[str, Any]:
    function = raw.get("function") if isinstance(raw, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise UnfitError(f"{subject} has a tool call without a function's name")
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, default=str)
    named = {"name": function["name"], "arguments": storable_text(text)}
    return {"id": str(raw.get("id") or ""), "type": "function", "function": named}


def _pair_calls_with_results(messages: Sequence[Message]) -> list[Message]:
    """Puts each result behind its call, and drops messages without text and calls."""
    paired: list[Message] = []
    for position, message in enumerate(messages):
        if message["role"] == "tool":
            continue  # added behind its call, or dropped if it has none
        results = _results_after(messages, position)
        calls = [call for call in message.pop("tool_calls", ()) if call["id"] in results]
        if calls:
            message["content"] = message["content"] or None
            message["tool_calls"] = calls
        elif not message["content"].strip():
            continue
        paired += [message, *(results[call["id"]] for call in calls)]
    return paired


def _results_after(messages: Sequence[Message], position: int) -> dict[str, Message]:
    results: dict[str, Message] = {}
    for place in range(position + 1, len(messages)):  # a slice would copy the remaining messages each time
        message = messages[place]
        if message["role"] != "tool":
            break
        if message["tool_call_id"]:
            results.setdefault(message["tool_call_id"], message)
    return results


def _part_text(part: Any, subject: str) -> str:
    text = part.get("text") if isinstance(part, Mapping) else part
    if not isinstance(text, str):
        raise UnfitError(f"{subject} has a part that is no text; only text can be sent")
    return text


def _describe_type(value: Any) -> str:
    return "nothing" if value is None else f"of type {type(value).__name__}"
