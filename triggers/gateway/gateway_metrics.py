"""Gateway metrics: calls, durations, dropped duplicates and connections."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from triggers.capped_labels import CappedLabels
from triggers.register.trigger import Trigger

Endpoint = Literal["webhook", "form", "api"]
RequestResult = Literal[
    "accepted",
    "duplicate",
    "skipped",
    "answered",
    "invalid",
    "unauthorized",
    "not_found",
    "timeout",
    "conflict",
    "too_large",
    "unsupported",
    "paused",
    "too_many",
    "unavailable",
    "error",
]

# `idle` is the usual end of a connection. The others close callers that send too little or too much, or read nothing.
CloseReason = Literal["idle", "head_timeout", "head_too_large", "body_timeout", "unread_answer", "crowded"]

RESULT_BY_STATUS: dict[int, RequestResult] = {
    400: "invalid",
    401: "unauthorized",
    403: "unauthorized",
    404: "not_found",
    405: "unsupported",
    408: "timeout",
    409: "conflict",
    412: "conflict",
    413: "too_large",
    415: "unsupported",
    422: "invalid",
    429: "too_many",
    503: "unavailable",
}
MAX_RUNTIME_TRIGGER_LABELS = 300


class GatewayMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._runtime_trigger_labels = CappedLabels(MAX_RUNTIME_TRIGGER_LABELS)
        self._requests = Counter(
            "unattended_webhook_requests",
            "Calls to webhooks, forms and the API, by what came of them",
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
        self._counters_by_result = cache(self._requests.labels)  # labels() takes a lock and builds a key on each call
        self._seconds_by_endpoint = cache(self._seconds.labels)
        self._add_connections()

    def _add_connections(self) -> None:
        self._connections = Gauge(
            "unattended_gateway_connections",
            "Open connections by what they wait for, or served",
            ["state"],
            registry=self.registry,
        )
        self._closed = Counter(
            "unattended_gateway_connections_closed",
            "Connections that the gateway closed by itself, by reason",
            ["reason"],
            registry=self.registry,
        )
        self._refused = Counter(
            "unattended_gateway_requests_refused",
            "Requests answered 503 because all places of their routes were taken",
            ["route"],
            registry=self.registry,
        )
        self._accept_pauses = Counter(
            "unattended_gateway_accept_pauses",
            "Times that the gateway accepted no connection, since all that it may have were in use",
            registry=self.registry,
        )

    def observe_request(self, endpoint: Endpoint, result: RequestResult, *, seconds: float) -> None:
        self._counters_by_result(endpoint, result).inc()
        self._seconds_by_endpoint(endpoint).observe(seconds)

    def watch_connections(self, counts: Mapping[str, Callable[[], float]]) -> None:
        for state, count in counts.items():
            self._connections.labels(state).set_function(count)

    def count_closed(self, reason: CloseReason) -> None:
        self._closed.labels(reason).inc()

    def count_refused(self, route: str) -> None:
        self._refused.labels(route).inc()

    def count_accept_pause(self) -> None:
        self._accept_pauses.inc()

    def count_duplicate(self, trigger: Trigger) -> None:
        self._duplicates.labels(self._trigger_label(trigger)).inc()

    def _trigger_label(self, trigger: Trigger) -> str:
        """Caps the labels of runtime triggers: an API key may create any number."""
        return trigger.label if trigger.origin == "package" else self._runtime_trigger_labels.label_for(trigger.label)
