"""Metrics of a worker process.

Labels come from closed sets: workflows, agents, tools and outcomes, never runs or apps. Each process has one registry.
Children of the prefork pool have registries of their own, which are not served.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from accounting.usage import ModelCall
from workers.process.heartbeat import LossReason
from workers.store.run import HoldKind, RunState
from workflows.chat.history.transcript import Turn
from workflows.outcome import OutcomeKind

OTHER = "_other"
_RUN_BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_CALL_BUCKETS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 40, 80, 160)


class WorkerMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        of_run = partial(Histogram, buckets=_RUN_BUCKETS, registry=self.registry)
        of_call = partial(Histogram, buckets=_CALL_BUCKETS, registry=self.registry)
        lasted = "From the first start of a run to its end or its parking, with all waiting in between"
        self._duration = of_run("unattended_run_duration_seconds", lasted, ["workflow"])
        queued = "From the acceptance of a run to its first start, held or not"
        self._queue = of_run("unattended_run_queue_seconds", queued, ["trigger"])
        waited = "Time from when a run may start to its first start, without holds and planned delays"
        self._wait = of_run("unattended_run_wait_seconds", waited)
        self._turns = counter("unattended_turns_total", "Turns that were committed", ["workflow", "agent"])
        handed_over = "Turns that handed over, by the target: an agent of the package, user or terminate"
        self._handoffs = counter("unattended_handoffs_total", handed_over, ["workflow", "agent", "target"])
        self._calls = of_call("unattended_model_call_seconds", "Time a model took to answer", ["workflow", "agent"])
        answered = "Time a tool or a lifecycle tool took to answer or to fail"
        self._tools = of_call("unattended_tool_call_seconds", answered, ["workflow", "tool"])
        failed = "Calls of tools and lifecycle tools that failed or were refused for their arguments"
        self._tool_errors = counter("unattended_tool_errors_total", failed, ["workflow", "tool"])
        retried = "Attempts that failed and are followed by another one"
        self._retries = counter("unattended_run_retries_total", retried, ["workflow", "reason"])
        stopped = "Runs that were stopped here: taken over by another owner, or not renewed in time"
        self._lease_lost = counter("unattended_lease_lost_total", stopped, ["reason"])
        self._fenced = counter("unattended_fenced_writes_total", "Writes of a stale owner, which changed nothing")
        idle = "Wake-ups that found nothing to start: repeated ones, or another worker has claimed the run"
        self._idle = counter("unattended_idle_wakeups_total", idle)
        held = "Runs that were returned to the queue because of a cap, a rate or a budget"
        self._held = counter("unattended_runs_held_total", held, ["hold"])
        isolated = "Runs suspected of killing their workers that this worker executes in processes of their own now"
        self._alone = gauge("unattended_worker_runs_alone", isolated)
        ended = "Runs that were executed in a process of their own, by whether that process was lost"
        self._ended_alone = counter("unattended_runs_alone_total", ended, ["result"])
        self._active = gauge("unattended_worker_runs", "Runs this process works on now")
        self._slots = gauge("unattended_worker_slots", "Runs this process can work on at once")
        ProcessCollector(registry=self.registry)
        self._show_zeros()
        self._workflows: frozenset[str] = frozenset()

    def _show_zeros(self) -> None:
        for reason in get_args(LossReason):
            self._lease_lost.labels(reason)
        for kind in HoldKind:
            self._held.labels(kind.value)
        for result in ("given_up", "lost"):
            self._ended_alone.labels(result)

    def add_workflows(self, workflows: Iterable[str]) -> None:
        """Adds workflows that get a label.

        All others share one, as callers can make up any number of names.
        """
        self._workflows |= frozenset(workflows)

    def _label(self, workflow: str) -> str:
        return workflow if workflow in self._workflows else OTHER

    def record_start(self, run: Mapping[str, Any]) -> None:
        """Observes the waiting times, once in the life of a run.

        A start that ends in a hold is taken back, and does not count.
        """
        if run["started_at"] == run["claimed_at"]:
            accepted, started = run["created_at"], run["started_at"]
            startable = max(accepted, run.get("ready_at") or accepted)
            self._queue.labels(run["trigger"]["type"]).observe(max((started - accepted).total_seconds(), 0))
            self._wait.observe(max((started - startable).total_seconds(), 0))

    def record_turn(self, workflow: str, turn: Turn) -> None:
        self._turns.labels(workflow, turn.agent).inc()
        if turn.handoff is not None:
            self._handoffs.labels(workflow, turn.agent, turn.handoff).inc()

    def record_model_call(self, workflow: str, call: ModelCall) -> None:
        self._calls.labels(workflow, call.agent).observe(call.duration_s)

    def record_tool_call(self, workflow: str, tool: str, seconds: float, failed: bool) -> None:
        """Observes a tool call.

        `tool` is always a name of a package: invented names are never called.
        """
        self._tools.labels(workflow, tool).observe(seconds)
        if failed:
            self._tool_errors.labels(workflow, tool).inc()

    def record_retry(self, workflow: str, reason: OutcomeKind) -> None:
        self._retries.labels(self._label(workflow), reason.value).inc()

    def record_end(self, run: Mapping[str, Any], state: RunState) -> None:
        if state is RunState.NEEDS_HUMAN:
            return  # it continues after an answer, and is counted then
        lasted = datetime.now(UTC) - run["started_at"]
        self._duration.labels(self._label(run["workflow"])).observe(max(lasted.total_seconds(), 0))

    def record_lease_lost(self, reason: LossReason) -> None:
        self._lease_lost.labels(reason).inc()

    def record_hold(self, kind: HoldKind) -> None:
        self._held.labels(kind.value).inc()

    def record_idle_wakeup(self) -> None:
        self._idle.inc()

    def record_fenced_write(self) -> None:
        self._fenced.inc()

    def set_slots(self, count: int) -> None:
        self._slots.set(count)

    def add_isolated_runs(self, change: int) -> None:
        self._alone.inc(change)

    def record_isolated_end(self, *, is_lost: bool) -> None:
        self._ended_alone.labels("lost" if is_lost else "given_up").inc()

    def add_active_runs(self, change: int) -> None:
        self._active.inc(change)
