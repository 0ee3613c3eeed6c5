"""The /metrics page, rendered once per snapshot in the text format that every scraper accepts.

prometheus-client's own writer takes 0.1 s and more for a large page, during each scrape. This one takes a fifth of
that, before the scrape.
"""

import gzip
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

GZIP_LEVEL = 4  # level 9 takes three times as long and saves a fifth more


class MetricsPage:
    """Serves the rendered page as a WSGI application."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.renew()

    def renew(self) -> None:
        """Render the page again, after a new snapshot."""
        plain = render_text(self._collector.collect())
        self._bodies = plain, gzip.compress(plain, GZIP_LEVEL)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [("Allow", "GET, HEAD")])
            return [b""]
        plain, zipped = self._bodies
        headers = [("Content-Type", CONTENT_TYPE_PLAIN_0_0_4), ("Vary", "Accept-Encoding")]
        if "gzip" in environ.get("HTTP_ACCEPT_ENCODING", ""):
            start_response("200 OK", [*headers, ("Content-Encoding", "gzip")])
            return [zipped]
        start_response("200 OK", headers)
        return [plain]


def render_text(families: Iterable[Metric]) -> bytes:
    lines: list[str] = []
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
        lines.append(f"# HELP {name} {text}\n# TYPE {name} {family.type}\n")
        for sample in family.samples:
            labels = ",".join([f'{label}="{_escape_label(value)}"' for label, value in sample.labels.items()])
            lines.append(f"{sample.name}{f'{{{labels}}}' if labels else ''} {sample.value}\n")
    return "".join(lines).encode()


def _escape_label(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value
