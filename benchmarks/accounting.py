"""What it costs to account a model call: CPU and added waiting, against one `insert_one` per call.

    .venv/bin/python benchmarks/accounting.py [--repeat 3]

So many runs at once make calls one after another; a call takes a second, give or take half, at a model that is not
there. The ledger writes each call twice, before it is made and when it is answered, what is written at one moment in
one command. The baseline writes the same row once, when the call is answered, with a command of its own: it knows
nothing of a call whose process was killed. Both wait for the majority and the journal. `burst` is the same without a
model: calls as fast as they can be accounted. CPU is this process's, per call; of the repeats the fastest counts.
At the end: what it costs to add the rows up.
"""

import argparse
import asyncio
import contextlib
import gc
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

# This folder comes last: `accounting` is the package, not this file.
sys.path.sort(key=lambda place: Path(place).resolve() == Path(__file__).resolve().parent)

import psutil
from pymongo.asynchronous.database import AsyncDatabase

from accounting.ledger.ledger import Ledger
from accounting.ledger.ledger_rows import COLLECTION, closed_row
from accounting.prices import PriceTable
from accounting.totals.roll_up import RollUp
from accounting.usage import BegunCall, ModelCall, RunOwner, Tokens
from ops.embedded.embedded_servers import embedded_servers
from workers.store.run_store import connect

Database = AsyncDatabase[dict[str, object]]
Step = Callable[[RunOwner, int], Awaitable[None]]
PRICES = PriceTable()
CALL = ModelCall(1, "Writer", "openai", "gpt-5-mini", Tokens(900, 300, 0, 120, 40), "reported", True,
                 datetime(2026, 1, 1, tzinfo=UTC), 1.0)  # fmt: skip


@dataclass(frozen=True)
class LoadShape:
    runs: int
    calls: int  # of each
    model_s: float


CROWDS = (LoadShape(1, 30, 0.05), LoadShape(100, 20, 1.0), LoadShape(1_000, 6, 1.0))
BURSTS = (LoadShape(1, 300, 0), LoadShape(100, 60, 0), LoadShape(1_000, 10, 0))


@dataclass(frozen=True)
class Result:
    cpu_us: float
    before_ms: list[float]
    after_ms: list[float]
    per_second: float


@dataclass(frozen=True)
class LedgerWriter:
    """How a call is accounted: before it is made, and after its answer."""

    before: Step
    after: Step


async def write_nothing(_owner: RunOwner, _number: int) -> None: ...


def by_ledger(database: Database) -> LedgerWriter:
    ledger = Ledger(database, PRICES)

    async def begin(owner: RunOwner, number: int) -> None:
        call = BegunCall(number, CALL.agent, CALL.provider, CALL.model, datetime.now(UTC), 120)
        await ledger.begin(owner, lease_token=1, call=call)

    async def record(owner: RunOwner, number: int) -> None:
        call = replace(CALL, number=number, started_at=datetime.now(UTC))
        await ledger.record(owner, lease_token=1, call=call)

    return LedgerWriter(begin, record)


def by_insert_one(database: Database) -> LedgerWriter:
    rows = database[COLLECTION]

    async def insert(owner: RunOwner, number: int) -> None:
        call = replace(CALL, number=number, started_at=datetime.now(UTC))
        await rows.insert_one(closed_row(owner, lease_token=1, call=call, holder="", prices=PRICES))

    return LedgerWriter(write_nothing, insert)


async def measure(way: LedgerWriter, crowd: LoadShape) -> Result:
    before_ms: list[float] = []
    after_ms: list[float] = []
    dice = random.Random(1)  # noqa: S311 -- how long a model takes is no secret

    async def timed(step: Step, owner: RunOwner, number: int, taken_ms: list[float]) -> None:
        began = time.perf_counter()
        await step(owner, number)
        taken_ms.append((time.perf_counter() - began) * 1000)

    async def run(index: int) -> None:
        owner = RunOwner(f"run_{index}", f"app{index % 50}", None, f"chat_{index}", "Digest", "schedule")
        for number in range(crowd.calls):
            await timed(way.before, owner, number, before_ms)
            if crowd.model_s:
                await asyncio.sleep(crowd.model_s * (0.5 + dice.random()))
            await timed(way.after, owner, number, after_ms)

    gc.collect()
    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*map(run, range(crowd.runs)))
    took, calls = time.perf_counter() - began, crowd.runs * crowd.calls
    return Result((time.process_time() - cpu) / calls * 1e6, before_ms, after_ms, calls / took)


