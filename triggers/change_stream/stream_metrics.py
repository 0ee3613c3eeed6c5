"""Stream metrics: a watcher's streams, and the events of its triggers."""

import time
from enum import IntEnum

from prometheus_client import CollectorRegistry, Counter, Gauge

from triggers.capped_labels import OTHER, CappedLabels

MAX_LABELS = 300


class StreamState(IntEnum):
    """A worse state has a greater number."""

    NOT_OWNED = 0
    READING = 1
    SUSPENDED = 2
    REFUSED = 3


class StreamMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, help_text: str) -> Gauge:
            return Gauge(name, help_text, ["stream"], registry=registry)

        self._lag = gauge(
            "unattended_stream_lag_seconds",
            "Age of the newest change when its runs were durable; 0 when there is nothing new",
        )
        self._state = gauge(
            "unattended_stream_state",
            "0 another watcher has it or nobody, 1 read by this watcher, 2 suspended, 3 refused by MongoDB",
        )
        self._token_age = gauge("unattended_stream_token_age_seconds", "Seconds since the position was last saved")
        self._oplog_window = gauge(
            "unattended_stream_oplog_window_seconds", "How far back the oplog reaches: the longest pause to catch up"
        )
        self._gaps = Counter("unattended_stream_gaps_total", "Recorded gaps in a stream", ["stream"], registry=registry)
        self._duplicates = Counter(
            "unattended_duplicates_dropped_total", "Events whose run was there already", ["trigger"], registry=registry
        )
        self._skipped = Counter(
            "unattended_stream_events_skipped_total",
            "Events that a trigger made no run of",
            ["trigger", "reason"],
            registry=registry,
        )
        self._streams = CappedLabels(MAX_LABELS)
        self._streams_read_here: set[str] = set()
        self._triggers = CappedLabels(MAX_LABELS)

    def set_state(self, stream: str, state: StreamState) -> None:
        label = self._streams.label_for(stream)
        self._state.labels(label).set(state)
        if state is not StreamState.NOT_OWNED:
            self._streams_read_here.add(label)
        elif label != OTHER:
            self._streams_read_here.discard(label)
            for metric in (self._lag, self._token_age, self._oplog_window):
                metric.remove_by_labels({"stream": label})

    def set_lag(self, stream: str, seconds: float) -> None:
        self._lag.labels(self._streams.label_for(stream)).set(max(0.0, seconds))

    def set_saved_at(self, stream: str, at: float) -> None:
        """Computes the age when scraped, so that a hanging reader shows."""
        label = self._streams.label_for(stream)
        self._token_age.labels(label).set_function(lambda: time.time() - at)
        self._lag.labels(label)  # alerts add the two

    def set_oplog_window(self, seconds: float) -> None:
        """Sets the same window for each stream that is read here: they share one server."""
        for label in self._streams_read_here:
            self._oplog_window.labels(label).set(seconds)

    def count_gap(self, stream: str) -> None:
        self._gaps.labels(self._streams.label_for(stream)).inc()

    def count_duplicate(self, trigger: str) -> None:
        self._duplicates.labels(self._triggers.label_for(trigger)).inc()

    def count_skipped(self, trigger: str, reason: str, *, times: int = 1) -> None:
        self._skipped.labels(self._triggers.label_for(trigger), reason).inc(times)

    def remove_stream(self, stream: str) -> None:
        self.set_state(stream, StreamState.NOT_OWNED)
        label = self._streams.label_for(stream)
        if label != OTHER:
            self._state.remove_by_labels({"stream": label})
