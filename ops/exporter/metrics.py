"""Prometheus metrics out of a snapshot."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from accounting.app_labels import AppLabels
from accounting.usage import UsageTotals
from ops.exporter.pauses import REASONS
from ops.exporter.snapshot import Snapshot

Labels = tuple[str, ...]
Counter = tuple[str, str, Callable[[UsageTotals], float]]

USAGE_LABELS = ("app", "workflow", "model", "provider")
USAGE_COUNTERS: tuple[Counter, ...] = (
    ("unattended_input_tokens", "Input tokens, cached ones included", lambda each: each.input_tokens),
    ("unattended_cached_input_tokens", "Input tokens read from a cache", lambda each: each.cached_input_tokens),
    ("unattended_output_tokens", "Output tokens, reasoning included", lambda each: each.output_tokens),
    ("unattended_reasoning_tokens", "Output tokens spent on reasoning", lambda each: each.reasoning_tokens),
    (
        "unattended_cost_usd",
        "Cost by the price table; unpriced calls add nothing",
        lambda each: each.cost_usd or 0.0,
    ),
)
CALL_COUNTERS: tuple[Counter, ...] = (
    ("unattended_model_calls", "Model calls, failed ones included", lambda each: each.calls),
    ("unattended_usage_missing", "Model calls that came without usage", lambda each: each.missing),
)
AGENT_COUNTERS: tuple[Counter, ...] = (
    ("unattended_agent_input_tokens", "Input tokens by agent", lambda each: each.input_tokens),
    ("unattended_agent_output_tokens", "Output tokens by agent", lambda each: each.output_tokens),
)


class StoreCollector(Collector):
    """Serves the newest snapshot; before the first one there is nothing rather than zeros."""

    def __init__(self, *, max_app_labels: int) -> None:
        self._apps = AppLabels(max_app_labels)
        self._snapshot: Snapshot | None = None
        self._healthy = False

    def show(self, snapshot: Snapshot) -> None:
        self._apps.learn({row["_id"]["app"] for row in snapshot.runs} | {row.key["app_id"] for row in snapshot.usage})
        self._snapshot = snapshot
        self._healthy = True

    def stale(self) -> None:
        """The store did not answer: the last numbers stay, and a gauge says that they are old."""
        self._healthy = False

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "unattended_exporter_store_up", "1 while the numbers are fresh from the store", value=float(self._healthy)
        )
        snapshot = self._snapshot
        if snapshot is None:
            return
        yield self._runs(snapshot)
        yield from _usage(snapshot.usage, USAGE_COUNTERS, USAGE_LABELS, self._usage_labels)
        yield from _usage(snapshot.usage, CALL_COUNTERS, (*USAGE_LABELS, "ok"), self._call_labels)
        yield from _usage(snapshot.usage, AGENT_COUNTERS, ("workflow", "agent"), _agent_labels)
        yield from _queue(snapshot)
        yield _paused(snapshot)

    def _runs(self, snapshot: Snapshot) -> Metric:
        counts: dict[Labels, float] = defaultdict(float)
        for row in snapshot.runs:
            key = row["_id"]
            outcome = key.get("outcome") or "unknown"
            counts[self._apps.label(key["app"]), key["workflow"], key["trigger"], outcome] += row["count"]
        return _counter(
            "unattended_runs", "Runs that ended or parked", ("app", "workflow", "trigger", "outcome"), counts
        )

    def _usage_labels(self, row: UsageTotals) -> Labels:
        key = row.key
        return self._apps.label(key["app_id"]), key["workflow"], key["model"], key["provider"]

    def _call_labels(self, row: UsageTotals) -> Labels:
        return (*self._usage_labels(row), "true" if row.key["ok"] else "false")


def _agent_labels(row: UsageTotals) -> Labels:
    return row.key["workflow"], row.key["agent"]


def _usage(
    rows: Sequence[UsageTotals],
    counters: Sequence[Counter],
    names: Sequence[str],
    labels: Callable[[UsageTotals], Labels],
) -> Iterator[Metric]:
    """Rows are finer than any metric: those of one label set are added up."""
    labelled = [(labels(row), row) for row in rows]
    for name, text, value in counters:
        counts: dict[Labels, float] = defaultdict(float)
        for key, row in labelled:
            counts[key] += value(row)
        yield _counter(name, text, names, counts)


def _queue(snapshot: Snapshot) -> Iterator[Metric]:
    queued = GaugeMetricFamily("unattended_runs_queued", "Runs that wait and are due", labels=["hold"])
    for hold, count in {"": 0, **snapshot.queued}.items():
        queued.add_metric([hold], count)
    yield queued
    yield GaugeMetricFamily("unattended_runs_in_progress", "Runs a worker holds", value=snapshot.in_progress)
    yield GaugeMetricFamily("unattended_runs_parked", "Runs at rest after their attempts", value=snapshot.parked)
    yield GaugeMetricFamily(
        "unattended_oldest_queued_age_seconds",
        "How long a run that may start has waited for a worker, at most",
        value=snapshot.oldest_queued_age_s,
    )


def _paused(snapshot: Snapshot) -> Metric:
    paused = GaugeMetricFamily(
        "unattended_triggers_paused",
        "Pauses of triggers that nobody has ended, those of single apps too",
        labels=["reason"],
    )
    for reason in REASONS:
        paused.add_metric([reason], snapshot.paused.get(reason, 0))
    return paused


def _counter(name: str, text: str, labels: Sequence[str], counts: dict[Labels, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(list(values), count)
    return family
