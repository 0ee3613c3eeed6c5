"""The page that is scraped: written once for a snapshot and a format, and before somebody waits for it."""

from collections.abc import Callable, Iterable
from typing import Any

from ops.exporter.page import LATELY_S, MOST_FORMATS, Page


class Writer:
    """A WSGI application that says what it was asked for, and how often it has written."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.written.append(environ.get("HTTP_ACCEPT", ""))
        start_response("200 OK", [("Content-Type", self.written[-1])])
        return [f"{len(self.written)}".encode()]


class Scraper:
    def __init__(self, page: Page) -> None:
        self._page = page

    def get(self, accept: str = "text", *, path: str = "/metrics", query: str = "") -> tuple[str, str]:
        headers: list[tuple[str, str]] = []
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": query, "HTTP_ACCEPT": accept}

        def start_response(_status: str, given: list[tuple[str, str]], *_: Any) -> Callable[[bytes], object]:
            headers.extend(given)
            return bytes

        return b"".join(self._page(environ, start_response)).decode(), headers[0][1]


def scraped(clock: list[float]) -> tuple[Writer, Page, Scraper]:
    writer = Writer()
    page = Page(writer, clock=lambda: clock[0])
    return writer, page, Scraper(page)


def test_a_scrape_fetches_what_was_written_for_the_snapshot() -> None:
    writer, page, scraper = scraped([0.0])

    first, again = scraper.get(), scraper.get()
    page.renew()
    after = scraper.get()

    assert (first, again, after) == (("1", "text"), ("1", "text"), ("2", "text"))
    assert writer.written == ["text", "text"]


def test_each_format_has_a_page_of_its_own() -> None:
    _, _, scraper = scraped([0.0])

    assert [scraper.get("a"), scraper.get("b"), scraper.get("a")] == [("1", "a"), ("2", "b"), ("1", "a")]


def test_a_format_that_nobody_asks_for_any_more_is_not_written() -> None:
    clock = [0.0]
    writer, page, scraper = scraped(clock)
    scraper.get("a")
    clock[0] = LATELY_S - 1
    scraper.get("b")

    clock[0] = LATELY_S + 1
    page.renew()

    assert writer.written == ["a", "b", "b"]


def test_formats_without_number_are_answered_and_not_kept() -> None:
    writer, page, scraper = scraped([0.0])

    answers = [scraper.get(f"format-{number}")[1] for number in range(100)]
    page.renew()

    assert answers == [f"format-{number}" for number in range(100)]
    assert len(writer.written) == 100 + MOST_FORMATS


def test_a_choice_of_names_and_other_paths_go_past_the_page() -> None:
    writer, _, scraper = scraped([0.0])

    scraper.get(), scraper.get(query="name[]=unattended_runs_total"), scraper.get(path="/favicon.ico")

    assert len(writer.written) == 3
