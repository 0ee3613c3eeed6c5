"""Prometheus metrics out of a snapshot."""

import time
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from accounting.billing.outbox import OutboxState
from ops.exporter.budget_metrics import budget_families
from ops.exporter.families import Counters, Counts, Labels, gauge, gauge_by
from ops.exporter.ledger import LedgerState
from ops.exporter.snapshot import Snapshot
from ops.exporter.triggers import Triggers
from ops.exporter.usage_metrics import usage_families
from workers.store.queue_counts import Queue


class StoreCollector(Collector):
    """Serves the newest snapshot; before the first one there is nothing rather than zeros."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._counters = Counters()
        self._families: Sequence[Metric] = ()
        self._healthy = False
        self._clock = clock

    def show(self, snapshot: Snapshot, *, took_s: float) -> None:
        self._families = [
            *self._of_exporter(took_s),
            *self._runs(snapshot),
            *usage_families(snapshot.usage, snapshot.apps, self._counters),
            *_queue(snapshot.queue),
            *_for_person(snapshot),
            *_triggers(snapshot.triggers),
            *budget_families(snapshot.budgets, snapshot.apps, self._counters),
            *_ledger(snapshot.ledger),
            *_outbox(snapshot.outbox),
        ]
        self._healthy = True

    def stale(self) -> None:
        """The store did not answer: the last numbers stay, and a gauge says that they are old."""
        self._healthy = False

    def collect(self) -> Iterator[Metric]:
        yield gauge("unattended_exporter_store_up", "1 while the numbers are fresh from the store", int(self._healthy))
        yield from self._families

    def _of_exporter(self, took_s: float) -> Iterator[Metric]:
        when = "When the numbers were last read from the store, as Unix time"
        yield gauge("unattended_exporter_last_success_timestamp_seconds", when, self._clock())
        yield gauge("unattended_exporter_read_seconds", "How long it took to read the store", took_s)

    def _runs(self, snapshot: Snapshot) -> Iterator[Metric]:
        counts: dict[Labels, float] = {}
        stranded: dict[Labels, float] = {}
        for run, count in snapshot.runs.items():
            labels = (snapshot.apps.label(run.app), run.workflow, run.trigger)
            counts[*labels, run.outcome] = counts.get((*labels, run.outcome), 0) + count
            if run.stranded:
                stranded[labels] = stranded.get(labels, 0) + count
        names = ("app", "workflow", "trigger")
        yield self._counters.family("unattended_runs", "Runs that ended or parked", (*names, "outcome"), counts)
        text = "Runs that ended after an agent none of whose conditions held in the run"
        yield self._counters.family("unattended_runs_stranded", text, names, stranded)


def _queue(queue: Queue) -> Iterator[Metric]:
    by_hold: Counts = {(hold,): count for hold, count in queue.queued.items()}
    yield gauge_by("unattended_runs_queued", "Runs that wait and are due", ["hold"], by_hold)
    yield gauge("unattended_runs_in_progress", "Runs a worker holds", queue.in_progress)
    yield gauge("unattended_runs_parked", "Runs at rest after their attempts", queue.parked)
    waited = "How long a run that may start has waited for a worker, at most"
    yield gauge("unattended_oldest_queued_age_seconds", waited, queue.oldest_queued_age_s)


def _for_person(snapshot: Snapshot) -> Iterator[Metric]:
    """Apps without a label of their own together: all of their runs, and the age of the oldest."""
    counts: dict[Labels, float] = {}
    ages: dict[Labels, float] = {}
    for owner, waiting in snapshot.queue.for_person.items():
        labels = (snapshot.apps.label(owner.app), owner.workflow)
        counts[labels] = counts.get(labels, 0) + waiting.count
        ages[labels] = max(ages.get(labels, 0.0), waiting.oldest_age_s)
    names = ("app", "workflow")
    yield gauge_by("unattended_runs_waiting_for_person", "Runs that wait for a person's answer", names, counts)
    oldest = "How long the oldest of those runs has waited for its answer"
    yield gauge_by("unattended_oldest_waiting_for_person_age_seconds", oldest, names, ages)


def _triggers(triggers: Triggers) -> Iterator[Metric]:
    paused = "Pauses of triggers that nobody has ended, those of single apps too"
    by_reason: Counts = {(reason,): count for reason, count in triggers.paused.items()}
    yield gauge_by("unattended_triggers_paused", paused, ["reason"], by_reason)
    made = "Triggers made at run time; those of packages are in no store"
    by_type: Counts = {(kind,): count for kind, count in triggers.made_at_run_time.items()}
    yield gauge_by("unattended_triggers_made", made, ["type"], by_type)
    overdue = "For how long the schedule that should have fired first has been due"
    yield gauge("unattended_schedule_overdue_seconds", overdue, triggers.overdue_s)


def _ledger(ledger: LedgerState) -> Iterator[Metric]:
    going_on = "Model calls that are being made, and those of lost workers until they are given up"
    yield gauge("unattended_model_calls_open", going_on, ledger.open_calls)
    waiting = "Ledger rows that the totals have not been given yet; what is shown as usage has them"
    yield gauge("unattended_usage_rows_waiting", waiting, ledger.waiting)
    oldest = "Since when the first of those rows waits, from the beginning of its call"
    yield gauge("unattended_usage_oldest_waiting_seconds", oldest, ledger.oldest_waiting_s)


def _outbox(outbox: OutboxState) -> Iterator[Metric]:
    yield gauge("unattended_billing_batches_pending", "Billing batches that are not delivered yet", outbox.pending)
    dead = "Billing batches that nobody took, and that are kept until somebody replays or drops them"
    yield gauge("unattended_billing_batches_dead", dead, outbox.dead)
    oldest = "Age of the oldest billing batch that is not delivered yet"
    yield gauge("unattended_billing_oldest_pending_seconds", oldest, outbox.oldest_pending_age_s)
