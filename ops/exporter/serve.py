"""The exporter role: one scrape target for the whole cluster, refreshed from the store on its own clock."""

import asyncio
import logging

from prometheus_client import CollectorRegistry
from pymongo.errors import PyMongoError

from ops.exporter.metrics import StoreCollector
from ops.exporter.snapshot import take_snapshot
from triggers.service_loop import repeat, stopped_by_signals
from workers.process.health import Steps, role_health
from workers.process.metrics_server import serve_at
from workers.settings import Settings, SettingsError
from workers.store.run_store import connect

log = logging.getLogger(__name__)

REFRESH_S = 5.0  # scrapes cost the store nothing; numbers are at most this old plus one query


async def serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. `settings` has both server addresses."""
    collector = StoreCollector(max_app_labels=settings.max_app_labels)
    registry = CollectorRegistry()
    registry.register(collector)
    address, steps = settings.metrics_listen, Steps("snapshot")
    try:
        server = serve_at(registry, address, role_health(steps))
    except OSError:
        advice = "stop it or set UNATTENDED_METRICS_LISTEN"
        raise SettingsError(f"{address} is taken by another process; {advice}") from None
    database = connect(settings.mongodb_url or "", database=settings.database)

    async def refresh() -> float:
        try:
            collector.show(await take_snapshot(database))
        except PyMongoError:
            collector.stale()
            raise
        return REFRESH_S

    try:
        with stopped_by_signals() as stop:
            log.info("exporter_ready", extra={"metrics": f"http://{address}/metrics"})
            await repeat(steps.watched("snapshot", refresh), what="snapshot", stop=stop)
    finally:
        await asyncio.to_thread(server.close)
        await database.client.close()
