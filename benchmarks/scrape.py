"""What a scrape of many apps costs: the page, its size, and the exporter's looks at the store behind it.

    .venv/bin/python benchmarks/scrape.py [--rows 1000000] [--apps 1000] [--workflows 3] [--models 3]

A ledger of so many rows, a run for five of them, and the default cap on app labels. The exporter's first look reads
all totals and counts all runs; each later one asks for what has changed. A scrape is an HTTP request as Prometheus
makes it. The baseline is what an exporter without totals would have to do for every look: to add up the ledger.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median, quantiles

# This folder comes last: `accounting` is the package, not its neighbour.
sys.path.sort(key=lambda place: Path(place).resolve() == Path(__file__).resolve().parent)

import httpx
import psutil
from pymongo import AsyncMongoClient

from accounting.ledger.ledger_rows import INDEXES
from accounting.totals.roll_up import RollUp
from accounting.totals.usage_query import totals_pipeline
from ops.embedded.embedded_servers import embedded_servers
from ops.exporter.exporter_metrics import StoreCollector
from ops.exporter.metrics_page import MetricsPage
from ops.exporter.store_snapshot import SnapshotReader
from ops.exporter.usage_counts import KEYS
from tests.large_ledger import LedgerSize, fill
from workers.process.metrics_server import serve_at
from workers.setting_values import Address
from workers.settings import Settings
from workers.store.run_store import RunStore, connect

LOOKS = 10
SCRAPES = 200
NEW_ROWS = 500  # between two looks, which is a hundred calls a second
HEADERS = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "gzip"}


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--apps", type=int, default=1_000)
    parser.add_argument("--workflows", type=int, default=3)
    parser.add_argument("--models", type=int, default=3)
    options = parser.parse_args()
    size = LedgerSize(options.rows, options.apps, options.workflows, options.models)
    with tempfile.TemporaryDirectory() as name:
        async with embedded_servers(Path(name) / "data") as services:
            patient = AsyncMongoClient(services.mongodb_url)["bench"]  # ours gives up after half a minute
            database = connect(services.mongodb_url or "", database="bench")
            try:
                await fill(patient, size)
                await patient["usage"].create_indexes([*INDEXES])
                await RunStore(patient).ensure_indexes()
                print(f"{size.rows:,} rows, {size.apps:,} apps, {size.workflows} workflows, {size.models} models")
                print_times("adding up the ledger", [await time_step(lambda: add_up(patient))])
                await measure(database)
            finally:
                await patient.client.close()
                await database.client.close()


async def add_up(database) -> None:
    await (await database["usage"].aggregate(totals_pipeline(KEYS, {}))).to_list(None)


async def measure(database) -> None:
    cap = Settings().max_app_labels
    snapshots = SnapshotReader(database, max_app_labels=cap)
    collector = StoreCollector()
    page = MetricsPage(collector)

    async def look() -> None:
        collector.publish(await snapshots.read(), duration_s=0)

    print_times("first look", [await time_step(look)])
    print_times("writing its page", [await time_step(lambda: asyncio.to_thread(page.renew)) for _ in range(LOOKS)])
    server = serve_at(page, Address("127.0.0.1", 0))
    try:
        async with httpx.AsyncClient(base_url=f"http://{server.address}", headers=HEADERS) as client:
            await scrapes(client)
    finally:
        await asyncio.to_thread(server.close)
    print_times("look, nothing new", [await time_step(look) for _ in range(LOOKS)])
    print_times(f"look, {NEW_ROWS} rows new", [await time_step(look) async for _ in new_rows(database)])
    print(f"{'memory':<28}{psutil.Process().memory_info().rss / 2**20:9.0f} MB")


async def new_rows(database):
    """Rows that wait for a roll-up, and then have just been added."""
    rows = await database["usage"].find().limit(NEW_ROWS).to_list(None)
    roll_up = RollUp(database)
    for number in range(LOOKS // 2):
        await database["usage"].insert_many([{**row, "_id": f"{number}/{row['_id']}", "rollup": 1} for row in rows])
        yield number
        await roll_up.add_batch()
        yield number


async def scrapes(client: httpx.AsyncClient) -> None:
    print_times("scrape", [await time_step(lambda: client.get("/metrics")) for _ in range(SCRAPES)])
    zipped = await client.get("/metrics")
    plain = await client.get("/metrics", headers={"Accept-Encoding": "identity"})
    series = sum(not line.startswith("#") for line in plain.text.splitlines())
    kilobytes = int(zipped.headers["content-length"]) / 1e3
    print(f"{'page':<28}{len(plain.content) / 1e6:9.3f} MB, {kilobytes:.0f} KB zipped, {series:,} series")


async def time_step(step: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await step()
    return (time.perf_counter() - began) * 1000


def print_times(what: str, times_ms: list[float]) -> None:
    most = f", p99 {quantiles(times_ms, n=100)[98]:.1f}" if len(times_ms) >= 100 else f", at most {max(times_ms):.1f}"
    print(f"{what:<28}{median(times_ms):9.1f} ms{most if len(times_ms) > 1 else ''}")


if __name__ == "__main__":
    asyncio.run(main())
