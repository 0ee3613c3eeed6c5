"""What the auditing model server replies: by the tools it is offered, and by the fault it is to have."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from accounting.usage import Tokens
from tests.integration.workflows.faulty_server import body_of, call, chunks, http, streamed

QUIET = "m-quiet"  # says nothing of usage
NOTES = 2  # rounds of tool calls in one turn
PARTS = 2  # sub-tasks at once

# What became of a request: answered with usage or without, refused, cut off in the middle, or its client had gone.
End = Literal["asked", "served", "quiet", "refused", "broken", "gone"]
Body = Mapping[str, Any]
ToolCall = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Reply:
    """In pieces, of which the last one makes it whole. Without `tokens` nothing is said of usage."""

    end: End
    pieces: Sequence[bytes]
    tokens: Tokens | None = None
    characters: int = 0


def tokens_of(number: int) -> Tokens:
    """Of the answer with this number. What is told of input names it."""
    return Tokens(input=1_000 + number, cached_input=number % 700, output=20 + number % 60, reasoning=number % 20)


def number_of(row: Mapping[str, Any]) -> int:
    return int(row["input_tokens"]) - tokens_of(0).input


def reply_to(number: int, caller: str, request: Body, *, fault: str | None) -> Reply:
    """`caller` is what a sub-task has to say, so that it is known who asks for it."""
    if fault in ("429", "500"):
        headers = {"retry-after": "0"}
        return Reply("refused", [http(int(fault), json.dumps({"error": {"message": "no"}}).encode(), headers)])
    tokens = None if request["model"] == QUIET else tokens_of(number)
    text, tool = answer_text(number, caller, request)
    answer = _responses_reply if "input" in request else _streamed_reply if request.get("stream") else _complete_reply
    finish = "content_filter" if fault == "filtered" else "stop"
    pieces = answer(number, text, tool, tokens, finish)
    if fault == "broken":
        return Reply("broken", [*pieces[:-1], pieces[-1][:-20]])
    characters = len(text or "") + (len(json.dumps(tool[1])) if tool else 0)
    return Reply("quiet" if tokens is None else "served", pieces, tokens, characters)


def answer_text(number: int, caller: str, request: Body) -> tuple[str | None, ToolCall | None]:
    offered = {tool.get("name") or tool["function"]["name"] for tool in request.get("tools", ())}
    rounds = _rounds(request.get("input") or request["messages"])
    if "note" in offered and rounds < NOTES:
        return None, ("note", {"number": number})
    if "delegate" in offered and rounds == 0:
        return None, ("delegate", {"about": f"part {number}"})
    if "run_subtasks" in offered and rounds == 0:
        return None, ("run_subtasks", {"tasks": [f"{caller} Part {number}.{part}." for part in range(PARTS)]})
    return f"answer_{number}", None


def _rounds(messages: Sequence[Body]) -> int:
    """Of tool calls, since somebody said something."""
    rounds = 0
    for message in messages:
        if message.get("role") == "user":
            rounds = 0
        rounds += message.get("role") == "tool" or message.get("type") == "function_call_output"
    return rounds


def _tool_call(number: int, tool: ToolCall | None) -> Sequence[Body]:
    return [] if tool is None else [call(tool[0], json.dumps(tool[1]), number=number)]


def _usage(tokens: Tokens | None) -> Body | None:
    return (
        None
        if tokens is None
        else {
            "prompt_tokens": tokens.input,
            "completion_tokens": tokens.output,
            "total_tokens": tokens.input + tokens.output,
            "prompt_tokens_details": {"cached_tokens": tokens.cached_input},
            "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
        }
    )


def _complete_reply(
    number: int, text: str | None, tool: ToolCall | None, tokens: Tokens | None, finish: str
) -> Sequence[bytes]:
    message = {"role": "assistant", "content": text, "tool_calls": _tool_call(number, tool) or None}
    choices = [{"index": 0, "finish_reason": finish, "message": message}]
    return [http(200, json.dumps(body_of("chat.completion", choices, _usage(tokens))).encode())]


def _streamed_reply(
    number: int, text: str | None, tool: ToolCall | None, tokens: Tokens | None, finish: str
) -> Sequence[bytes]:
    pieces = streamed(chunks(text, _tool_call(number, tool), finish=finish, usage=_usage(tokens)))
    middle = len(pieces) // 2
    return [pieces[0], b"".join(pieces[1:middle]), b"".join(pieces[middle:])]


def _responses_reply(
    number: int, text: str | None, tool: ToolCall | None, tokens: Tokens | None, finish: str
) -> Sequence[bytes]:
    del finish
    content: list[Body] = [{"type": "output_text", "text": text, "annotations": []}]
    item: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }
    if tool is not None:
        named = {"call_id": f"call_{number}", "name": tool[0], "arguments": json.dumps(tool[1])}
        item = {"id": f"fc_{number}", "type": "function_call", **named}
    usage = (
        None
        if tokens is None
        else {
            "input_tokens": tokens.input,
            "input_tokens_details": {"cached_tokens": tokens.cached_input},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": tokens.input + tokens.output,
        }
    )
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "created_at": 1, "model": "m"}
    body = {"id": f"resp_{number}", "object": "response", "status": "completed", "output": [item], "usage": usage}
    return [http(200, json.dumps({**body, **rest}).encode())]
