"""Load over keep-alive connections: each sends its next request when the answer to the last one is there.

A process of its own, so that its CPU is not the server's. Requests are made before the clock starts.
Arguments: port, path, connections, requests.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import sys
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass
from typing import cast

SECRET = b"benchmark-secret-of-32-bytes-len"
BODY = json.dumps({"type": "order.paid", "data": {"id": "ord_1", "amount": 120, "currency": "EUR"}}).encode()


@dataclass(frozen=True)
class Load:
    per_second: float
    p50_ms: float
    p99_ms: float
    statuses: dict[str, int]


def signed_request(path: str, number: int) -> bytes:
    """As Standard Webhooks asks for; a server that does not verify reads three headers more."""
    delivery, at = f"msg_{time.time_ns()}_{number}", str(int(time.time()))
    digest = hmac.digest(SECRET, f"{delivery}.{at}.".encode() + BODY, hashlib.sha256)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}\r\n"
        f"webhook-id: {delivery}\r\nwebhook-timestamp: {at}\r\n"
        f"webhook-signature: v1,{base64.b64encode(digest).decode()}\r\n\r\n"
    )
    return head.encode() + BODY


class Caller(asyncio.Protocol):
    def __init__(self, requests: deque[bytes], seconds: list[float], statuses: Counter[str]) -> None:
        self._requests = requests
        self._seconds = seconds
        self._statuses = statuses
        self._answer = b""
        self._sent_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def begin(self) -> None:
        if not self._requests:
            self.done.set_result(None)
            return
        self._sent_at = time.perf_counter()
        self._transport.write(self._requests.popleft())

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, found, body = self._answer.partition(b"\r\n\r\n")
        if not found or len(body) < int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            return
        self._seconds.append(time.perf_counter() - self._sent_at)
        self._statuses[head[9:12].decode()] += 1
        self._answer = b""
        self.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("the server closed the connection"))


async def run(port: int, path: str, *, connections: int, count: int) -> Load:
    loop = asyncio.get_running_loop()
    seconds: list[float] = []
    statuses: Counter[str] = Counter()
    requests = deque(signed_request(path, number) for number in range(count))
    callers = [
        (await loop.create_connection(lambda: Caller(requests, seconds, statuses), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    began = time.perf_counter()
    for caller in callers:
        caller.begin()
    await asyncio.gather(*(caller.done for caller in callers))
    took = time.perf_counter() - began
    ordered = sorted(seconds)
    at = [ordered[min(int(len(ordered) * part), len(ordered) - 1)] * 1000 for part in (0.5, 0.99)]
    return Load(count / took, at[0], at[1], dict(statuses))


def main() -> None:
    import uvloop

    port, path, connections, count = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        load = runner.run(run(int(port), path, connections=int(connections), count=int(count)))
    json.dump(asdict(load), sys.stdout)


if __name__ == "__main__":
    main()
