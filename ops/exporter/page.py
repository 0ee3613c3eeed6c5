"""The page that is scraped: written once for each snapshot and format, however often it is asked for.

A large one takes a tenth of a second to write. So it is written as soon as there is a new snapshot, in each format that
somebody has asked for lately, and a scrape only fetches it.
"""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

PATH = "/metrics"
LATELY_S = 150.0  # longer than the pause between two scrapes
MOST_FORMATS = 8  # a scraper asks for one, and a person for another


class Format(NamedTuple):
    accept: str
    encoding: str


class Answer(NamedTuple):
    status: str
    headers: list[tuple[str, str]]
    body: bytes


class Page:
    """A WSGI application in front of the one that writes."""

    def __init__(self, write: "WSGIApplication", *, clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._asked_at: dict[Format, float] = {}
        self._answers: dict[Format, Answer] = {}

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "GET" or environ["PATH_INFO"] != PATH or environ.get("QUERY_STRING"):
            return self._write(environ, start_response)
        wanted = Format(environ.get("HTTP_ACCEPT", ""), environ.get("HTTP_ACCEPT_ENCODING", ""))
        answer = self._answers.get(wanted) or self._written(wanted)
        if wanted in self._asked_at or len(self._asked_at) < MOST_FORMATS:
            self._asked_at[wanted] = self._clock()
            self._answers[wanted] = answer
        start_response(answer.status, [*answer.headers])  # the server adds to what it is given
        return [answer.body]

    def renew(self) -> None:
        """There is something new to show."""
        now = self._clock()
        self._asked_at = {wanted: at for wanted, at in self._asked_at.copy().items() if now - at < LATELY_S}
        self._answers = {wanted: self._written(wanted) for wanted in self._asked_at.copy()}

    def _written(self, wanted: Format) -> Answer:
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]], *_: Any) -> Callable[[bytes], object]:
            started.append((status, headers))
            return bytes

        environ = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": PATH,
            "HTTP_ACCEPT": wanted.accept,
            "HTTP_ACCEPT_ENCODING": wanted.encoding,
        }
        body = b"".join(self._write(environ, start))
        [(status, headers)] = started
        return Answer(status, headers, body)
