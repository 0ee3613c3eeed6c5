"""The watcher role: reads change streams.

Any number of copies may run; each stream is read by one of them.
"""

import asyncio
import gc
import logging
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry
from ulid import ULID

from triggers.change_stream.resume_token_store import StreamStore
from triggers.change_stream.run_starter import RunStarter
from triggers.change_stream.stream_metrics import StreamMetrics
from triggers.change_stream.stream_reader import StreamReader, Subscription
from triggers.change_stream.stream_source import StreamSource
from triggers.change_stream.stream_status import oplog_window_s
from triggers.change_stream.watched_triggers import KnownPauses, WatchedTriggers
from triggers.change_stream.watcher import Pace, RefreshTriggers, StreamReaderFactory, SubscriptionBuilder, Watcher
from triggers.role_context import RoleContext, open_role_context
from triggers.service_loop import repeat, stop_on_signals
from workers.process.metrics_server import serve_metrics
from workers.process.role_health import StepWatch, role_health
from workers.settings import Settings
from workflows.package.normal_form.package_model import Package

log = logging.getLogger(__name__)

OPLOG_INTERVAL_S = 15.0


def tune_gc() -> None:
    """Collects rarely: events leave no cycles, and the search took 20 % CPU."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


async def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT. Positions are saved and leases released first."""
    registry = CollectorRegistry()
    metrics = StreamMetrics(registry)
    with stop_on_signals() as stop:
        async with open_role_context(settings, role="watcher") as context:
            watcher = build_watcher(context, metrics, packages=context.catalog.packages)
            steps = StepWatch("look")
            health = role_health(steps, watcher.overdue_streams)
            server = serve_metrics(registry, settings.metrics_listen, health)
            tune_gc()
            log.info(
                "watcher_ready", extra={"metrics": str(server.address), "packages": len(context.catalog.packages())}
            )
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(
                        repeat(partial(_measure_oplog_window, context, metrics), step_name="oplog", stop=stop)
                    )
                    tasks.create_task(context.stats.write_periodically(stop))
                    tasks.create_task(watcher.run(stop, watch_step=partial(steps.watch, "look")))
            finally:
                await asyncio.to_thread(server.close)


async def _measure_oplog_window(context: RoleContext, metrics: StreamMetrics) -> float:
    window_s = await oplog_window_s(context.database.client)
    if window_s is not None:
        metrics.set_oplog_window(window_s)
    return OPLOG_INTERVAL_S


def build_watcher(
    context: RoleContext,
    metrics: StreamMetrics,
    *,
    packages: Callable[[], Mapping[str, Package]],
    pace: Pace | None = None,
) -> Watcher:
    pace = pace or Pace()
    pauses = KnownPauses()
    starter = RunStarter(context.store, context.acceptance, metrics, stats=context.stats, pauses=pauses)
    own_database = context.settings.database
    watched_triggers = WatchedTriggers(packages, context.triggers, pauses, own_database=own_database)
    return Watcher(
        watched_triggers,
        subscriptions_for=SubscriptionBuilder(starter, context.store),
        stream_reader_for=stream_reader_factory(context, metrics, pace),
        pace=pace,
    )


def stream_reader_factory(context: RoleContext, metrics: StreamMetrics, pace: Pace) -> StreamReaderFactory:
    lease_s = context.settings.lease_s / 2  # a short lease: the next owner of a stream repeats little
    store = StreamStore(context.database, owner=f"{socket.gethostname()}:{os.getpid()}:{ULID()}", lease_s=lease_s)

    def create_reader(subscription: Subscription, refresh_triggers: RefreshTriggers) -> StreamReader:
        source = StreamSource(context.database.client, subscription.plan.database, max_await_ms=pace.max_await_ms)
        return StreamReader(
            subscription,
            source=source,
            store=store,
            metrics=metrics,
            lease_s=lease_s,
            refresh_triggers=refresh_triggers,
        )

    return create_reader
