"""A model server for benchmarks, in a process of its own: OpenAI's chat completions, from the messages alone.

    python benchmarks/model_stub.py

Prints its port. Below /ms200/v1 it answers after 200 ms; below /hold/v1 it keeps the last call of a run waiting until
POST /release. GET /waiting says how many wait.
"""

import asyncio
import json
from typing import Any

from typing_extensions import override

TEXT = "The orders of this week are read, counted and compared with those of the week before. " * 3
MESSAGES_OF_THE_LAST_CALL = 7
waiting: list[asyncio.Future[None]] = []


def completion(body: bytes) -> bytes:
    asked = json.loads(body)
    wants_tool = "tools" in asked and asked["messages"][-1]["role"] != "tool"
    call = {"id": "call_1", "type": "function", "function": {"name": "note", "arguments": '{"text": "seen"}'}}
    message: dict[str, Any] = {"role": "assistant", "content": None if wants_tool else TEXT}
    answer: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "stub-1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 40, "total_tokens": 160},
    }
    if wants_tool:
        message["tool_calls"] = [call]
    return json.dumps(answer).encode()


class Stub(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.answering: set[asyncio.Task[None]] = set()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self.received += data
        head, found, rest = self.received.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        if found and len(rest) >= length:
            self.received = b""
            task = asyncio.create_task(self.answer(head.split(b" ")[1].decode(), rest))
            self.answering.add(task)
            task.add_done_callback(self.answering.discard)

    async def answer(self, path: str, body: bytes) -> None:
        where = path.split("/")[1]
        if where == "waiting":
            answer = str(len(waiting)).encode()
        elif where == "release":
            answer = b"ok"
            for each in waiting:
                each.set_result(None)
            waiting.clear()
        else:
            await self.wait(where, body)
            answer = completion(body)
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(answer)}\r\n\r\n"
        self.transport.write(head.encode() + answer)

    async def wait(self, where: str, body: bytes) -> None:
        if where.startswith("ms"):
            await asyncio.sleep(int(where[2:]) / 1000)
        elif b"[CLOSER]" in body and body.count(b'"role"') >= MESSAGES_OF_THE_LAST_CALL:
            held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting.append(held)
            await held


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
