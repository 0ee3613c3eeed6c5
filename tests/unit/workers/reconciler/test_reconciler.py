"""Decisions of the reconciler without a store: wake-ups, the size of a transaction, roll-ups."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from workers.reconciler.reconcile_metrics import ReconcileMetrics
from workers.reconciler.republish import reason_of
from workers.store.run_pruner import rollup_updates, take_within_turns


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ({"wakes": 0, "not_before": "then"}, "due"),
        ({"wakes": 3, "not_before": "then", "last_requeue": {}}, "due"),
        ({"wakes": 0, "not_before": None}, "older_version"),
        ({"wakes": 0}, "older_version"),
        ({"lane": "acme", "wakes": 0}, "lost"),
        ({"lane": "acme", "wakes": 0, "last_requeue": None}, "lost"),
        ({"lane": "acme", "wakes": 0, "last_requeue": {"reason": "worker_lost"}}, "given_back"),
        ({"lane": "acme", "wakes": 1, "last_requeue": {"reason": "worker_lost"}}, "lost"),
    ],
)
def test_why_a_run_needs_a_wakeup(run: dict[str, Any], reason: str) -> None:
    assert reason_of(run) == reason


@pytest.mark.parametrize(
    ("turns", "taken"),
    [([], 0), ([0, 0, 0], 3), ([4, 4, 4], 2), ([10, 1], 1), ([11, 1], 1), ([999], 1)],
)
def test_a_transaction_takes_whole_runs_up_to_so_many_turns(turns: list[int], taken: int) -> None:
    assert len(take_within_turns([{"turn": each} for each in turns], max_turns=10)) == taken


def test_a_run_of_an_older_version_may_not_know_its_turns() -> None:
    assert len(take_within_turns([{}, {}])) == 2


def test_runs_are_added_up_by_what_the_counter_shows() -> None:
    def run(app: str, kind: str | None) -> dict[str, Any]:
        outcome = None if kind is None else {"kind": kind}
        return {"app_id": app, "workflow": "W", "trigger": {"type": "api"}, "outcome": outcome}

    operations = rollup_updates([run("a", "completed"), run("a", "completed"), run("b", "timeout"), run("b", None)])

    assert [(each._filter["_id"], each._doc) for each in operations] == [
        ({"app": "a", "workflow": "W", "trigger": "api", "outcome": "completed"}, {"$inc": {"count": 2}}),
        ({"app": "b", "workflow": "W", "trigger": "api", "outcome": "timeout"}, {"$inc": {"count": 1}}),
        ({"app": "b", "workflow": "W", "trigger": "api", "outcome": None}, {"$inc": {"count": 1}}),
    ]


def test_stranded_runs_are_added_up_apart() -> None:
    """The others go into the same roll-ups as in an older version."""
    plain = {"app_id": "a", "workflow": "W", "trigger": {"type": "api"}, "outcome": {"kind": "no_transition"}}
    stranded = {**plain, "outcome": {"kind": "no_transition", "stranded": True}}

    operations = rollup_updates([plain, stranded, stranded])

    key = {"app": "a", "workflow": "W", "trigger": "api", "outcome": "no_transition"}
    assert [(each._filter["_id"], each._doc) for each in operations] == [
        (key, {"$inc": {"count": 1}}),
        ({**key, "stranded": True}, {"$inc": {"count": 2}}),
    ]


def test_every_series_is_there_from_the_start() -> None:
    registry = CollectorRegistry()
    ReconcileMetrics(registry)

    text = generate_latest(registry).decode()

    for series in (
        'unattended_reclaimed_total{result="queued"} 0.0',
        'unattended_reclaimed_total{result="parked"} 0.0',
        'unattended_reclaimed_total{result="cancelled"} 0.0',
        'unattended_republished_total{reason="lost"} 0.0',
        'unattended_republished_total{reason="due"} 0.0',
        'unattended_runs_released_total{hold="budget"} 0.0',
        "unattended_runs_pruned_total 0.0",
        'unattended_reconcile_faults_total{step="retain"} 0.0',
        "unattended_reconcile_last_success_timestamp_seconds 0.0",
    ):
        assert series in text
