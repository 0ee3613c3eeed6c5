"""The scheduler role: ticks, and reconciles beside it. Any number of copies may run."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry

from triggers.role import TriggerGround, trigger_ground
from triggers.schedule.metrics import ScheduleMetrics
from triggers.schedule.scheduler import Scheduler
from triggers.schedule.store import ScheduleStore
from triggers.service_loop import repeat, stopped_by_signals
from workers.metrics_server import serve_metrics
from workers.reconciling.reconciler import Reconciler
from workers.settings import Settings

log = logging.getLogger(__name__)

RECONCILE_INTERVAL_S = 1.0


async def serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT; what is under way is finished first."""
    registry = CollectorRegistry()
    metrics = ScheduleMetrics(registry)
    with stopped_by_signals() as stop:
        async with trigger_ground(settings) as ground:
            scheduler = await _scheduler(ground, metrics)
            reconcile = _reconcile_step(ground, metrics)
            server = serve_metrics(registry, settings.metrics_listen)
            log.info(
                "scheduler_ready", extra={"metrics": str(server.address), "packages": len(ground.catalog.packages())}
            )
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(repeat(scheduler.tick, what="tick", stop=stop))
                    tasks.create_task(repeat(reconcile, what="reconcile", stop=stop))
            finally:
                await asyncio.to_thread(server.close)


async def _scheduler(ground: TriggerGround, metrics: ScheduleMetrics) -> Scheduler:
    store = ScheduleStore(ground.database)
    await store.ensure_indexes()
    return Scheduler(
        store,
        runs=ground.store,
        acceptance=ground.acceptance,
        packages=ground.catalog.packages,
        metrics=metrics,
    )


def _reconcile_step(ground: TriggerGround, metrics: ScheduleMetrics) -> Callable[[], Awaitable[float]]:
    reconciler = Reconciler(ground.store, ground.wakeups, ground.settings.republish_after_s)

    async def step() -> float:
        metrics.reconciled(await reconciler.run_pass())
        return RECONCILE_INTERVAL_S

    return step
