"""Gateway metrics: calls, their duration and dropped duplicates, in a registry of this app's own."""

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram

Endpoint = Literal["webhook", "form"]
Result = Literal[
    "accepted",
    "duplicate",
    "skipped",
    "invalid",
    "unauthorized",
    "not_found",
    "timeout",
    "too_large",
    "unsupported",
    "unavailable",
    "error",
]

RESULT_BY_STATUS: dict[int, Result] = {
    400: "invalid",
    401: "unauthorized",
    404: "not_found",
    408: "timeout",
    413: "too_large",
    415: "unsupported",
    422: "invalid",
    503: "unavailable",
}


class GatewayMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "unattended_webhook_requests",
            "Calls to webhook and form endpoints, by what came of them",
            ["endpoint", "result"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "unattended_webhook_seconds", "Duration of such a call", ["endpoint"], registry=self.registry
        )
        self._duplicates = Counter(
            "unattended_duplicates_dropped",
            "Deliveries that had already started a run",
            ["trigger"],
            registry=self.registry,
        )

    def answered(self, endpoint: Endpoint, result: Result, *, seconds: float) -> None:
        self._requests.labels(endpoint, result).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def duplicate_dropped(self, workflow: str, trigger: str) -> None:
        """Only for a trigger that was found in a package, so that callers cannot invent label values."""
        self._duplicates.labels(f"{workflow}/{trigger}").inc()
