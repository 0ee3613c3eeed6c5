"""The exporter role: one scrape target for the whole cluster, refreshed from the store on its own clock."""

import asyncio
import logging
import time

from pymongo.errors import PyMongoError

from ops.exporter.metrics import StoreCollector
from ops.exporter.page import Page
from ops.exporter.snapshot import Snapshots
from triggers.service_loop import repeat, stopped_by_signals
from workers.process.health import Health, Steps, role_health
from workers.process.metrics_server import MetricsServer, serve_at
from workers.setting_values import Address
from workers.settings import Settings, SettingsError
from workers.store.run_store import connect

log = logging.getLogger(__name__)

REFRESH_S = 5.0  # scrapes cost the store nothing; numbers are at most this old plus one query


async def serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. `settings` has both server addresses."""
    collector = StoreCollector()
    page = Page(collector)
    steps = Steps("snapshot")
    server = _listening(page, settings.metrics_listen, role_health(steps))
    database = connect(settings.mongodb_url or "", database=settings.database)
    snapshots = Snapshots(database, max_app_labels=settings.max_app_labels)

    async def refresh() -> float:
        began = time.monotonic()
        try:
            snapshot = await snapshots.take()
            took_s = time.monotonic() - began
            collector.show(snapshot, took_s=took_s)
        except PyMongoError:
            collector.stale()
            raise
        finally:
            await asyncio.to_thread(page.renew)
        return max(REFRESH_S, took_s)  # a store that is slow already is asked less often

    try:
        with stopped_by_signals() as stop:
            log.info("exporter_ready", extra={"metrics": f"http://{server.address}/metrics"})
            await repeat(steps.watched("snapshot", refresh), what="snapshot", stop=stop)
    finally:
        await asyncio.to_thread(server.close)
        await database.client.close()


def _listening(page: Page, address: Address, health: Health) -> MetricsServer:
    try:
        return serve_at(page, address, health)
    except OSError:
        advice = "stop it or set UNATTENDED_METRICS_LISTEN"
        raise SettingsError(f"{address} is taken by another process; {advice}") from None
