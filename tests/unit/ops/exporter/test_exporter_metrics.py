"""The exporter's metrics: finer rows of the store are summed, and no counter ever falls."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from accounting.app_labels import AppLabels
from accounting.billing.outbox import OutboxState
from accounting.budgets.budget import Budget
from accounting.budgets.budget_status import BudgetStatus
from accounting.budgets.window_store import all_time_id
from accounting.usage import UsageTotals
from ops.exporter.budget_counts import BudgetCounts, BudgetScope, parse_all_time_scope
from ops.exporter.exporter_metrics import StoreCollector
from ops.exporter.ledger_counts import LedgerCounts
from ops.exporter.store_snapshot import Snapshot, apps_by_use
from ops.exporter.trigger_counts import TriggerCounts
from ops.exporter.usage_counts import UsageChange
from workers.store.ended_counts import RunLabels
from workers.store.queue_counts import AppWorkflow, PersonWait, QueueCounts

TODAY = datetime(2026, 3, 1, tzinfo=UTC)
Series = dict[tuple[str, tuple[str, ...]], float]


def row(calls: int, *, app: str = "acme", agent: str = "A", ok: bool = True, **sums: int) -> UsageTotals:
    key = {"app_id": app, "workflow": "W", "model": "m", "provider": "p", "ok": ok, "agent": agent}
    usual = {"input_tokens": 10 * calls, "output_tokens": calls, "cost_nano_usd": 10**9 * calls}
    return UsageTotals(calls=calls, key=key, **{**usual, **sums})


def budget_status(app: str | None, used: int, **fields: Any) -> BudgetStatus:
    budget = Budget(app, fields.pop("workflow", None), fields.pop("window", "day"), "tokens", fields.pop("limit", 100))
    return BudgetStatus(budget, app, **{"start": TODAY, "end": None, "spent": used, **fields})


def series_of(collector: StoreCollector) -> Series:
    samples = (sample for metric in collector.collect() for sample in metric.samples)
    return {(each.name.removeprefix("unattended_"), tuple(each.labels.values())): each.value for each in samples}


def collect_series(*usage: UsageTotals, named: Sequence[str] = ("acme",), **collectors: Any) -> Series:
    collector = StoreCollector()
    collector.publish(Snapshot(usage=usage, apps=AppLabels(frozenset(named)), **collectors), duration_s=0.1)
    return series_of(collector)


@pytest.mark.design("U-7", "D4-104")
def test_agents_and_failures_are_summed_where_no_metric_label_names_them() -> None:
    series = collect_series(row(4, agent="A"), row(2, agent="B"), row(1, agent="B", ok=False))

    labels = ("acme", "W", "m", "p")
    assert series["input_tokens_total", labels] == 70
    assert series["output_tokens_total", labels] == 7
    assert series["cost_usd_total", labels] == 7
    assert series["model_calls_total", (*labels, "true")] == 6
    assert series["model_calls_total", (*labels, "false")] == 1
    assert series["agent_input_tokens_total", ("W", "A")] == 40
    assert series["agent_input_tokens_total", ("W", "B")] == 30


def test_calls_of_unknown_usage_or_price_are_counted_separately() -> None:
    series = collect_series(row(4, agent="A", missing=1), row(2, agent="B", missing=2, unpriced=3, estimated=4))

    assert series["usage_missing_total", ("acme", "W", "m", "p", "true")] == 3
    assert series["usage_unpriced_total", ("acme", "m", "p")] == 3
    assert series["usage_estimated_total", ("acme", "m", "p")] == 4


def test_what_most_never_have_is_a_series_from_its_first_count_on() -> None:
    without = {name for name, _ in collect_series(row(4, input_tokens=0, output_tokens=0, cost_nano_usd=0))}
    with_all = {
        name for name, _ in collect_series(row(4, cached_input_tokens=1, cache_write_tokens=1, reasoning_tokens=1))
    }

    rare = {"cached_input_tokens_total", "cache_write_tokens_total", "reasoning_tokens_total"}
    assert not (rare | {"usage_missing_total", "usage_unpriced_total", "usage_estimated_total"}) & without
    assert {"input_tokens_total", "output_tokens_total", "cost_usd_total", "model_calls_total"} <= without
    assert rare <= with_all


def test_apps_without_a_label_and_agents_of_all_apps_are_one_series() -> None:
    runs = {RunLabels(app, "W", "api", "completed"): 5 for app in ("a", "b", "c")}

    series = collect_series(row(4, app="a"), row(2, app="b"), row(1, app="c"), named=["a"], runs=runs)

    assert series["input_tokens_total", ("a", "W", "m", "p")] == 40
    assert series["input_tokens_total", ("_other", "W", "m", "p")] == 30
    assert series["agent_input_tokens_total", ("W", "A")] == 70
    assert series["runs_total", ("a", "W", "api", "completed")] == 5
    assert series["runs_total", ("_other", "W", "api", "completed")] == 10


def test_stranded_runs_are_among_all_runs_and_counted_apart() -> None:
    ended = ("W", "api", "no_transition")
    runs = {
        RunLabels("a", *ended): 5,
        RunLabels("a", *ended, stranded=True): 2,
        RunLabels("b", *ended, stranded=True): 1,
    }

    series = collect_series(named=["a"], runs=runs)

    assert series["runs_total", ("a", *ended)] == 7
    assert series["runs_total", ("_other", *ended)] == 1
    assert series["runs_stranded_total", ("a", "W", "api")] == 2
    assert series["runs_stranded_total", ("_other", "W", "api")] == 1


def test_a_counter_never_falls_and_never_leaves_while_its_exporter_lives() -> None:
    collector = StoreCollector()
    runs = {RunLabels("acme", "W", "api", "completed"): 5}
    labels = ("acme", "W", "m", "p")

    collector.publish(Snapshot(usage=[row(3, missing=1)], runs=runs), duration_s=0)
    collector.publish(Snapshot(usage=[row(2)]), duration_s=0)
    fallen = series_of(collector)
    collector.publish(Snapshot(usage=[row(4)], runs={RunLabels("acme", "W", "api", "completed"): 6}), duration_s=0)
    risen = series_of(collector)

    labels = ("_other", "W", "m", "p")
    assert fallen["model_calls_total", (*labels, "true")] == 3
    assert fallen["usage_missing_total", (*labels, "true")] == 1
    assert fallen["runs_total", ("_other", "W", "api", "completed")] == 5
    assert risen["model_calls_total", (*labels, "true")] == 4
    assert risen["runs_total", ("_other", "W", "api", "completed")] == 6


def test_an_exporter_without_a_store_reports_it_and_shows_its_last_numbers() -> None:
    collector = StoreCollector(clock=lambda: 1000.0)
    before = series_of(collector)
    collector.publish(Snapshot(usage=[row(4)]), duration_s=0.25)
    fresh = series_of(collector)
    collector.mark_stale()
    old = series_of(collector)

    assert before == {("exporter_store_up", ()): 0}
    assert fresh["exporter_store_up", ()] == 1
    assert fresh["exporter_last_success_timestamp_seconds", ()] == 1000
    assert fresh["exporter_read_seconds", ()] == 0.25
    assert old == {**fresh, ("exporter_store_up", ()): 0}


def test_a_budget_shows_its_limit_its_use_and_what_it_kept_from_being_made() -> None:
    run = budget_status("acme", 0, window="run", start=None)
    of_all = BudgetStatus(Budget(None, "W", "month", "usd", 2_500_000_000), None, TODAY, None, spent=500_000_000)

    standings = [budget_status("acme", 60), run, of_all]

    series = collect_series(budgets=BudgetCounts(standings, {BudgetScope("acme", None, "day", "tokens"): 3}))

    assert series["budget_limit", ("acme", "", "day", "tokens")] == 100
    assert series["budget_used", ("acme", "", "day", "tokens")] == 60
    assert series["budget_rejections_total", ("acme", "", "day", "tokens")] == 3
    assert series["budget_limit", ("", "W", "month", "usd")] == 2.5
    assert series["budget_used", ("", "W", "month", "usd")] == 0.5
    assert series["budget_limit", ("acme", "", "run", "tokens")] == 100
    assert ("budget_used", ("acme", "", "run", "tokens")) not in series


def test_what_waits_and_what_is_late_is_shown_as_it_is_now() -> None:
    series = collect_series(
        queue=QueueCounts(in_progress=1, parked=2, queued={"": 3, "budget": 0}, oldest_queued_age_s=4.5),
        triggers=TriggerCounts(paused={"operator": 5}, created_at_run_time={"schedule": 6}, overdue_s=7.5),
        ledger=LedgerCounts(open_calls=8, waiting_rows=9, oldest_waiting_s=10.5),
        outbox=OutboxState(pending=11, dead=12, oldest_pending_age_s=13.5),
    )

    assert {name: value for (name, labels), value in series.items() if not labels and "exporter" not in name} == {
        "runs_in_progress": 1,
        "runs_parked": 2,
        "oldest_queued_age_seconds": 4.5,
        "schedule_overdue_seconds": 7.5,
        "model_calls_open": 8,
        "usage_rows_waiting": 9,
        "usage_oldest_waiting_seconds": 10.5,
        "billing_batches_pending": 11,
        "billing_batches_dead": 12,
        "billing_oldest_pending_seconds": 13.5,
    }
    assert (series["runs_queued", ("",)], series["runs_queued", ("budget",)]) == (3, 0)
    assert series["triggers_paused", ("operator",)] == 5
    assert series["triggers_made", ("schedule",)] == 6


def test_runs_that_wait_for_a_person_are_shown_by_app_and_workflow() -> None:
    """Apps that share a label are merged; a workflow without waiting runs has no series, so that its alert ends."""
    waiting = {
        AppWorkflow("acme", "Refund"): PersonWait(2, 60.5),
        AppWorkflow("b", "Refund"): PersonWait(3, 10),
        AppWorkflow("c", "Refund"): PersonWait(4, 500),
    }

    series = collect_series(queue=QueueCounts(waiting_for_person=waiting))

    assert {labels: value for (name, labels), value in series.items() if name == "runs_waiting_for_person"} == {
        ("acme", "Refund"): 2,
        ("_other", "Refund"): 7,
    }
    ages = {each: age for (name, each), age in series.items() if name == "oldest_waiting_for_person_age_seconds"}
    assert ages == {("acme", "Refund"): 60.5, ("_other", "Refund"): 500}
    assert not [name for name, _ in collect_series() if "for_person" in name]


def test_of_budgets_with_equal_labels_the_fullest_shows_all_rejections() -> None:
    tight, wide = budget_status("small", 9, limit=10), budget_status("large", 500, limit=1000)
    rejections = {BudgetScope(app, None, "day", "tokens"): 1 for app in ("small", "large", "gone")}

    series = collect_series(budgets=BudgetCounts([wide, tight, budget_status("acme", 1)], rejections))

    assert series["budget_limit", ("_other", "", "day", "tokens")] == 10
    assert series["budget_used", ("_other", "", "day", "tokens")] == 9
    assert series["budget_rejections_total", ("_other", "", "day", "tokens")] == 3


@pytest.mark.parametrize("app_id", ["acme", "*", "a/b c:d", None])
@pytest.mark.parametrize("workflow", [None, "Digest", "W/x y:z"])
def test_what_a_budget_limits_is_read_from_the_id_of_its_count(app_id: str | None, workflow: str | None) -> None:
    budget = Budget(app_id, workflow, "day", "usd", 1)
    whose = "glo bex" if app_id == "*" else app_id

    assert parse_all_time_scope(all_time_id(budget.id, whose)) == BudgetScope(whose, workflow, "day", "usd")


def test_the_busiest_apps_are_named_first() -> None:
    runs = {RunLabels("b", "W", "api", "completed"): 1, RunLabels("c", "W", "api", "completed"): 9}
    totals = [{"app_id": "a", "calls": 2}, {"app_id": "b", "calls": 1}]

    assert apps_by_use(runs, UsageChange(1, totals=totals, waiting=[row(1, app="b")])) == ["c", "b", "a"]
