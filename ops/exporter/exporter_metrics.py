"""The exporter's Prometheus metrics, computed from a snapshot."""

import time
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from accounting.app_labels import AppLabels
from accounting.billing.outbox import OutboxState
from accounting.budgets.budget import display_amount
from accounting.budgets.budget_status import BudgetStatus
from ops.exporter.budget_counts import BudgetCounts, BudgetScope
from ops.exporter.ledger_counts import LedgerCounts
from ops.exporter.metric_families import Counts, Labels, MonotonicCounters, gauge_family, labelled_gauge_family
from ops.exporter.store_snapshot import Snapshot
from ops.exporter.trigger_counts import TriggerCounts
from ops.exporter.usage_metrics import usage_families
from workers.store.queue_counts import QueueCounts

BUDGET_LABELS = ("app", "workflow", "window", "unit")
ALL_APPS_LABEL = ALL_WORKFLOWS_LABEL = ""  # of a budget for all of them together


class StoreCollector(Collector):
    """Serves the newest snapshot; before the first one it serves no metrics rather than zeros."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._counters = MonotonicCounters()
        self._families: Sequence[Metric] = ()
        self._is_healthy = False
        self._clock = clock

    def publish(self, snapshot: Snapshot, *, duration_s: float) -> None:
        self._families = [
            *self._exporter_families(duration_s),
            *self._run_families(snapshot),
            *usage_families(snapshot.usage, snapshot.apps, self._counters),
            *_queue_families(snapshot.queue),
            *_person_wait_families(snapshot),
            *_trigger_families(snapshot.triggers),
            *budget_families(snapshot.budgets, snapshot.apps, self._counters),
            *_ledger_families(snapshot.ledger),
            *_outbox_families(snapshot.outbox),
        ]
        self._is_healthy = True

    def mark_stale(self) -> None:
        """Keep the last numbers after a failed read; a gauge marks them as old."""
        self._is_healthy = False

    def collect(self) -> Iterator[Metric]:
        yield gauge_family(
            "unattended_exporter_store_up", "1 while the numbers are fresh from the store", int(self._is_healthy)
        )
        yield from self._families

    def _exporter_families(self, duration_s: float) -> Iterator[Metric]:
        last_success = "Unix time of the last successful read of the store"
        yield gauge_family("unattended_exporter_last_success_timestamp_seconds", last_success, self._clock())
        yield gauge_family("unattended_exporter_read_seconds", "How long it took to read the store", duration_s)

    def _run_families(self, snapshot: Snapshot) -> Iterator[Metric]:
        counts: dict[Labels, float] = {}
        stranded: dict[Labels, float] = {}
        for run, count in snapshot.runs.items():
            labels = (snapshot.apps.label(run.app), run.workflow, run.trigger)
            counts[*labels, run.outcome] = counts.get((*labels, run.outcome), 0) + count
            if run.stranded:
                stranded[labels] = stranded.get(labels, 0) + count
        names = ("app", "workflow", "trigger")
        yield self._counters.family("unattended_runs", "Runs that ended or parked", (*names, "outcome"), counts)
        text = "Runs that ended after an agent whose hand-off conditions were all false"
        yield self._counters.family("unattended_runs_stranded", text, names, stranded)


def _queue_families(queue: QueueCounts) -> Iterator[Metric]:
    by_hold: Counts = {(hold,): count for hold, count in queue.queued.items()}
    yield labelled_gauge_family("unattended_runs_queued", "Runs that wait and are due", ["hold"], by_hold)
    yield gauge_family("unattended_runs_in_progress", "Runs that a worker owns", queue.in_progress)
    yield gauge_family("unattended_runs_parked", "Runs that used up their attempts", queue.parked)
    waited = "Age of the oldest run that may start and waits for a worker"
    yield gauge_family("unattended_oldest_queued_age_seconds", waited, queue.oldest_queued_age_s)


def _person_wait_families(snapshot: Snapshot) -> Iterator[Metric]:
    """Merge apps that share a label: the sum of their runs, and the age of the oldest."""
    counts: dict[Labels, float] = {}
    ages: dict[Labels, float] = {}
    for owner, waiting in snapshot.queue.waiting_for_person.items():
        labels = (snapshot.apps.label(owner.app), owner.workflow)
        counts[labels] = counts.get(labels, 0) + waiting.count
        ages[labels] = max(ages.get(labels, 0.0), waiting.oldest_age_s)
    names = ("app", "workflow")
    yield labelled_gauge_family(
        "unattended_runs_waiting_for_person", "Runs that wait for a person's answer", names, counts
    )
    oldest = "How long the oldest of those runs has waited for its answer"
    yield labelled_gauge_family("unattended_oldest_waiting_for_person_age_seconds", oldest, names, ages)


def _trigger_families(triggers: TriggerCounts) -> Iterator[Metric]:
    paused = "Pauses of triggers that are in effect, those of single apps included"
    by_reason: Counts = {(reason,): count for reason, count in triggers.paused.items()}
    yield labelled_gauge_family("unattended_triggers_paused", paused, ["reason"], by_reason)
    created = "Triggers created at run time; those of packages are not stored"
    by_type: Counts = {(kind,): count for kind, count in triggers.created_at_run_time.items()}
    yield labelled_gauge_family("unattended_triggers_made", created, ["type"], by_type)
    overdue = "How long the most overdue schedule has been due"
    yield gauge_family("unattended_schedule_overdue_seconds", overdue, triggers.overdue_s)


def _ledger_families(ledger: LedgerCounts) -> Iterator[Metric]:
    in_progress = "Model calls in progress, and those of lost workers until they are closed"
    yield gauge_family("unattended_model_calls_open", in_progress, ledger.open_calls)
    waiting = "Ledger rows that are not added to the totals yet; usage metrics include them"
    yield gauge_family("unattended_usage_rows_waiting", waiting, ledger.waiting_rows)
    oldest = "Age of the oldest of those rows, from the beginning of its call"
    yield gauge_family("unattended_usage_oldest_waiting_seconds", oldest, ledger.oldest_waiting_s)


def _outbox_families(outbox: OutboxState) -> Iterator[Metric]:
    yield gauge_family(
        "unattended_billing_batches_pending", "Billing batches that are not delivered yet", outbox.pending
    )
    dead = "Billing batches that the endpoint did not accept, kept until an operator replays or drops them"
    yield gauge_family("unattended_billing_batches_dead", dead, outbox.dead)
    oldest = "Age of the oldest billing batch that is not delivered yet"
    yield gauge_family("unattended_billing_oldest_pending_seconds", oldest, outbox.oldest_pending_age_s)


def budget_families(budgets: BudgetCounts, apps: AppLabels, counters: MonotonicCounters) -> Iterator[Metric]:
    fullest: dict[Labels, BudgetStatus] = {}
    for status in budgets.statuses:
        budget = status.budget
        labels = _budget_labels(BudgetScope(status.app_id, budget.workflow, budget.window, budget.unit), apps)
        previous = fullest.get(labels)
        if previous is None or (status.share, -status.remaining) > (previous.share, -previous.remaining):
            fullest[labels] = status
    rejections: dict[Labels, float] = {}
    for scope, count in budgets.rejections.items():
        labels = _budget_labels(scope, apps)
        rejections[labels] = rejections.get(labels, 0) + count
    limits = {labels: display_amount(status.budget.unit, status.limit) for labels, status in fullest.items()}
    used = {
        labels: display_amount(status.budget.unit, status.spent)
        for labels, status in fullest.items()
        if status.start is not None
    }
    limit_text = "Limit of a budget in its window; of budgets with the same labels, the fullest"
    yield labelled_gauge_family("unattended_budget_limit", limit_text, BUDGET_LABELS, limits)
    used_text = "Amount spent in the present window of the same budget; a budget per run has none"
    yield labelled_gauge_family("unattended_budget_used", used_text, BUDGET_LABELS, used)
    rejected = "Runs that a budget held or refused, and calls that it refused"
    yield counters.family("unattended_budget_rejections", rejected, BUDGET_LABELS, rejections)


def _budget_labels(scope: BudgetScope, apps: AppLabels) -> Labels:
    app = ALL_APPS_LABEL if scope.app_id is None else apps.label(scope.app_id)
    return app, scope.workflow or ALL_WORKFLOWS_LABEL, scope.window, scope.unit
