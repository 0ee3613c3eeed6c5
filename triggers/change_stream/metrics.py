"""What a watcher measures about its streams."""

import time
from enum import IntEnum

from prometheus_client import CollectorRegistry, Counter, Gauge


class StreamState(IntEnum):
    NOT_OWNED = 0
    READING = 1
    SUSPENDED = 2


class StreamMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = Gauge(
            "unattended_stream_lag_seconds",
            "Age of the newest change when its runs were durable; 0 when there is nothing new",
            ["stream"],
            registry=registry,
        )
        self._state = Gauge(
            "unattended_stream_state",
            "0 another watcher has it or nobody, 1 read by this watcher, 2 suspended",
            ["stream"],
            registry=registry,
        )
        self._token_age = Gauge(
            "unattended_stream_token_age_seconds",
            "Seconds since the position was last saved",
            ["stream"],
            registry=registry,
        )
        self._gaps = Counter("unattended_stream_gaps_total", "Recorded gaps in a stream", ["stream"], registry=registry)
        self._duplicates = Counter(
            "unattended_duplicates_dropped_total", "Events whose run was there already", ["trigger"], registry=registry
        )
        self._skipped = Counter(
            "unattended_stream_events_skipped_total",
            "Changes that a trigger could not make a run of",
            ["trigger", "reason"],
            registry=registry,
        )

    def state(self, stream: str, state: StreamState) -> None:
        self._state.labels(stream).set(state)
        if state is StreamState.NOT_OWNED:
            self._lag.remove_by_labels({"stream": stream})
            self._token_age.remove_by_labels({"stream": stream})

    def lag(self, stream: str, seconds: float) -> None:
        self._lag.labels(stream).set(max(0.0, seconds))

    def saved(self, stream: str, at: float) -> None:
        """Computed when scraped: a reader that hangs must not look fresh."""
        self._token_age.labels(stream).set_function(lambda: time.time() - at)

    def gap(self, stream: str) -> None:
        self._gaps.labels(stream).inc()

    def duplicate(self, trigger: str) -> None:
        self._duplicates.labels(trigger).inc()

    def skipped(self, trigger: str, reason: str) -> None:
        self._skipped.labels(trigger, reason).inc()

    def forget(self, stream: str) -> None:
        self.state(stream, StreamState.NOT_OWNED)
        self._state.remove_by_labels({"stream": stream})
