"""A chat completions server with faults of real servers; it counts its answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tests.http_server import http_server, read_request


class FaultyEnd(Enum):
    HANG = "says nothing more, and stays"
    CLOSE = "closes the connection"
    RESET = "cuts the connection off"


@dataclass(frozen=True)
class FaultyReply:
    """Pieces with pauses (seconds) between them.

    `usage` is input and output tokens, which count as served once all pieces are written."""

    pieces: Sequence[bytes | float | FaultyEnd]
    usage: tuple[int, int] = (0, 0)


@dataclass
class FaultyServer:
    replies: Sequence[FaultyReply]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while await self._one(reader, writer):
            pass

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await read_request(reader)
        self.requests.append(json.loads(request.body))
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        for piece in reply.pieces:
            match piece:
                case bytes():
                    writer.write(piece)
                    await writer.drain()
                case float():
                    await asyncio.sleep(piece)
                case FaultyEnd.RESET:
                    writer.transport.abort()
                    return False
                case FaultyEnd.CLOSE:
                    return False
                case FaultyEnd.HANG:
                    await reader.read()  # until the client gives up
                    return False
        self.input_tokens += reply.usage[0]
        self.output_tokens += reply.usage[1]
        return True


@asynccontextmanager
async def faulty_server(*replies: FaultyReply) -> AsyncIterator[FaultyServer]:
    """Gives the n-th request the n-th reply, later ones the last."""
    faulty = FaultyServer(replies)
    async with http_server(faulty.serve) as address:
        faulty.url = f"{address}/v1"
        yield faulty


def http(status: int, body: bytes, headers: Mapping[str, str] | None = None, *, length: int | None = None) -> bytes:
    fields = {"content-type": "application/json", "content-length": str(len(body) if length is None else length)}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in {**fields, **(headers or {})}.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def refusal(status: int, headers: Mapping[str, str] | None = None) -> FaultyReply:
    return FaultyReply([http(status, json.dumps({"error": {"message": "no", "type": "stub"}}).encode(), headers)])


def answer(
    text: str | None,
    *calls: Mapping[str, Any],
    counts: tuple[int, int] | None = (10, 2),
    stream: bool = False,
    finish: str = "stop",
) -> FaultyReply:
    """Makes a complete answer; `counts` None leaves out its usage."""
    usage = (
        None
        if counts is None
        else {"prompt_tokens": counts[0], "completion_tokens": counts[1], "total_tokens": sum(counts)}
    )
    if stream:
        return FaultyReply(streamed(chunks(text, calls, finish=finish, usage=usage)), counts or (0, 0))
    message = {"role": "assistant", "content": text, "tool_calls": list(calls) or None}
    choices = [{"index": 0, "finish_reason": finish, "message": message}]
    return FaultyReply([http(200, json.dumps(body_of("chat.completion", choices, usage)).encode())], counts or (0, 0))


def body_of(kind: str, choices: Sequence[Any], usage: Any) -> dict[str, Any]:
    return {"id": "c-1", "object": kind, "created": 1, "model": "stub", "choices": list(choices), "usage": usage}


def chunks(text: str | None, calls: Sequence[Mapping[str, Any]], *, finish: str | None, usage: Any) -> list[bytes]:
    numbered = [{**call, "index": index} for index, call in enumerate(calls)] or None
    deltas: list[dict[str, Any]] = (
        [{"role": "assistant", "content": part} for part in (text or "").split(" ")] if text else []
    )
    deltas += [{"role": "assistant", "tool_calls": numbered}] if numbered else []
    said: list[list[Any]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    ends = [[{"index": 0, "delta": {}, "finish_reason": finish}]] if finish else []
    bodies = [body_of("chat.completion.chunk", choices, None) for choices in (*said, *ends)]
    bodies += [body_of("chat.completion.chunk", [], usage)] if usage else []
    return [b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies]


def streamed(events: Sequence[bytes], *, end: bool = True) -> list[bytes]:
    """Writes HTTP chunks, one for each event."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    lines = [*events, *([b"data: [DONE]\n\n"] if end else [])]
    pieces = [f"{len(line):x}\r\n".encode() + line + b"\r\n" for line in lines]
    return [head, *pieces, *([b"0\r\n\r\n"] if end else [])]


def call(name: str, arguments: str = "{}", *, number: int = 1) -> dict[str, Any]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
