"""The scheduler role: ticks, reconciles runs and posts billing batches.

Any number of copies may run.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from pymongo.asynchronous.database import AsyncDatabase

from accounting.billing.outbox import Outbox
from triggers.budget_pauses import BudgetPauser
from triggers.role_context import RoleContext, open_role_context
from triggers.schedule.schedule_metrics import ScheduleMetrics
from triggers.schedule.schedule_store import ScheduleRepair
from triggers.schedule.scheduler import Scheduler
from triggers.schedule.store_clock import StoreClock
from triggers.service_loop import repeat, stop_on_signals
from workers.broker.queue_depth import QueueDepth
from workers.celery import app
from workers.process.metrics_server import serve_metrics
from workers.process.role_health import StepWatch, role_health
from workers.reconciler.reconcile_metrics import ReconcileMetrics
from workers.reconciler.reconciler import Reconciler
from workers.settings import Settings

log = logging.getLogger(__name__)

RECONCILE_INTERVAL_S = 1.0
MAX_IN_FLIGHT = 4  # billing batches


async def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT. Work in progress is finished first."""
    registry = CollectorRegistry()
    with stop_on_signals() as stop:
        async with open_role_context(settings, role="scheduler") as context:
            clock = StoreClock(context.database)
            await clock.sync()
            scheduler = Scheduler(context, metrics=ScheduleMetrics(registry), clock=clock)
            await scheduler.ensure_indexes()
            reconcile = _reconcile_step(context, registry)
            repair = ScheduleRepair(context.database, clock=clock)
            steps = StepWatch("tick", "reconcile")
            server = serve_metrics(registry, settings.metrics_listen, role_health(steps))
            log.info(
                "scheduler_ready", extra={"metrics": str(server.address), "packages": len(context.catalog.packages())}
            )
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(repeat(steps.watch("tick", scheduler.tick), step_name="tick", stop=stop))
                    tasks.create_task(repeat(steps.watch("reconcile", reconcile), step_name="reconcile", stop=stop))
                    tasks.create_task(repeat(clock.sync, step_name="sync the clock", stop=stop))
                    tasks.create_task(repeat(repair.repair_next_batch, step_name="repair schedules", stop=stop))
                    budget_pauser = BudgetPauser(context)
                    tasks.create_task(repeat(budget_pauser.update_pauses, step_name="pause by budget", stop=stop))
                    tasks.create_task(post_bills(context.database, settings, stop=stop))
                await scheduler.stop()
            finally:
                await asyncio.to_thread(server.close)


def _reconcile_step(context: RoleContext, registry: CollectorRegistry) -> Callable[[], Awaitable[float]]:
    reconciler = Reconciler(
        context.store,
        context.settings,
        wakeups=context.wakeups,
        tickets=QueueDepth(app, context.wakeups),
        metrics=ReconcileMetrics(registry),
    )

    async def step() -> float:
        began = time.monotonic()
        await reconciler.run_pass()
        return max(RECONCILE_INTERVAL_S - (time.monotonic() - began), 0)

    return step


async def post_bills(database: AsyncDatabase[dict[str, Any]], settings: Settings, *, stop: asyncio.Event) -> None:
    if settings.billing_url is None:
        return
    # Imported here: only deployments with billing need these libraries.
    from accounting.billing.delivery_backoff import DeliveryBackoff
    from accounting.billing.endpoint_health import EndpointHealth
    from accounting.billing.http_post import create_http_client
    from accounting.billing.sender import BillingSender

    def billing_secrets() -> Sequence[str]:
        return [settings.resolve_secret(reference) for reference in sorted(settings.billing_secret)]

    outbox, backoff = Outbox(database), DeliveryBackoff()
    await outbox.ensure_indexes()
    async with create_http_client() as http, asyncio.TaskGroup() as tasks:
        endpoint = EndpointHealth(database, settings.billing_url, backoff)
        sender = BillingSender(outbox, endpoint, http, secrets=billing_secrets, backoff=backoff, stop=stop)
        for _ in range(MAX_IN_FLIGHT):
            tasks.create_task(repeat(sender.post_next, step_name="post billing batches", stop=stop))
