"""A real HTTP server for external values: counts its requests, and answers as a test plans."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class ExternalRequest:
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ExternalAnswer:
    """`delay_s` passes before the answer. Without `length` the end of the connection ends the body."""

    body: bytes = b"{}"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    delay_s: float = 0.0
    length: bool = True


Plan = Callable[[ExternalRequest, int], ExternalAnswer]


@dataclass
class ExternalServer:
    host: str = ""
    requests: list[ExternalRequest] = field(default_factory=list)
    sent_bytes: int = 0


@contextmanager
def external_server(plan: Plan) -> Iterator[ExternalServer]:
    """`plan` answers the n-th request, from 0."""
    served = ExternalServer()
    counting = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = ExternalRequest(self.path, {name.lower(): value for name, value in self.headers.items()})
            with counting:
                served.requests.append(asked)
                number = len(served.requests) - 1
            answer = plan(asked, number)
            time.sleep(answer.delay_s)
            try:
                self._say(answer)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _say(self, answer: ExternalAnswer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.length:
                self.send_header("content-length", str(len(answer.body)))
            else:
                self.close_connection = True
            self.end_headers()
            for start in range(0, len(answer.body), 65_536):
                self.wfile.write(answer.body[start : start + 65_536])
                served.sent_bytes += len(answer.body[start : start + 65_536])

        def log_message(self, *_: object) -> None:
            """Logs nothing: tests read the counters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.host = f"127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
