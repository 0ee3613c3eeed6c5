"""A snapshot of the store, which the exporter serves as a whole until the next one.

Runs and usage are read at one point in time. The first snapshot reads all totals and all ended runs; each later one
reads only what has changed, whatever the size of the store.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

from accounting.app_labels import AppLabels, AppLabelStore
from accounting.billing.outbox import OutboxState, read_outbox_state
from accounting.infra.snapshot_read import snapshot_read
from accounting.usage import UsageTotals
from ops.exporter.budget_counts import BudgetCounts, read_budget_counts
from ops.exporter.ledger_counts import LedgerCounts, read_ledger_counts
from ops.exporter.trigger_counts import TriggerCounts, read_trigger_counts
from ops.exporter.usage_counts import UsageChange, UsageCounts
from workers.store.ended_counts import EndedRunCounter, RunLabels
from workers.store.queue_counts import QueueCounts, QueueReader

SnapshotCounts = tuple[Mapping[RunLabels, int], UsageChange, QueueCounts]


@dataclass(frozen=True, slots=True)
class Snapshot:
    runs: Mapping[RunLabels, int] = field(default_factory=dict)
    usage: Sequence[UsageTotals] = ()
    queue: QueueCounts = field(default_factory=QueueCounts)
    triggers: TriggerCounts = field(default_factory=TriggerCounts)
    ledger: LedgerCounts = field(default_factory=LedgerCounts)
    budgets: BudgetCounts = field(default_factory=BudgetCounts)
    outbox: OutboxState = field(default_factory=lambda: OutboxState(pending=0, dead=0, oldest_pending_age_s=0.0))
    apps: AppLabels = field(default_factory=AppLabels)


class SnapshotReader:
    def __init__(self, database: AsyncDatabase[dict[str, Any]], *, max_app_labels: int = 100) -> None:
        self._database = database
        self._ended_runs = EndedRunCounter(database)
        self._usage = UsageCounts(database)
        self._apps = AppLabelStore(database, max_apps=max_app_labels)

    async def read(self) -> Snapshot:
        runs, change, queue = await snapshot_read(self._database, self._read_counts)
        budgets = await read_budget_counts(self._database)
        limited_apps = [status.app_id for status in budgets.statuses if status.app_id is not None]
        waiting_apps = [owner.app for owner in queue.waiting_for_person]
        apps = await self._apps.register([*apps_by_use(runs, change), *limited_apps, *waiting_apps])
        return Snapshot(
            runs=runs,
            usage=self._usage.apply_change(change, apps),
            queue=queue,
            triggers=await read_trigger_counts(self._database),
            ledger=await read_ledger_counts(self._database),
            budgets=budgets,
            outbox=await read_outbox_state(self._database),
            apps=apps,
        )

    async def _read_counts(self, session: AsyncClientSession) -> SnapshotCounts:
        now = await self._read_store_time()
        runs = await self._ended_runs.count(session, now)
        queue = await QueueReader(self._database, session, now).read()
        return runs, await self._usage.read_change(session), queue

    async def _read_store_time(self) -> datetime:
        now: datetime = (await self._database.client.admin.command("hello"))["localTime"]
        return now.replace(tzinfo=UTC)


def apps_by_use(runs: Mapping[RunLabels, int], change: UsageChange) -> Sequence[str]:
    """Order apps by use, so that the largest ones get the labels that are left."""
    by_app: Counter[str] = Counter()
    for labels, count in runs.items():
        by_app[labels.app] += count
    for app, calls in change.calls_by_app():
        by_app[app] += calls
    return sorted(by_app, key=lambda app: (-by_app[app], app))
