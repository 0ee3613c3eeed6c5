"""A receiver of billing batches over real HTTP.

It verifies with the reference library and keeps the batches that it accepts. A test makes it answer with a status,
hang, close the connection, or answer without an end.
"""

import asyncio
import json
import random
from asyncio import StreamReader, StreamWriter
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from standardwebhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the receiver.

    `status` None: it never comes. `head`: further header lines. `endless`: a body that never ends.
    """

    status: int | None = 200
    head: str = ""
    body: bytes = b"ok"
    hangs_up: bool = False
    endless: bool = False
    takes: bool = True  # an answer of 200 keeps the batch; a receiver may also fail after it kept one


OK = Answer()
HANGS = Answer(None)
HANGS_UP = Answer(hangs_up=True, takes=False)


def refusal(status: int, head: str = "", body: bytes = b"no") -> Answer:
    return Answer(status, head, body, takes=False)


@dataclass(slots=True)
class BillingReceiver:
    address: tuple[str, int] = ("", 0)
    answer: Callable[[str], Answer] = lambda _: OK
    secret: str = SECRET
    posts: list[str] = field(default_factory=list)  # ids of batches, in order of arrival
    bodies: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    events: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # the batches that it kept, by id
    requests: list[str] = field(default_factory=list)
    at_once: int = 0
    max_concurrent: int = 0

    @property
    def url(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}/usage?token=t0ken"

    def messages(self) -> list[Any]:
        """Each batch once, however often it came."""
        return [json.loads(body) for bodies in self.bodies.values() for body in bodies]

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                body = await reader.readexactly(int(headers["content-length"]))
                self.at_once += 1
                self.max_concurrent = max(self.max_concurrent, self.at_once)
                try:
                    await self._respond(head, body, writer)
                finally:
                    self.at_once -= 1

    async def _respond(self, head: str, body: bytes, writer: StreamWriter) -> None:
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        message = Webhook(self.secret).verify(body, {name.lower(): value for name, value in headers.items()})
        batch_id = next(value for name, value in headers.items() if name.lower() == "webhook-id")
        self.requests.append(head)
        self.posts.append(batch_id)
        self.bodies[batch_id].add(body)
        answer = self.answer(batch_id)
        if answer.takes:
            self.events |= {event["id"]: event for event in message["data"]["events"]}
        if answer.hangs_up:
            raise ConnectionError
        if answer.status is None:
            await asyncio.Event().wait()
        size = f"content-length: {len(answer.body)}\r\n" if not answer.endless else "transfer-encoding: chunked\r\n"
        writer.write(f"HTTP/1.1 {answer.status} X\r\n{answer.head}{size}\r\n".encode())
        while answer.endless:
            writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(answer.body)
        await writer.drain()


@asynccontextmanager
async def billing_receiver(
    answer: Callable[[str], Answer] = lambda _: OK, *, port: int = 0
) -> AsyncIterator[BillingReceiver]:
    receiver = BillingReceiver(answer=answer)
    serving: list[asyncio.Task[None]] = []

    def serve(reader: StreamReader, writer: StreamWriter) -> None:
        serving.append(asyncio.ensure_future(receiver.serve(reader, writer)))
        serving[-1].add_done_callback(lambda _: writer.close())

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    receiver.address = server.sockets[0].getsockname()[:2]
    try:
        yield receiver
    finally:
        server.close()
        for task in serving:
            task.cancel()
        ended = await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()
        assert not [each for each in ended if isinstance(each, Exception)]


def random_failures(seed: int, *, share: float = 0.4) -> Callable[[str], Answer]:
    """Fails before or after it keeps the batch, in every way but hanging."""
    chance = random.Random(seed)
    failures = [refusal(500), refusal(429), refusal(302, "location: /elsewhere\r\n"), HANGS_UP, Answer(503)]
    return lambda _: chance.choice(failures) if chance.random() < share else OK
