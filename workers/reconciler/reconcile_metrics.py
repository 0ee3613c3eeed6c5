"""Metrics of the reconciler: its results and whether one is running. All series start at 0."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from accounting.ledger import ledger_retention
from accounting.totals import roll_up
from workers.reconciler import reclaim, republish, run_retention
from workers.store.run import HoldKind

Step = Literal[
    "reclaim", "release", "mend_budgets", "release_budgets", "order", "republish", "add_up", "retain", "retain_ledger"
]
_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


def _by_step(counter: Callable[[str, str, str, Iterable[str]], Counter]) -> Mapping[Step, Counter]:
    """Returns the counters of the steps that count by a label."""
    holds = [kind.value for kind in HoldKind]
    rows = counter(
        "unattended_ledger_rows_total",
        "Rows of the ledger: added to the totals, closed since their worker is lost, deleted after their retention",
        "result",
        (roll_up.ADDED, roll_up.CLOSED, ledger_retention.PRUNED),
    )
    released = counter("unattended_runs_released_total", "Held runs that may start again", "hold", holds)
    return {
        "reclaim": counter("unattended_reclaimed_total", "Runs taken from lost workers", "result", reclaim.RESULTS),
        "release": released,
        "release_budgets": released,
        "order": released,
        "republish": counter("unattended_republished_total", "Wake-ups sent again", "reason", republish.REASONS),
        "add_up": rows,
        "retain_ledger": rows,
    }


class ReconcileMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, label: str, values: Iterable[str]) -> Counter:
            metric = Counter(name, text, [label], registry=registry)
            for value in values:
                metric.labels(value)
            return metric

        self._by_label = _by_step(counter)
        self._corrected = counter(
            "unattended_runs_corrected_total",
            "Queued runs put right without a wake-up",
            "reason",
            republish.CORRECTIONS,
        )
        self._pruned = Counter("unattended_runs_pruned_total", "Runs deleted after their retention", registry=registry)
        self._faults = counter(
            "unattended_reconcile_faults_total", "Steps of a pass that failed", "step", get_args(Step)
        )
        self._seconds = Histogram(
            "unattended_reconcile_seconds", "Duration of a pass", buckets=_BUCKETS, registry=registry
        )
        self._succeeded_at = Gauge(
            "unattended_reconcile_last_success_timestamp_seconds",
            "When a pass last ended in which no step failed, as Unix time",
            registry=registry,
        )

    def record_step(self, step: Step, counts: Mapping[str, int]) -> None:
        if step == "retain":
            self._pruned.inc(counts[run_retention.PRUNED])
        else:
            for label, count in counts.items():
                metric = self._corrected if label in republish.CORRECTIONS else self._by_label[step]
                metric.labels(label).inc(count)

    def record_failure(self, step: Step) -> None:
        self._faults.labels(step).inc()

    def record_pass(self, seconds: float, *, is_success: bool) -> None:
        self._seconds.observe(seconds)
        if is_success:
            self._succeeded_at.set(time.time())
