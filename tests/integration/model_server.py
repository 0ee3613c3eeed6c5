"""A real HTTP server that answers as a plan says, such as with OpenAI's chat completions, and counts what it served."""

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Mapping[str, str], bytes]
Plan = Callable[[int], Answer]


def completion(text: str | None, *, tool_calls: list[dict[str, Any]] | None = None, usage: Any = None) -> Answer:
    message = {"role": "assistant", "content": text, "tool_calls": tool_calls}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "stub-2026-01-01",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": usage,
    }
    return 200, {"content-type": "application/json"}, json.dumps(body).encode()


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


def usage(
    prompt: int, completion_tokens: int, *, cached: int = 0, cache_write: int = 0, reasoning: int = 0
) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": cache_write},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def refusal(status: int, headers: Mapping[str, str] | None = None) -> Answer:
    body = json.dumps({"error": {"message": "no", "type": "stub"}}).encode()
    return status, {"content-type": "application/json", **(headers or {})}, body


@dataclass
class ModelServer:
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a killed client
            super().handle_error(request, client_address)


@contextmanager
def model_server(plan: Plan, *, keep_alive: bool = False) -> Iterator[ModelServer]:
    """`plan` gives the answer to the n-th request, from 0. An answer shorter than its content-length is cut off."""
    served = ModelServer()
    counting = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if keep_alive else "HTTP/1.0"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with counting:
                served.requests.append(body)
                served.paths.append(self.path)
                served.headers.append({name.lower(): value for name, value in self.headers.items()})
                number = len(served.requests) - 1
            status, headers, answer = plan(number)
            with suppress(ConnectionError):  # the client may be killed meanwhile
                self.send_response(status)
                for name, value in {"content-length": str(len(answer)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Silent: the test says what it needs to know."""

    server = _Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = keep_alive  # they wait for a request that may never come
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
