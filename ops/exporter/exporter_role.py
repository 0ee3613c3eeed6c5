"""The exporter role: one scrape target for the whole cluster, refreshed from the store on its own clock."""

import asyncio
import logging
import time

from pymongo.errors import PyMongoError

from ops.exporter.exporter_metrics import StoreCollector
from ops.exporter.metrics_page import MetricsPage
from ops.exporter.store_snapshot import SnapshotReader
from triggers.service_loop import repeat, stop_on_signals
from workers.process.metrics_server import MetricsServer, serve_at
from workers.process.role_health import Health, StepWatch, role_health
from workers.setting_values import Address
from workers.settings import Settings, SettingsError
from workers.store.run_store import connect

log = logging.getLogger(__name__)

REFRESH_INTERVAL_S = 5.0  # scrapes cost the store nothing; numbers are at most this old plus one query


async def serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. `settings` has both server addresses."""
    collector = StoreCollector()
    page = MetricsPage(collector)
    steps = StepWatch("snapshot")
    server = _start_server(page, settings.metrics_listen, role_health(steps))
    database = connect(settings.mongodb_url or "", database=settings.database)
    snapshots = SnapshotReader(database, max_app_labels=settings.max_app_labels)

    async def refresh() -> float:
        began = time.monotonic()
        try:
            snapshot = await snapshots.read()
            took_s = time.monotonic() - began
            collector.publish(snapshot, duration_s=took_s)
        except PyMongoError:
            collector.mark_stale()
            raise
        finally:
            await asyncio.to_thread(page.renew)
        return max(REFRESH_INTERVAL_S, took_s)  # a store that is slow already is asked less often

    try:
        with stop_on_signals() as stop:
            log.info("exporter_ready", extra={"metrics": f"http://{server.address}/metrics"})
            await repeat(steps.watch("snapshot", refresh), step_name="snapshot", stop=stop)
    finally:
        await asyncio.to_thread(server.close)
        await database.client.close()


def _start_server(page: MetricsPage, address: Address, health: Health) -> MetricsServer:
    try:
        return serve_at(page, address, health)
    except OSError:
        advice = "stop it or set UNATTENDED_METRICS_LISTEN"
        raise SettingsError(f"{address} is taken by another process; {advice}") from None
