"""A real HTTP server that plays GitHub: it keeps the comments of issues, and refuses whoever has another token."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

TOKEN = "a-token-of-the-tests"


@dataclass
class FakeGitHub:
    url: str = ""
    comments: dict[str, list[str]] = field(default_factory=dict)


@contextmanager
def github_server() -> Iterator[FakeGitHub]:
    github = FakeGitHub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, [self._comment(body) for body in self._comments()])

        def do_POST(self) -> None:
            written: str = json.loads(self.rfile.read(int(self.headers["content-length"])))["body"]
            if self.headers["authorization"] == f"Bearer {TOKEN}":
                self._comments().append(written)
            self._answer(201, self._comment(written))

        def _comments(self) -> list[str]:
            return github.comments.setdefault(urlsplit(self.path).path, [])

        def _comment(self, body: str) -> dict[str, str]:
            return {"body": body, "html_url": f"{github.url}{urlsplit(self.path).path}#1"}

        def _answer(self, status: int, answer: Any) -> None:
            known = self.headers["authorization"] == f"Bearer {TOKEN}"
            body = json.dumps(answer if known else {"message": "Bad credentials"}).encode()
            self.send_response(status if known else 401)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Silent: the test says what it needs to know."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    github.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield github
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
