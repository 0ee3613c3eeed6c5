"""The scheduler role: ticks, and beside it reconciles and posts bills. Any number of copies may run."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry

from triggers.budget_pausing import BudgetPauser
from triggers.role import RoleContext, open_role_context
from triggers.schedule.billing import post_bills
from triggers.schedule.clock import StoreClock
from triggers.schedule.mending import ScheduleRepair
from triggers.schedule.metrics import ScheduleMetrics
from triggers.schedule.scheduler import Scheduler
from triggers.service_loop import repeat, stop_on_signals
from workers.celery import app
from workers.process.health import StepWatch, role_health
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
    with stop_on_signals() as stop:
        async with open_role_context(settings, role="scheduler") as ground:
            clock = StoreClock(ground.database)
            await clock.sync()
            scheduler = Scheduler(ground, metrics=ScheduleMetrics(registry), clock=clock)
            await scheduler.ensure_indexes()
            reconcile = _reconcile_step(ground, registry)
            mender = ScheduleRepair(ground.database, clock=clock)
            steps = StepWatch("tick", "reconcile")
            server = serve_metrics(registry, settings.metrics_listen, role_health(steps))
            log.info(
                "scheduler_ready", extra={"metrics": str(server.address), "packages": len(ground.catalog.packages())}
            )
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(repeat(steps.watch("tick", scheduler.tick), step_name="tick", stop=stop))
                    tasks.create_task(repeat(steps.watch("reconcile", reconcile), step_name="reconcile", stop=stop))
                    tasks.create_task(repeat(clock.sync, step_name="look at the clock", stop=stop))
                    tasks.create_task(repeat(mender.repair_next_batch, step_name="mend schedules", stop=stop))
                    pausing = BudgetPauser(ground)
                    tasks.create_task(repeat(pausing.update_pauses, step_name="pause by budget", stop=stop))
                    tasks.create_task(post_bills(ground.database, settings, stop=stop))
                await scheduler.stop()
            finally:
                await asyncio.to_thread(server.close)


def _reconcile_step(context: RoleContext, registry: CollectorRegistry) -> Callable[[], Awaitable[float]]:
    reconciler = Reconciler(
        context.store,
        context.settings,
        wakeups=context.wakeups,
        tickets=BrokerTickets(app, context.wakeups),
        metrics=ReconcileMetrics(registry),
    )

    async def step() -> float:
        began = time.monotonic()
        await reconciler.run_pass()
        return max(RECONCILE_INTERVAL_S - (time.monotonic() - began), 0)

    return step
