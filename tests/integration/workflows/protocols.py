"""Answers of model servers as their makers document them, whole and streamed.

Every answer uses 100 tokens of input, of them 64 from a cache and 8 written to one, and 20 of output, of them 12 for
reasoning, where the protocol has these fields.
"""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from accounting.usage import Tokens
from tests.integration.model_server import Answer, call, completion, usage

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}
LINES = {"content-type": "application/x-ndjson"}

ALL_OF_IT = Tokens(input=100, cached_input=64, cache_write=8, output=20, reasoning=12)

Call = tuple[str, dict[str, Any]]
Body = Mapping[str, Any]


def body_of(data: Any) -> Answer:
    return 200, JSON, json.dumps(data).encode()


def sse(*events: Body, named: bool = False, end: str = "") -> Answer:
    lines = (f"event: {event['type']}\n" if named else "" for event in events)
    text = "".join(f"{line}data: {json.dumps(event)}\n\n" for line, event in zip(lines, events, strict=True))
    return 200, EVENTS, (text + end).encode()


@dataclass(frozen=True, eq=False)
class ModelProtocol:
    """A protocol: `answer` and `streamed` make replies, the rest reads requests."""

    provider: str
    path: str
    stream_path: str
    answer: Callable[[str | None, Call | None], Answer]
    streamed: Callable[[str | None, Call | None], Answer]
    system: Callable[[Body], str]
    tools: Callable[[Body], Sequence[Any]]
    schema: Callable[[Body], Any]
    key: Callable[[Mapping[str, str]], str | None]
    limit: Callable[[Body], Any]
    temperature: Callable[[Body], Any]
    empty: Answer
    tokens: Tokens = ALL_OF_IT
    version: str = ""  # the end of base_url
    fields: Mapping[str, str] = field(default_factory=dict)  # which a models file has for it alone

    def __str__(self) -> str:
        return self.provider


def bearer(headers: Mapping[str, str]) -> str | None:
    return headers.get("authorization", "").removeprefix("Bearer ") or None


# -- OpenAI: chat completions
CHAT_USAGE: dict[str, Any] = usage(100, 20, cached=64, cache_write=8, reasoning=12)


def chat_answer(text: str | None, tool: Call | None) -> Answer:
    calls = [call(tool[0], json.dumps(tool[1]))] if tool else None
    return completion(text, tool_calls=calls, usage=CHAT_USAGE)


def chat_streamed(text: str | None, tool: Call | None) -> Answer:
    def chunk(*choices: Body, **more: Any) -> Body:
        return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}

    def delta(finish: str | None = None, **said: Any) -> Body:
        return chunk({"index": 0, "delta": said, "finish_reason": finish})

    if tool is not None:
        name, arguments = tool[0], json.dumps(tool[1])
        parts = [{"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}]
        rest = [{"index": 0, "function": {"arguments": arguments}}]
        said = [delta(tool_calls=parts), delta(tool_calls=rest), delta("tool_calls")]
    else:
        half = len(text or "") // 2
        said = [delta(content=(text or "")[:half]), delta(content=(text or "")[half:]), delta("stop")]
    return sse(*said, chunk(usage=CHAT_USAGE), end="data: [DONE]\n\n")


CHAT = ModelProtocol(
    provider="openai",
    path="/v1/chat/completions",
    stream_path="/v1/chat/completions",
    answer=chat_answer,
    streamed=chat_streamed,
    system=lambda body: str(body["messages"][0]["content"]),
    tools=lambda body: [tool["function"]["name"] for tool in body.get("tools", ())],
    schema=lambda body: body["response_format"]["json_schema"]["schema"],
    key=bearer,
    limit=lambda body: body["max_tokens"],
    temperature=lambda body: body["temperature"],
    empty=body_of({"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}),
    version="/v1",
)


# -- OpenAI: responses
def response(text: str | None, tool: Call | None) -> Body:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    item = message if tool is None else function_call(tool)
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": [item] if text or tool else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 12},
            "total_tokens": 120,
        },
    }


def function_call(tool: Call) -> dict[str, Any]:
    name, arguments = tool[0], json.dumps(tool[1])
    return {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": name, "arguments": arguments}


def responses_streamed(text: str | None, tool: Call | None) -> Answer:
    whole = response(text, tool)
    place = {"output_index": 0, "item_id": "msg_1", "content_index": 0, "logprobs": []}
    events: list[dict[str, Any]] = []
    if text is not None:
        events.append({"type": "response.output_text.delta", "delta": text, **place})
    events += [{"type": "response.output_item.done", "output_index": 0, "item": item} for item in whole["output"]]
    events.append({"type": "response.completed", "response": whole})
    return sse(*({**event, "sequence_number": number} for number, event in enumerate(events)), named=True)


RESPONSES = ModelProtocol(
    provider="openai_responses",
    path="/v1/responses",
    stream_path="/v1/responses",
    answer=lambda text, tool: body_of(response(text, tool)),
    streamed=responses_streamed,
    system=lambda body: str(body["instructions"]),
    tools=lambda body: [tool["name"] for tool in body.get("tools", ())],
    schema=lambda body: body["text"]["format"]["schema"],
    key=bearer,
    limit=lambda body: body["max_output_tokens"],
    temperature=lambda body: body["temperature"],
    empty=body_of(response(None, None)),
    version="/v1",
)


# -- Anthropic: messages
def message(text: str | None, tool: Call | None) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text, "citations": None}
    if tool is not None:
        block = {"type": "tool_use", "id": "toolu_1", "name": tool[0], "input": tool[1]}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [block] if text or tool else [],
        "stop_reason": "tool_use" if tool else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 28,
            "cache_read_input_tokens": 64,
            "cache_creation_input_tokens": 8,
            "output_tokens": 20,
            "output_tokens_details": {"thinking_tokens": 12},
        },
    }


