"""The storm over the ledger: runs ask models in every way while workers are killed, and a server that counts judges.

Meanwhile totals are the ledger's at every moment, and no counter falls. Afterwards each call has one row, each answer
that arrived is in it as it was served, and totals, metrics and runs say the same.
"""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from accounting.ledger.ledger_rows import NOT_ADDED, OPEN, WORKER_LOST
from accounting.totals.roll_up import RollUp
from accounting.totals.row_sums import TOKENS
from ops.free_ports import find_free_address
from tests.chaos.accounted_traffic import Traffic, TrafficFaults, hit_busy_members
from tests.chaos.accounted_workflows import accounted_workflows
from tests.chaos.auditing_model import AuditingModel, auditing_model
from tests.chaos.ledger_judge import CANCELLED, LedgerVerdict, judge_ledger
from tests.chaos.lengths import add_summary_line, by_length
from tests.chaos.squad import squad
from tests.chaos.totals_judge import (
    Scraper,
    Series,
    falling_series,
    faults_of_this_moment,
    metrics_of,
    totals_faults,
    usage_series,
)
from tests.integration.ops.test_exporter_role import exporter
from tests.integration.stage import Stage, wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(by_length(short=120, long=600))]

SEED = 20_261
TAKES_S = (0.02, 0.3)
CONCURRENCY = 24
LOOKS_EVERY_S = 1.0
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
STORM = TrafficFaults(
    runs=by_length(short=30, long=1_000),
    within_s=by_length(short=3.0, long=100.0),
    hits=by_length(short=3, long=20),
    sign=signal.SIGKILL,
    workers=by_length(short=2, long=3),
)
CALM = TrafficFaults(
    runs=by_length(short=12, long=200),
    within_s=by_length(short=1.0, long=20.0),
    hits=by_length(short=1, long=5),
    sign=signal.SIGTERM,
)


@asynccontextmanager
async def watching_metrics(stage: Stage, scraper: Scraper) -> AsyncIterator[list[str]]:
    """What is wrong with totals and counters while everything happens."""
    wrong: list[str] = []
    over = asyncio.Event()  # PyMongo may swallow a cancellation: asyncio.wait_for of Python 3.11 does

    async def watch() -> None:
        before: Series = {}
        while not over.is_set():
            wrong.extend(await faults_of_this_moment(stage.store.database))
            now = await scraper.scrape()
            wrong.extend(falling_series(before, now))
            before = now
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), LOOKS_EVERY_S)

    watching = asyncio.create_task(watch())
    try:
        yield wrong
    finally:
        over.set()
        await watching


async def wait_until_at_rest(stage: Stage) -> None:
    """Every run has ended, every call of a living worker is recorded, and what is recorded is added."""
    rows, runs = stage.store.database["usage"], stage.store.runs

    async def nobody_works() -> bool:
        return await runs.find_one({"state": {"$in": ["queued", "running"]}}, {"_id": 1}) is None

    async def only_the_dead_left_rows() -> bool:
        left = [row["_id"].split(":") async for row in rows.find({"rollup": OPEN}, {"_id": 1})]
        lost = {
            (run["_id"], str(line["token"]))
            async for run in runs.find({"_id": {"$in": [run_id for run_id, *_ in left]}})
            for line in run["history"]
            if line["ended"] == "worker_lost"
        }
        return all((run_id, token) in lost for run_id, token, _ in left)

    async def all_is_added() -> bool:
        return await rows.find_one({"rollup": NOT_ADDED}, {"_id": 1}) is None

    await wait_until("every run has ended", nobody_works, within_s=by_length(short=60, long=300))
    with suppress(AssertionError):  # then the judge names them
        await wait_until("every call of a living worker is recorded", only_the_dead_left_rows)
    await wait_until("what is recorded is added", all_is_added, within_s=60)


async def close_ledger(stage: Stage) -> None:
    """As if the time of all calls were over."""
    rows, roll_up = stage.store.database["usage"], RollUp(stage.store.database)
    await rows.update_many({"rollup": OPEN}, {"$set": {"open_until": LONG_AGO}})

    async def added() -> bool:
        await roll_up.run_pass()
        return await rows.find_one({"rollup": {"$exists": True}}, {"_id": 1}) is None

    await wait_until("all rows are closed and added", added)


