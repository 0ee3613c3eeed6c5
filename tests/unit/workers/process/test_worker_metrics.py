"""Worker metrics: when values are observed, and closed sets of labels."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from workers.process.worker_metrics import WorkerMetrics
from workers.store.run import RunState
from workflows.chat.history.transcript import Turn
from workflows.outcome import OutcomeKind

NOW = datetime.now(UTC)


def run(workflow: str = "Digest", **changes: Any) -> dict[str, Any]:
    times = {"created_at": NOW - timedelta(seconds=7), "claimed_at": NOW, "started_at": NOW}
    return {"workflow": workflow, "trigger": {"type": "schedule"}, **times, **changes}


def value(metrics: WorkerMetrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(f"unattended_{name}", labels) or 0.0


def test_waiting_is_observed_at_the_first_start_alone_holds_included() -> None:
    metrics = WorkerMetrics()

    metrics.record_start(run())
    metrics.record_start(run(started_at=NOW - timedelta(seconds=5)))  # a retry, or the next owner

    assert value(metrics, "run_queue_seconds_sum", trigger="schedule") == 7
    assert value(metrics, "run_queue_seconds_count", trigger="schedule") == 1


@pytest.mark.parametrize(("ready_at", "waited_s"), [(None, 7), (NOW - timedelta(seconds=2), 2)])
def test_waiting_for_a_worker_begins_when_a_hold_or_a_delay_is_over(ready_at: datetime | None, waited_s: int) -> None:
    metrics = WorkerMetrics()

    metrics.record_start(run(ready_at=ready_at))

    assert value(metrics, "run_wait_seconds_sum") == waited_s


@pytest.mark.parametrize(("state", "count"), [(RunState.SUCCEEDED, 1), (RunState.PARKED, 1), (RunState.NEEDS_HUMAN, 0)])
def test_a_run_that_waits_for_a_person_has_not_ended(state: RunState, count: int) -> None:
    metrics = WorkerMetrics()
    metrics.add_workflows(["Digest"])

    metrics.record_end(run(), state)

    assert value(metrics, "run_duration_seconds_count", workflow="Digest") == count


@pytest.mark.design("D4-101", "D4-103")
def test_turns_are_counted_by_agent_and_hand_offs_by_their_target() -> None:
    metrics = WorkerMetrics()

    for agent, target in [("A", "B"), ("B", "A"), ("A", "B"), ("A", "user"), ("B", "terminate"), ("B", None)]:
        metrics.record_turn("Digest", Turn(agent, "text", handoff=target))

    turns = {agent: value(metrics, "turns_total", workflow="Digest", agent=agent) for agent in "AB"}
    assert turns == {"A": 3, "B": 3}
    handed = {
        (sample.labels["agent"], sample.labels["target"]): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "unattended_handoffs_total"
    }
    assert handed == {("A", "B"): 2, ("B", "A"): 1, ("A", "user"): 1, ("B", "terminate"): 1}


@pytest.mark.design("D4-102", "D4-105")
def test_time_and_errors_of_tools_are_counted_by_tool() -> None:
    metrics = WorkerMetrics()

    metrics.record_tool_call("Digest", "fetch", 0.5, failed=False)
    metrics.record_tool_call("Digest", "fetch", 1.5, failed=True)
    metrics.record_tool_call("Digest", "write", 0.1, failed=False)

    fetch, write = ({"workflow": "Digest", "tool": tool} for tool in ("fetch", "write"))
    assert value(metrics, "tool_call_seconds_sum", **fetch) == 2
    assert value(metrics, "tool_call_seconds_count", **fetch) == 2
    assert (value(metrics, "tool_errors_total", **fetch), value(metrics, "tool_errors_total", **write)) == (1, 0)


def test_workflows_that_no_package_has_share_a_label() -> None:
    metrics = WorkerMetrics()
    metrics.add_workflows(["Digest"])

    for workflow in ("Made", "Up"):
        metrics.record_retry(workflow, OutcomeKind.MODEL_ERROR)

    assert value(metrics, "run_retries_total", workflow="_other", reason="model_error") == 2
    assert value(metrics, "run_retries_total", workflow="Made", reason="model_error") == 0


def test_what_may_be_lost_is_there_from_the_start_at_zero() -> None:
    metrics = WorkerMetrics()

    assert metrics.registry.get_sample_value("unattended_lease_lost_total", {"reason": "taken_over"}) == 0
    assert metrics.registry.get_sample_value("unattended_lease_lost_total", {"reason": "not_renewed"}) == 0
    assert metrics.registry.get_sample_value("unattended_fenced_writes_total") == 0