def message_streamed(text: str | None, tool: Call | None) -> Answer:
    whole = message(text, tool)
    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    [block] = whole["content"]
    if tool is None:
        opened = {**block, "text": ""}
        delta = {"type": "text_delta", "text": text}
    else:
        opened = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(tool[1])}
    return sse(
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": opened},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"]}, "usage": whole["usage"]},
        {"type": "message_stop"},
        named=True,
    )


ANTHROPIC = ModelProtocol(
    provider="anthropic",
    path="/v1/messages",
    stream_path="/v1/messages",
    answer=lambda text, tool: body_of(message(text, tool)),
    streamed=message_streamed,
    system=lambda body: str(body["system"][0]["text"]),
    tools=lambda body: [tool["name"] for tool in body.get("tools", ())],
    schema=lambda body: body["output_config"]["format"]["schema"],
    key=lambda headers: headers.get("x-api-key"),
    limit=lambda body: body["max_tokens"],
    temperature=lambda body: body["temperature"],
    empty=body_of(message(None, None)),
)


# -- Google: Gemini
def content(text: str | None, tool: Call | None) -> Body:
    part = {"text": text} if tool is None else {"functionCall": {"name": tool[0], "args": tool[1]}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return {
        "candidates": [candidate] if text or tool else [],
        "modelVersion": "m",
        "usageMetadata": {
            "promptTokenCount": 90,
            "cachedContentTokenCount": 64,
            "toolUsePromptTokenCount": 10,
            "candidatesTokenCount": 8,
            "thoughtsTokenCount": 12,
            "totalTokenCount": 120,
        },
    }


GEMINI = ModelProtocol(
    provider="gemini",
    path="/v1beta/models/m:generateContent",
    stream_path="/v1beta/models/m:streamGenerateContent?alt=sse",
    answer=lambda text, tool: body_of(content(text, tool)),
    streamed=lambda text, tool: sse(content(text, tool)),
    system=lambda body: str(body["systemInstruction"]["parts"][0]["text"]),
    tools=lambda body: [each["name"] for tool in body.get("tools", ()) for each in tool["functionDeclarations"]],
    schema=lambda body: body["generationConfig"]["responseJsonSchema"],
    key=lambda headers: headers.get("x-goog-api-key"),
    limit=lambda body: body["generationConfig"]["maxOutputTokens"],
    temperature=lambda body: body["generationConfig"]["temperature"],
    empty=body_of({**content(None, None), "promptFeedback": {"blockReason": "SAFETY"}}),
    tokens=Tokens(input=100, cached_input=64, output=20, reasoning=12),
)


# -- Ollama
def chat(text: str | None, tool: Call | None, *, done: bool = True) -> dict[str, Any]:
    calls = [{"function": {"name": tool[0], "arguments": tool[1]}}] if tool else None
    said = {"role": "assistant", "content": text or "", "tool_calls": calls}
    end = {"done_reason": "stop", "prompt_eval_count": 100, "eval_count": 20} if done else {}
    return {"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": said, "done": done, **end}


def chat_lines(text: str | None, tool: Call | None) -> Answer:
    parts = [chat(text, tool, done=False), chat("", None)]
    return 200, LINES, "".join(json.dumps(part) + "\n" for part in parts).encode()


OLLAMA = ModelProtocol(
    provider="ollama",
    path="/api/chat",
    stream_path="/api/chat",
    answer=lambda text, tool: body_of(chat(text, tool)),
    streamed=chat_lines,
    system=lambda body: str(body["messages"][0]["content"]),
    tools=lambda body: [tool["function"]["name"] for tool in body.get("tools") or ()],
    schema=lambda body: body["format"],
    key=bearer,
    limit=lambda body: body["options"]["num_predict"],
    temperature=lambda body: body["options"]["temperature"],
    empty=body_of(chat("", None)),
    tokens=Tokens(input=100, output=20),
)


# -- Mistral: OpenAI's shape, with usage in the last part that says something
MISTRAL_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 64},
}


def mistral_answer(text: str | None, tool: Call | None) -> Answer:
    calls = [call(tool[0], json.dumps(tool[1]))] if tool else None
    return completion(text, tool_calls=calls, usage=MISTRAL_USAGE)


