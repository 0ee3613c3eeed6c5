"""The watcher role: reads change streams. Any number of copies may run; each stream is read by one of them."""

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from functools import partial

from prometheus_client import CollectorRegistry
from ulid import ULID

from triggers.change_stream.intake import Intake
from triggers.change_stream.keeper import Keeper
from triggers.change_stream.metrics import StreamMetrics
from triggers.change_stream.source import Source
from triggers.change_stream.store import StreamStore
from triggers.change_stream.watcher import KeeperFor, Watcher
from triggers.change_stream.watches import Watch
from triggers.role import TriggerGround, trigger_ground
from triggers.service_loop import repeat, stopped_by_signals
from workers.process.health import Steps, role_health
from workers.process.metrics_server import serve_metrics
from workers.settings import Settings

log = logging.getLogger(__name__)

PING_INTERVAL_S = 5.0


async def serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT; positions are saved and leases given back first."""
    registry = CollectorRegistry()
    keeper_metrics = StreamMetrics(registry)
    with stopped_by_signals() as stop:
        async with trigger_ground(settings) as ground:
            watcher = Watcher(
                keeper_factory(ground, keeper_metrics),
                packages=ground.catalog.packages,
                own_database=settings.database,
            )
            steps = Steps("ping")
            server = serve_metrics(registry, settings.metrics_listen, role_health(steps))
            log.info(
                "watcher_ready", extra={"metrics": str(server.address), "packages": len(ground.catalog.packages())}
            )
            try:
                async with asyncio.TaskGroup() as tasks:
                    ping = steps.watched("ping", partial(_ping, ground))
                    tasks.create_task(repeat(ping, what="ping", stop=stop))
                    tasks.create_task(watcher.run(stop))
            finally:
                await asyncio.to_thread(server.close)


async def _ping(ground: TriggerGround) -> float:
    """A quiet stream says nothing for minutes, and a lost MongoDB neither."""
    await ground.database.command("ping")
    return PING_INTERVAL_S


def keeper_factory(ground: TriggerGround, metrics: StreamMetrics) -> KeeperFor:
    lease_s = ground.settings.lease_s / 2  # a stream's next owner repeats little, so it may come sooner
    store = StreamStore(ground.database, owner=f"{socket.gethostname()}:{os.getpid()}:{ULID()}", lease_s=lease_s)
    intake = Intake(ground.acceptance, metrics)

    def keeper_for(database: str, watches: Sequence[Watch]) -> Keeper:
        source = Source(ground.database.client, database)
        return Keeper(database, watches, source=source, store=store, intake=intake, metrics=metrics, lease_s=lease_s)

    return keeper_for
