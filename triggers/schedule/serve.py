"""The scheduler role: ticks, and beside it reconciles and posts bills. Any number of copies may run."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry

from triggers.budget_pausing import BudgetPausing
from triggers.role import TriggerGround, trigger_ground
from triggers.schedule.billing import bill
from triggers.schedule.clock import StoreClock
from triggers.schedule.mending import Mender
from triggers.schedule.metrics import ScheduleMetrics
from triggers.schedule.scheduler import Scheduler
from triggers.service_loop import repeat, stopped_by_signals
from workers.celery import app
from workers.process.health import Steps, role_health
from workers.process.metrics_server import serve_metrics
from workers.reconciling.metrics import ReconcileMetrics
from workers.reconciling.reconciler import Reconciler
from workers.reconciling.tickets import BrokerTickets
from workers.settings import Settings

log = logging.getLogger(__name__)

RECONCILE_INTERVAL_S = 1.0


async def serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT; what is under way is finished first."""
    registry = CollectorRegistry()
    with stopped_by_signals() as stop:
        async with trigger_ground(settings, role="scheduler") as ground:
            clock = StoreClock(ground.database)
            await clock.look()
            scheduler = Scheduler(ground, metrics=ScheduleMetrics(registry), clock=clock)
            await scheduler.ensure_indexes()
            reconcile = _reconcile_step(ground, registry)
            mender = Mender(ground.database, clock=clock)
            steps = Steps("tick", "reconcile")
            server = serve_metrics(registry, settings.metrics_listen, role_health(steps))
            log.info(
                "scheduler_ready", extra={"metrics": str(server.address), "packages": len(ground.catalog.packages())}
            )
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(repeat(steps.watched("tick", scheduler.tick), what="tick", stop=stop))
                    tasks.create_task(repeat(steps.watched("reconcile", reconcile), what="reconcile", stop=stop))
                    tasks.create_task(repeat(clock.look, what="look at the clock", stop=stop))
                    tasks.create_task(repeat(mender.look, what="mend schedules", stop=stop))
                    pausing = BudgetPausing(ground)
                    tasks.create_task(repeat(pausing.look, what="pause by budget", stop=stop))
                    tasks.create_task(bill(ground.database, settings, stop=stop))
                await scheduler.stop()
            finally:
                await asyncio.to_thread(server.close)


def _reconcile_step(ground: TriggerGround, registry: CollectorRegistry) -> Callable[[], Awaitable[float]]:
    reconciler = Reconciler(
        ground.store,
        ground.settings,
        wakeups=ground.wakeups,
        tickets=BrokerTickets(app, ground.wakeups),
        metrics=ReconcileMetrics(registry),
    )

    async def step() -> float:
        began = time.monotonic()
        await reconciler.run_pass()
        return max(RECONCILE_INTERVAL_S - (time.monotonic() - began), 0)

    return step
