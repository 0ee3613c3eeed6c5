"""The /metrics page: the text that prometheus-client would write, rendered before the scrape."""

import gzip
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from ops.exporter.metrics_page import MetricsPage, render_text

NAMES = ("plain", "with space", 'with "quotes"', "back\\slash", "new\nline", "ünïcode", "", "{}", "a,b=c")


def families() -> list[Metric]:
    calls = CounterMetricFamily("unattended_calls", 'Calls, "all"\nof \\them', labels=["app", "ok"])
    for number, name in enumerate(NAMES):
        calls.add_metric([name, "true"], 7 * 10**number)
        calls.add_metric([name, "false"], number / 7)
    none = CounterMetricFamily("unattended_none", "No series", labels=["app"])
    return [calls, none, GaugeMetricFamily("unattended_size", "How large", value=1.5e300)]


class FakeStore(Collector):
    """Yields another number at each collection."""

    def __init__(self) -> None:
        self.queries = 0

    def collect(self) -> Iterator[Metric]:
        self.queries += 1
        yield from families()
        yield GaugeMetricFamily("unattended_asked", "How often", value=self.queries)


class FixedCollector(Collector):
    def collect(self) -> Iterator[Metric]:
        yield from families()


def get(page: MetricsPage, *, method: str = "GET", **headers: str) -> tuple[str, dict[str, str], bytes]:
    answers: list[tuple[str, dict[str, str]]] = []

    def start_response(status: str, given: list[tuple[str, str]], *_: Any) -> Callable[[bytes], object]:
        answers.append((status, dict(given)))
        return bytes

    body = b"".join(page({"REQUEST_METHOD": method, "PATH_INFO": "/metrics", **headers}, start_response))
    [(status, answered)] = answers
    return status, answered, body


def test_it_equals_the_page_of_prometheus_client() -> None:
    registry = CollectorRegistry()
    registry.register(FixedCollector())

    one, other = [
        [
            (family.name, family.type, family.documentation, family.samples)
            for family in text_string_to_metric_families(text.decode())
        ]
        for text in (generate_latest(registry), render_text(families()))
    ]

    assert one == other
    assert len(other[0][3]) == 2 * len(NAMES)


def test_a_scrape_fetches_what_was_written_for_the_snapshot() -> None:
    store = FakeStore()
    page = MetricsPage(store)

    bodies = [get(page)[2] for _ in range(3)]
    page.renew()

    assert store.queries == 2
    assert bodies[0] == bodies[1] == bodies[2] != get(page)[2]


def test_a_client_that_accepts_gzip_is_sent_less() -> None:
    page = MetricsPage(FakeStore())

    status, headers, zipped = get(page, HTTP_ACCEPT_ENCODING="br, gzip;q=0.9")
    _, plain_headers, plain = get(page, HTTP_ACCEPT_ENCODING="identity")

    assert (status, headers["Content-Encoding"]) == ("200 OK", "gzip")
    assert gzip.decompress(zipped) == plain
    assert "Content-Encoding" not in plain_headers
    assert headers["Content-Type"] == plain_headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_nothing_can_be_written_to_it() -> None:
    assert get(MetricsPage(FakeStore()), method="POST")[0] == "405 Method Not Allowed"