async def wait_until_shown(scraper: Scraper, expected: Series) -> Series:
    """By an exporter that is some seconds behind."""

    async def all_of_it() -> bool:
        return usage_series(await scraper.scrape()) == expected

    with suppress(AssertionError):
        await wait_until("the exporter shows the ledger", all_of_it, within_s=15)
    return usage_series(await scraper.scrape())


@asynccontextmanager
async def running_exporter(stage: Stage) -> AsyncIterator[Scraper]:
    address = find_free_address()
    scraper = Scraper(address)
    async with exporter(stage, address):
        try:
            yield scraper
        finally:
            await scraper.close()


async def run_traffic(stage: Stage, model: AuditingModel, weather: TrafficFaults) -> LedgerVerdict:
    """What the judge says of the ledger when all is over."""
    chance = random.Random(SEED)
    accounted_workflows(stage, model.url)
    async with squad(stage, workers=weather.workers, schedulers=2, concurrency=CONCURRENCY) as members:
        traffic = Traffic(stage, model, chance)
        await asyncio.gather(hit_busy_members(stage, members, weather, chance), traffic.send(weather))
        await wait_until_at_rest(stage)
        await traffic.wait_for_cancellations()
    await close_ledger(stage)
    return await judge_ledger(stage, model)


async def count_outcomes(stage: Stage) -> Counter[str]:
    return Counter([run["state"] async for run in stage.store.runs.find()])


async def test_the_ledger_equals_what_was_served_whichever_process_is_killed(stage: Stage) -> None:
    chance = random.Random(SEED)
    async with running_exporter(stage) as scraper, auditing_model(stage.store, chance, takes_s=TAKES_S) as model:
        async with watching_metrics(stage, scraper) as wrong:
            verdict = await run_traffic(stage, model, STORM)
        expected = metrics_of(await stage.store.database["usage"].find().to_list(None))
        shown = await wait_until_shown(scraper, expected)
    states = await count_outcomes(stage)

    add_summary_line("accounting storm", runs=STORM.runs, kills=STORM.hits, **verdict.numbers(), **states)
    assert verdict.wrong == []
    assert wrong == []
    assert shown == expected
    assert await totals_faults(stage.store.database) == []
    assert verdict.cut_off[WORKER_LOST] > 0
    assert states.total() == STORM.runs


async def test_without_kills_nothing_that_was_served_is_lost(stage: Stage) -> None:
    async with auditing_model(stage.store, random.Random(SEED), takes_s=TAKES_S) as model:
        verdict = await run_traffic(stage, model, CALM)

    add_summary_line("accounting without kills", runs=CALM.runs, **verdict.numbers(), **await count_outcomes(stage))
    assert verdict.wrong == []
    assert verdict.cut_off[WORKER_LOST] == 0
    assert await totals_faults(stage.store.database) == []
    rows = await stage.store.database["usage"].find().to_list(None)
    cut_off = {row["run_id"] for row in rows if row["error"] == CANCELLED}
    assert summarize_rows(rows, cut_off) == await summarize_served(stage, model, cut_off)


def summarize_rows(rows: Sequence[Mapping[str, Any]], cut_off: set[str]) -> Counter[tuple[str, str, str]]:
    """Tokens by app, model and kind."""
    sums: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        if row["status"] == "reported" and row["run_id"] not in cut_off:
            sums.update({(row["app_id"], row["model"], name): row[name] for name in TOKENS})
    return sums


async def summarize_served(stage: Stage, model: AuditingModel, cut_off: set[str]) -> Counter[tuple[str, str, str]]:
    apps = {run["_id"]: run["app_id"] async for run in stage.store.runs.find()}
    sums: Counter[tuple[str, str, str]] = Counter()
    for asked in model.calls:
        if asked.end == "served" and asked.tokens is not None and asked.run_id not in cut_off:
            kinds = {name: getattr(asked.tokens, name.removesuffix("_tokens")) for name in TOKENS}
            sums.update({(apps[asked.run_id], asked.model, name): tokens for name, tokens in kinds.items()})
    return sums