def mistral_streamed(text: str | None, tool: Call | None) -> Answer:
    def chunk(finish: str | None, said: Body, **more: Any) -> Body:
        choices = [{"index": 0, "delta": said, "finish_reason": finish}]
        return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}

    if tool is not None:
        said = [chunk("tool_calls", {"tool_calls": [call(tool[0], json.dumps(tool[1]))]}, usage=MISTRAL_USAGE)]
    else:
        said = [
            chunk(None, {"role": "assistant", "content": text}),
            chunk("stop", {"content": ""}, usage=MISTRAL_USAGE),
        ]
    return sse(*said, end="data: [DONE]\n\n")


MISTRAL = ModelProtocol(
    provider="mistral",
    path="/v1/chat/completions",
    stream_path="/v1/chat/completions",
    answer=mistral_answer,
    streamed=mistral_streamed,
    system=CHAT.system,
    tools=CHAT.tools,
    schema=CHAT.schema,
    key=bearer,
    limit=CHAT.limit,
    temperature=CHAT.temperature,
    empty=CHAT.empty,
    tokens=Tokens(input=100, cached_input=64, output=20),
)


# -- xAI: OpenAI's protocol, with reasoning beside the completion
XAI_USAGE = {**usage(100, 8, cached=64, reasoning=12), "total_tokens": 120}


def with_usage(answer: Answer, counts: Body) -> Answer:
    status, headers, body = answer
    told, mine = json.dumps(CHAT_USAGE).encode(), json.dumps(counts).encode()
    assert told in body
    return status, headers, body.replace(told, mine)


XAI = replace(
    CHAT,
    provider="xai",
    answer=lambda text, tool: with_usage(chat_answer(text, tool), XAI_USAGE),
    streamed=lambda text, tool: with_usage(chat_streamed(text, tool), XAI_USAGE),
    tokens=Tokens(input=100, cached_input=64, output=20, reasoning=12),
)


# -- Amazon: Bedrock's Converse
CONVERSE_USAGE = {
    "inputTokens": 28,
    "outputTokens": 20,
    "totalTokens": 120,
    "cacheReadInputTokens": 64,
    "cacheWriteInputTokens": 8,
}


def converse(text: str | None, tool: Call | None) -> Answer:
    block = {"text": text} if tool is None else {"toolUse": {"toolUseId": "t1", "name": tool[0], "input": tool[1]}}
    said = {"role": "assistant", "content": [block] if text or tool else []}
    stop = "tool_use" if tool else "end_turn"
    return body_of(
        {"output": {"message": said}, "stopReason": stop, "usage": CONVERSE_USAGE, "metrics": {"latencyMs": 1}}
    )


def aws_event(kind: str, body: Body, *, message: str = "event") -> bytes:
    """One message of AWS's event stream: lengths, their checksum, headers of strings, body, checksum of it all."""
    headers = {f":{message}-type": kind, ":content-type": "application/json", ":message-type": message}
    fields = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        for name, value in headers.items()
    )
    payload = json.dumps(body).encode()
    lengths = struct.pack("!II", len(fields) + len(payload) + 16, len(fields))
    whole = lengths + struct.pack("!I", crc32(lengths)) + fields + payload
    return whole + struct.pack("!I", crc32(whole))


def converse_streamed(text: str | None, tool: Call | None) -> Answer:
    if tool is None:
        half = len(text or "") // 2
        blocks: list[Body] = [{"delta": {"text": (text or "")[:half]}}, {"delta": {"text": (text or "")[half:]}}]
        opened = b""
    else:
        blocks = [{"delta": {"toolUse": {"input": json.dumps(tool[1])}}}]
        start = {"toolUse": {"toolUseId": "t1", "name": tool[0]}}
        opened = aws_event("contentBlockStart", {"contentBlockIndex": 0, "start": start})
    events = [
        aws_event("messageStart", {"role": "assistant"}) + opened,
        *(aws_event("contentBlockDelta", {"contentBlockIndex": 0, **block}) for block in blocks),
        aws_event("contentBlockStop", {"contentBlockIndex": 0}),
        aws_event("messageStop", {"stopReason": "tool_use" if tool else "end_turn"}),
        aws_event("metadata", {"usage": CONVERSE_USAGE, "metrics": {"latencyMs": 1}}),
    ]
    return 200, {"content-type": "application/vnd.amazon.eventstream"}, b"".join(events)


BEDROCK = ModelProtocol(
    provider="bedrock",
    path="/model/m/converse",
    stream_path="/model/m/converse-stream",
    answer=converse,
    streamed=converse_streamed,
    system=lambda body: str(body["system"][0]["text"]),
    tools=lambda body: [tool["toolSpec"]["name"] for tool in body.get("toolConfig", {}).get("tools", ())],
    schema=lambda body: json.loads(body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"]),
    key=bearer,
    limit=lambda body: body["inferenceConfig"]["maxTokens"],
    temperature=lambda body: body["inferenceConfig"]["temperature"],
    empty=converse(None, None),
    tokens=Tokens(input=100, cached_input=64, cache_write=8, output=20),
    fields={"region": "eu-central-1"},
)

PROTOCOLS = (CHAT, RESPONSES, ANTHROPIC, GEMINI, BEDROCK, MISTRAL, XAI, OLLAMA)
