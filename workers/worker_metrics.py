"""Metrics of a worker process. Labels come from closed sets: workflows, agents and outcomes, never runs or apps."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from accounting.usage import ModelCall
from workflows.chat.transcript import Turn
from workflows.package.models import TERMINATE, USER

_RUN_BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_CALL_BUCKETS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 40, 80, 160)


class WorkerMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._duration = Histogram(
            "unattended_run_duration_seconds",
            "From the first start of a run to its end",
            ["workflow"],
            buckets=_RUN_BUCKETS,
            registry=self.registry,
        )
        self._queue = Histogram(
            "unattended_run_queue_seconds",
            "From the acceptance of a run to its first start",
            ["trigger"],
            buckets=_RUN_BUCKETS,
            registry=self.registry,
        )
        self._turns = Counter(
            "unattended_turns_total", "Turns that were committed", ["workflow", "agent"], registry=self.registry
        )
        self._handoffs = Counter(
            "unattended_handoffs_total",
            "Turns that handed over to another agent",
            ["workflow", "agent"],
            registry=self.registry,
        )
        self._calls = Histogram(
            "unattended_model_call_seconds",
            "Time a model took to answer",
            ["workflow", "agent"],
            buckets=_CALL_BUCKETS,
            registry=self.registry,
        )
        self._lease_lost = Counter(
            "unattended_lease_lost_total", "Runs that another owner took over", registry=self.registry
        )
        self._active = Gauge("unattended_worker_runs", "Runs this process works on now", registry=self.registry)

    def started(self, run: Mapping[str, Any]) -> None:
        if run["attempt"] == 1 and run["turn"] == 0 and run["lease"]["token"] == 1:
            waited = run["started_at"] - run["created_at"]
            self._queue.labels(run["trigger"]["type"]).observe(max(waited.total_seconds(), 0))

    def turn(self, workflow: str, turn: Turn) -> None:
        self._turns.labels(workflow, turn.agent).inc()
        if turn.handoff not in (None, TERMINATE, USER):
            self._handoffs.labels(workflow, turn.agent).inc()

    def model_call(self, workflow: str, call: ModelCall) -> None:
        self._calls.labels(workflow, call.agent).observe(call.duration_s)

    def finished(self, run: Mapping[str, Any]) -> None:
        self._duration.labels(run["workflow"]).observe((datetime.now(UTC) - run["started_at"]).total_seconds())

    def lease_lost(self) -> None:
        self._lease_lost.inc()

    def working_on(self, change: int) -> None:
        self._active.inc(change)
