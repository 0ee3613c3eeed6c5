"""The reconciler: once a second it repairs what crashed or late processes left behind.

1. `reclaim`: runs with lost workers are queued again, parked after the fifth isolated loss, or end if that was
   requested.
2. `release`: held runs whose limit has room again may start.
3. `mend_budgets`, `release_budgets`: reservations of dead processes are freed, and runs whose budget has room again may
   start.
4. `order`: held runs whose turn has come may start, if the process that should have released them did not.
5. `republish`: due runs are made ready; lost wake-ups are sent again.
6. `add_up`: ledger rows are added to the totals and handed to the billing export.
7. `retain`, `retain_ledger`: runs and ledger rows past their retention time are deleted.

Any number of reconcilers may run: every change is conditional on the values that were read, so one of them makes it and
the others match nothing. Times are the database's clock ($$NOW). Each step does a bounded part and continues in the
next pass, so that no step starves another. A failing step does not stop the others.
"""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from pymongo.errors import PyMongoError

from accounting.billing.outbox import Outbox
from accounting.budgets.budget_reconciler import BudgetReconciler
from accounting.infra.store_errors import is_unavailable
from accounting.ledger.ledger_retention import LedgerRetention
from accounting.totals.roll_up import RollUp
from workers.admission.limit_releases import BudgetReleases, LimitReleases
from workers.reconciler.order_releases import OrderReleases
from workers.reconciler.reclaim import Reclaim
from workers.reconciler.reconcile_metrics import ReconcileMetrics, Step
from workers.reconciler.republish import Republish, Tickets
from workers.reconciler.run_retention import RunRetention
from workers.settings import Settings
from workers.store.run_store import RunStore
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

Counts = Counter[str]
Reconciled = Mapping[Step, Mapping[str, int]]


class Reconciler:
    def __init__(
        self, store: RunStore, settings: Settings, *, wakeups: WakeupSender, tickets: Tickets, metrics: ReconcileMetrics
    ) -> None:
        self._releases = LimitReleases(store, settings.caps, wakeups)
        self._budget_reconciler = BudgetReconciler(store.database)
        self._budget_releases = BudgetReleases(store, wakeups)
        self._order_releases = OrderReleases(store, wakeups)
        self._reclaim = Reclaim(store)
        self._republish = Republish(store, wakeups, tickets, settings.republish_after_s)
        outbox = None if settings.billing_url is None else Outbox(store.database)
        self._roll_up = RollUp(store.database, outbox=outbox)
        self._retention = RunRetention(store, timedelta(days=settings.retention_days.runs))
        self._ledger_retention = LedgerRetention(store.database, timedelta(days=settings.retention_days.ledger))
        self._metrics = metrics

    def _steps(self) -> Mapping[Step, Callable[[Counts], Awaitable[None]]]:
        return {
            "reclaim": self._reclaim.run_pass,
            "release": self._release,
            "mend_budgets": self._budget_reconciler.run_pass,
            "release_budgets": self._budget_releases.run_pass,
            "order": self._order_releases.run_pass,
            "republish": self._republish.run_pass,
            "add_up": self._roll_up.run_pass,
            "retain": self._retention.run_pass,
            "retain_ledger": self._ledger_retention.run_pass,
        }

    async def run_pass(self) -> Reconciled:
        """Runs all steps; returns counts by step and by reason or result.

        Raises PyMongoError while the store is unavailable.
        """
        began = time.monotonic()
        done: dict[Step, Counts] = {}
        well = True
        for name, step in self._steps().items():
            done[name] = Counts()
            try:
                await step(done[name])
            except Exception as error:
                if isinstance(error, PyMongoError) and is_unavailable(error):
                    raise
                log.exception("reconcile_step_failed", extra={"step": name})
                self._metrics.record_failure(name)
                well = False
            finally:
                self._metrics.record_step(name, done[name])
        self._metrics.record_pass(time.monotonic() - began, is_success=well)
        return {name: counts for name, counts in done.items() if counts}

    async def _release(self, counts: Counts) -> None:
        counts.update(await self._releases.run_pass())
