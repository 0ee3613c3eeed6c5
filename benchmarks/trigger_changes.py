"""Change events per second that became durable runs, against a bare `watch()` loop that counts them, and against one
that writes each event down durably, as hand-written listeners do."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from trigger_context import ground_for, write_package

from triggers.change_stream.stream_metrics import StreamMetrics
from triggers.change_stream.watcher_role import build_watcher, tune_gc
from triggers.role_context import RoleContext
from workers.embedded_services import Services

TARGET_RATIO = 0.5
PATIENCE_S = 120


async def compare(services: Services, folder: Path, *, events: int) -> None:
    shop = f"shop_{time.time_ns()}"
    trigger = {
        "name": "paid",
        "type": "database_condition",
        "database": shop,
        "collection": "orders",
        "apps": ["acme"],
        "when": "fullDocument.status == 'paid'",
        "input": {"order": "=documentKey._id", "amount": "=fullDocument.amount"},
    }
    tune_gc()
    async with ground_for(services, write_package(folder, trigger)) as ground:
        await ground.database.client[shop]["orders"].insert_one(order(0))
        bare_s = await bare(ground, shop, events)
        written_s = await bare_and_durable(ground, shop, events // 20) * 20
        rare_s = await unattended(ground, shop, events, one_in=100)
        few_s = await unattended(ground, shop, events, one_in=10)
        ours_s = await unattended(ground, shop, events)
        for label, took_s in (
            ("bare watch()", bare_s),
            ("watch() and one insert", written_s),
            ("unattended, 1 in 100", rare_s),
            ("unattended, 1 in 10", few_s),
            ("unattended, each", ours_s),
        ):
            ratios = f"{bare_s / took_s:9.2f} of bare{written_s / took_s:9.1f} of one insert each"
            print(f"{label:<24}{events:>12}    {events / took_s:9.0f} events/s{ratios}")
        print(f"{'':<24}{'':>12}    aim {TARGET_RATIO} of bare")
        await ground.database.client.drop_database(shop)


async def bare(ground: RoleContext, shop: str, events: int) -> float:
    """All begin behind a position, with the changes there already: what is measured is the reading."""
    orders = ground.database.client[shop]["orders"]
    position = await insert_orders(ground, shop, events)
    seen = 0
    began = time.perf_counter()
    async with await orders.watch(resume_after=position, full_document="updateLookup") as stream:
        async for event in stream:
            seen += bool(event["fullDocument"]["status"] == "paid")
            if seen == events:
                break
    return time.perf_counter() - began


async def bare_and_durable(ground: RoleContext, shop: str, events: int) -> float:
    """With the write concern of ours, and then the position is saved: what a listener by hand has to do."""
    orders, kept = ground.database.client[shop]["orders"], ground.database["kept"]
    position = await insert_orders(ground, shop, events)
    seen = 0
    began = time.perf_counter()
    async with await orders.watch(resume_after=position, full_document="updateLookup") as stream:
        async for event in stream:
            await kept.insert_one({"order": event["documentKey"]["_id"], "amount": event["fullDocument"]["amount"]})
            seen += 1
            if seen == events:
                break
    return time.perf_counter() - began


async def insert_orders(ground: RoleContext, shop: str, events: int) -> Mapping[str, Any] | None:
    """The position before the changes."""
    async with await ground.database.client[shop]["orders"].watch(max_await_time_ms=100) as stream:
        await stream.try_next()
        position = stream.resume_token
    await change(ground, shop, events)
    return position


async def unattended(ground: RoleContext, shop: str, events: int, *, one_in: int = 1) -> float:
    before = await ground.store.runs.estimated_document_count()
    await watch_until(ground, shop, runs=before)  # it has a position
    await change(ground, shop, events, one_in=one_in)
    began = time.perf_counter()
    return await watch_until(ground, shop, runs=before + events // one_in) - began


async def watch_until(ground: RoleContext, shop: str, *, runs: int) -> float:
    """When they were there. The watcher leaves half a second later, when the server has answered it once more."""
    stop = asyncio.Event()
    watcher = build_watcher(ground, StreamMetrics(CollectorRegistry()), packages=ground.catalog.packages)
    watching = asyncio.create_task(watcher.run(stop))
    give_up_at = time.monotonic() + PATIENCE_S
    positioned: Mapping[str, Any] = {"_id": shop, "resume_token": {"$ne": None}}
    reached = ground.store.runs.estimated_document_count
    while not (await ground.database["streams"].find_one(positioned) and await reached() >= runs):
        if watching.done() or time.monotonic() > give_up_at:
            raise SystemExit(f"not all of {runs} runs were there after {PATIENCE_S} s")
        await asyncio.sleep(0.02)
    reached_at = time.perf_counter()
    stop.set()
    await watching
    return reached_at


async def change(ground: RoleContext, shop: str, events: int, *, one_in: int = 1) -> None:
    """The last ones are paid ones: when they have their runs, all before them were read."""
    orders = ground.database.client[shop]["orders"]
    unpaid = events - events // one_in
    for start in range(0, events, 1000):
        some = range(start, min(start + 1000, events))
        await orders.insert_many([order(number, "open" if number < unpaid else "paid") for number in some])


def order(number: int, status: str = "paid") -> dict[str, Any]:
    return {"status": status, "amount": number, "customer": f"customer {number}", "lines": ["a", "b", "c"]}
