"""The exporter role: one scrape target for the cluster, refreshed from the store at an interval."""

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

REFRESH_INTERVAL_S = 5.0  # numbers are at most this old plus one query; scrapes do not query the store


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; `settings` needs the addresses of both servers."""
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
            duration_s = time.monotonic() - began
            collector.publish(snapshot, duration_s=duration_s)
        except PyMongoError:
            collector.mark_stale()
            raise
        finally:
            await asyncio.to_thread(page.renew)
        return max(REFRESH_INTERVAL_S, duration_s)  # query a slow store less often

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
