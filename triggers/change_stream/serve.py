"""The watcher role: reads change streams. Any number of copies may run; each stream is read by one of them."""

import asyncio
import gc
import logging
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry
from ulid import ULID

from triggers.change_stream.keeper import Keeper, Reader
from triggers.change_stream.known import KnownTriggers
from triggers.change_stream.metrics import StreamMetrics
from triggers.change_stream.oplog import oplog_window_s
from triggers.change_stream.readers import Readers
from triggers.change_stream.source import Source
from triggers.change_stream.starting import Pauses, Starting
from triggers.change_stream.store import StreamStore
from triggers.change_stream.watcher import KeeperFor, Pace, Watcher
from triggers.role import TriggerGround, trigger_ground
from triggers.service_loop import repeat, stopped_by_signals
from workers.process.health import Steps, role_health
from workers.process.metrics_server import serve_metrics
from workers.settings import Settings
from workflows.package.models import Package

log = logging.getLogger(__name__)

OPLOG_INTERVAL_S = 15.0


def tune_gc() -> None:
    """Events come and go by the thousand and leave no cycles behind: looking for some took a fifth of the CPU."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


async def serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT; positions are saved and leases given back first."""
    registry = CollectorRegistry()
    metrics = StreamMetrics(registry)
    with stopped_by_signals() as stop:
        async with trigger_ground(settings, role="watcher") as ground:
            watcher = watcher_on(ground, metrics, packages=ground.catalog.packages)
            steps = Steps("look")
            health = role_health(steps, watcher.late_streams)
            server = serve_metrics(registry, settings.metrics_listen, health)
            tune_gc()
            log.info(
                "watcher_ready", extra={"metrics": str(server.address), "packages": len(ground.catalog.packages())}
            )
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(repeat(partial(_look_at_oplog, ground, metrics), what="oplog", stop=stop))
                    tasks.create_task(ground.tally.keep_written(stop))
                    tasks.create_task(watcher.run(stop, watched=partial(steps.watched, "look")))
            finally:
                await asyncio.to_thread(server.close)


async def _look_at_oplog(ground: TriggerGround, metrics: StreamMetrics) -> float:
    window_s = await oplog_window_s(ground.database.client)
    if window_s is not None:
        metrics.oplog_window(window_s)
    return OPLOG_INTERVAL_S


def watcher_on(
    ground: TriggerGround,
    metrics: StreamMetrics,
    *,
    packages: Callable[[], Mapping[str, Package]],
    pace: Pace | None = None,
) -> Watcher:
    pace = pace or Pace()
    pauses = Pauses()
    starting = Starting(ground.store, ground.acceptance, metrics, tally=ground.tally, pauses=pauses)
    own_database = ground.settings.database
    known = KnownTriggers(packages, ground.triggers, pauses, own_database=own_database)
    readers, keeper_for = Readers(starting, ground.database), keeper_factory(ground, metrics, pace)
    return Watcher(known, readers_for=readers, keeper_for=keeper_for, pace=pace)


def keeper_factory(ground: TriggerGround, metrics: StreamMetrics, pace: Pace) -> KeeperFor:
    lease_s = ground.settings.lease_s / 2  # a stream's next owner repeats little, so it may come sooner
    store = StreamStore(ground.database, owner=f"{socket.gethostname()}:{os.getpid()}:{ULID()}", lease_s=lease_s)

    def keeper_for(reader: Reader) -> Keeper:
        source = Source(ground.database.client, reader.plan.database, max_await_ms=pace.max_await_ms)
        return Keeper(reader, source=source, store=store, metrics=metrics, lease_s=lease_s)

    return keeper_for