@contextlib.asynccontextmanager
async def fresh_database(url: str, name: str) -> AsyncIterator[Database]:
    """A database with the ledger's indexes, gone afterwards."""
    database = connect(url, database=f"bench_{name}_{time.time_ns()}")
    await Ledger(database, PRICES).ensure_indexes()
    await database[COLLECTION].find_one({})
    try:
        yield database
    finally:
        await database.client.drop_database(database.name)
        await database.client.close()


async def best_of(repeat: int, url: str, make: Callable[[Database], LedgerWriter], crowd: LoadShape) -> Result:
    results = []
    for _ in range(repeat):
        async with fresh_database(url, "calls") as database:
            results.append(await measure(make(database), crowd))
    return min(results, key=lambda result: result.cpu_us)


def summarize_times(taken_ms: list[float]) -> str:
    if not taken_ms or max(taken_ms) < 0.01:
        return "       -"
    cuts = statistics.quantiles(taken_ms, n=100)
    return f"{cuts[49]:5.1f}/{cuts[98]:5.1f}"


async def compare(url: str, repeat: int, title: str, crowds: tuple[LoadShape, ...]) -> None:
    print(f"\n{title}")
    print("                             ----- ms, p50/p99 -----")
    print(f"{'runs':>5}  {'way':<11} {'us CPU':>7} {'before':>13} {'after':>13} {'calls/s':>8}")
    for crowd in crowds:
        ours = await best_of(repeat, url, by_ledger, crowd)
        plain = await best_of(repeat, url, by_insert_one, crowd)
        for name, each in (("ledger", ours), ("insert_one", plain)):
            waits = f"{summarize_times(each.before_ms):>13} {summarize_times(each.after_ms):>13}"
            print(f"{crowd.runs:>5}  {name:<11} {each.cpu_us:>7.0f} {waits} {each.per_second:>8.0f}")
        cpu, rate = ours.cpu_us / plain.cpu_us, ours.per_second / plain.per_second
        print(f"       ledger : insert_one   {cpu:.2f} of the CPU, {rate:.2f} of the calls/s")


async def measure_roll_up(url: str, rows: int = 20_000) -> None:
    async with fresh_database(url, "rows") as database:
        owners = [RunOwner(f"run_{n}", f"app{n % 200}", None, "chat", f"W{n % 3}", "schedule") for n in range(600)]
        await database[COLLECTION].insert_many(
            [
                closed_row(owners[n % 600], lease_token=n, call=replace(CALL, started_at=datetime.now(UTC)),
                           holder="", prices=PRICES)
                for n in range(rows)
            ],
            ordered=False,
        )  # fmt: skip
        roll_up, counts = RollUp(database), Counter[str]()
        await roll_up.run_pass(counts)
        server = next(each for each in psutil.Process().children(recursive=True) if each.name() == "mongod")
        counts.clear()
        cpu, began, server_cpu = time.process_time(), time.perf_counter(), server.cpu_times().user
        while await database[COLLECTION].find_one({"rollup": {"$exists": True}}, {"_id": 1}) is not None:
            await roll_up.run_pass(counts)
        added = counts["added"]
        took = time.perf_counter() - began
        cpu_us = (time.process_time() - cpu) / added * 1e6
        server_us = (server.cpu_times().user - server_cpu) / added * 1e6
        print(f"\nadding up {added} rows of 600 sets of labels: {added / took:,.0f} rows/s;", end=" ")
        print(f"CPU per row {cpu_us:.0f} us here, {server_us:.0f} us in mongod")


async def main(repeat: int) -> None:
    with tempfile.TemporaryDirectory(prefix="unattended-benchmark-") as folder:
        async with embedded_servers(Path(folder)) as services:
            url = services.mongodb_url or ""
            await compare(url, repeat, "calls of about a second (50 ms for the one run)", CROWDS)
            await compare(url, repeat, "burst: no model in between", BURSTS)
            await measure_roll_up(url)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    asyncio.run(main(parser.parse_args().repeat))
