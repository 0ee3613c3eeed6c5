"""A snapshot of the store: what the exporter shows until the next one, always whole, never half new.

What is counted, runs and usage, is of one moment. The first snapshot reads all totals and all ended runs. Each later
one costs what has changed since, so that it does not matter how much is in the store.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

from accounting.app_labels import AppLabels, NamedApps
from accounting.billing.outbox import OutboxState, outbox_state
from accounting.one_moment import at_one_moment
from accounting.usage import UsageTotals
from ops.exporter.budgets import BudgetLook, look_at_budgets
from ops.exporter.ledger import LedgerState, look_at_ledger
from ops.exporter.triggers import Triggers, look_at_triggers
from ops.exporter.usage import Change, UsageCounts
from workers.store.ended_counts import EndedRuns, RunLabels
from workers.store.queue_counts import Queue, QueueLook

Counted = tuple[Mapping[RunLabels, int], Change, Queue]


@dataclass(frozen=True, slots=True)
class Snapshot:
    runs: Mapping[RunLabels, int] = field(default_factory=dict)
    usage: Sequence[UsageTotals] = ()
    queue: Queue = field(default_factory=Queue)
    triggers: Triggers = field(default_factory=Triggers)
    ledger: LedgerState = field(default_factory=LedgerState)
    budgets: BudgetLook = field(default_factory=BudgetLook)
    outbox: OutboxState = field(default_factory=lambda: OutboxState(pending=0, dead=0, oldest_pending_age_s=0.0))
    apps: AppLabels = field(default_factory=AppLabels)


class Snapshots:
    def __init__(self, database: AsyncDatabase[dict[str, Any]], *, max_app_labels: int = 100) -> None:
        self._database = database
        self._ended = EndedRuns(database)
        self._usage = UsageCounts(database)
        self._apps = NamedApps(database, most=max_app_labels)

    async def take(self) -> Snapshot:
        runs, change, queue = await at_one_moment(self._database, self._counted)
        budgets = await look_at_budgets(self._database)
        limited = [each.app_id for each in budgets.standings if each.app_id is not None]
        waiting = [owner.app for owner in queue.for_person]
        apps = await self._apps.learn([*busiest_first(runs, change), *limited, *waiting])
        return Snapshot(
            runs=runs,
            usage=self._usage.take(change, apps),
            queue=queue,
            triggers=await look_at_triggers(self._database),
            ledger=await look_at_ledger(self._database),
            budgets=budgets,
            outbox=await outbox_state(self._database),
            apps=apps,
        )

    async def _counted(self, session: AsyncClientSession) -> Counted:
        now = await self._store_time()
        runs = await self._ended.look(session, now)
        queue = await QueueLook(self._database, session, now).look()
        return runs, await self._usage.look(session), queue

    async def _store_time(self) -> datetime:
        now: datetime = (await self._database.client.admin.command("hello"))["localTime"]
        return now.replace(tzinfo=UTC)


def busiest_first(runs: Mapping[RunLabels, int], change: Change) -> Sequence[str]:
    """Where more apps are new at once than there are labels left, the small ones go without."""
    by_app: Counter[str] = Counter()
    for labels, count in runs.items():
        by_app[labels.app] += count
    for app, calls in change.calls_by_app():
        by_app[app] += calls
    return sorted(by_app, key=lambda app: (-by_app[app], app))
