"""Usage metrics on a real MongoDB equal the ledger's sums, whatever happens to totals and rows."""

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounting.app_labels import OTHER, AppLabels
from accounting.infra.snapshot_read import snapshot_read
from accounting.ledger.ledger import Ledger
from accounting.ledger.ledger_rows import OPEN
from accounting.totals.roll_up import RollUp
from accounting.totals.row_sums import HOURS, STATE, TOTALS
from accounting.totals.totals_rebuild import rebuild
from accounting.usage import BegunCall, ModelCall, RunOwner, Tokens, UsageStatus
from ops.exporter.exporter_metrics import StoreCollector
from ops.exporter.store_snapshot import SnapshotReader
from ops.exporter.usage_counts import UsageChange, UsageCounts
from tests.integration.accounting.ledger_rows import give_up_open_rows
from tests.integration.usage_rows import PRICES
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

LONG_AGO = datetime(2026, 3, 1, tzinfo=UTC)
NAMED = 3
Series = dict[tuple[str, ...], float]


class UsageExporter:
    def __init__(self, store: RunStore) -> None:
        self._snapshots = SnapshotReader(store.database, max_app_labels=NAMED)
        self._collector = StoreCollector()

    async def scraped_values(self) -> dict[str, Series]:
        """Return the nonzero samples of each usage metric."""
        self._collector.publish(await self._snapshots.read(), duration_s=0)
        shown = {
            family.name: {tuple(each.labels.values()): each.value for each in family.samples if each.value}
            for family in self._collector.collect()
            if family.type == "counter" and family.name not in ("unattended_runs", "unattended_budget_rejections")
        }
        return {name: series for name, series in shown.items() if series}


class RandomCalls:
    """Model calls that begin and end as in a worker."""

    def __init__(self, store: RunStore, *, seed: int) -> None:
        self._store = store
        self._ledger = Ledger(store.database, PRICES)
        self._random = random.Random(seed)
        self._begun: list[tuple[RunOwner, BegunCall]] = []
        self._count = 0

    async def begin(self) -> None:
        self._count += 1
        chosen = self._random.choice
        owner = RunOwner(f"run_{self._count}", chosen("abcde"), None, "c", chosen("VW"), chosen(["api", "schedule"]))
        at = LONG_AGO + timedelta(minutes=self._random.randrange(600))
        call = BegunCall(1, chosen("AB"), "openai", chosen(["gpt", "llama"]), at)
        await self._ledger.begin(owner, lease_token=1, call=call)
        self._begun.append((owner, call))
        await give_up_open_rows(self._store)

    async def make(self) -> None:
        await self.begin()
        await self.end()

    async def end(self) -> None:
        """End one of the open calls, whether or not it was closed as missing."""
        if not self._begun:
            return
        owner, begun = self._begun.pop(self._random.randrange(len(self._begun)))
        status: UsageStatus = self._random.choice(["reported", "reported", "estimated", "missing"])
        tokens = Tokens() if status == "missing" else Tokens(*self._random.sample(range(1, 1000), 5))
        call = ModelCall(
            **{name: getattr(begun, name) for name in ("number", "agent", "provider", "model", "started_at")},
            tokens=tokens,
            status=status,
            ok=status != "missing",
            duration_s=1.0,
        )
        await self._ledger.record(owner, lease_token=1, call=call)


def by_rows(rows: Sequence[Mapping[str, Any]], named: set[str]) -> dict[str, Counter[tuple[str, ...]]]:
    """Sum the ledger in the simplest way."""
    shown: dict[str, Counter[tuple[str, ...]]] = {}
    for row in rows:
        if row.get("rollup") == OPEN:
            continue
        app = row["app_id"] if row["app_id"] in named else OTHER
        of_model = (row["model"], row["provider"])
        labels = (app, row["workflow"], *of_model)
        found: dict[str, tuple[tuple[str, ...], int]] = {
            **{f"{kind}_tokens": (labels, row[f"{kind}_tokens"]) for kind in ("input", "cached_input", "cache_write")},
            **{f"{kind}_tokens": (labels, row[f"{kind}_tokens"]) for kind in ("output", "reasoning")},
            "cost_usd": (labels, row["cost_nano_usd"] or 0),
            "model_calls": ((*labels, str(row["ok"]).lower()), 1),
            "usage_missing": ((*labels, str(row["ok"]).lower()), row["status"] == "missing"),
            "usage_unpriced": ((app, *of_model), row["cost_nano_usd"] is None and row["status"] != "missing"),
            "usage_estimated": ((app, *of_model), row["status"] == "estimated"),
            "agent_input_tokens": ((row["workflow"], row["agent"]), row["input_tokens"]),
            "agent_output_tokens": ((row["workflow"], row["agent"]), row["output_tokens"]),
        }
        for name, (key, count) in found.items():
            shown.setdefault(f"unattended_{name}", Counter())[key] += count
    return shown


async def sums_of_ledger(store: RunStore) -> dict[str, Series]:
    labels = await store.database["metric_labels"].find_one({"_id": "apps"})
    rows = await store.database["usage"].find().to_list(None)
    sums = by_rows(rows, set(labels["names"][:NAMED] if labels else ()))
    unit = {"unattended_cost_usd": 1e9}
    return {
        name: {key: count / unit.get(name, 1) for key, count in (+counts).items()}
        for name, counts in sums.items()
        if +counts
    }


@pytest.mark.design("U-7")
@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_happens_to_the_ledger_metrics_are_its_sums(store: RunStore, seed: int) -> None:
    """At every step, an old exporter and a new one agree."""
    calls, roll_up, counts = RandomCalls(store, seed=seed), RollUp(store.database, batch=7), Counter[str]()
    await roll_up.run_pass(counts)
    living = UsageExporter(store)
    steps: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        *[calls.begin] * 6,
        *[calls.end] * 5,
        *[roll_up.add_batch] * 2,
        lambda: rebuild(store.database),
    ]
    dice = random.Random(seed)

    for _ in range(8):
        for _ in range(15):
            await dice.choice(steps)()
        shown = await living.scraped_values()
        assert shown == await UsageExporter(store).scraped_values() == await sums_of_ledger(store)
    assert len(shown) == 12


async def test_a_look_asks_for_what_has_changed_and_no_more(store: RunStore) -> None:
    calls, roll_up, counts = RandomCalls(store, seed=7), RollUp(store.database), UsageCounts(store.database)
    changes: list[UsageChange] = []

    async def look() -> None:
        changes.append(await snapshot_read(store.database, counts.read_change))
        counts.apply_change(changes[-1], AppLabels())

    for _ in range(30):
        await calls.make()
    await roll_up.run_pass(Counter())
    await look()
    await look()
    await calls.make()
    await look()
    await roll_up.run_pass(Counter())
    await look()

    assert len(changes[0].totals) > 10
    assert [(len(each.totals), len(each.waiting)) for each in changes[1:]] == [(0, 0), (0, 1), (1, 0)]


@pytest.mark.parametrize("lost", [(TOTALS,), (HOURS, TOTALS), (HOURS, TOTALS, STATE)])
async def test_totals_that_are_lost_and_made_anew_move_no_counter(store: RunStore, lost: tuple[str, ...]) -> None:
    calls = RandomCalls(store, seed=4)
    for _ in range(30):
        await calls.make()
    await RollUp(store.database).run_pass(Counter())
    living = UsageExporter(store)
    before = await living.scraped_values()

    for name in lost:
        await store.database[name].drop()
    during = await living.scraped_values()
    await RollUp(store.database).run_pass(Counter())
    await rebuild(store.database)

    assert during == before
    assert await living.scraped_values() == before == await UsageExporter(store).scraped_values()


async def test_rebuilt_totals_are_read_again_however_far_they_have_got(store: RunStore) -> None:
    calls, counts, everybody = RandomCalls(store, seed=9), UsageCounts(store.database), AppLabels(frozenset("abcde"))

    async def counted() -> int:
        change = await snapshot_read(store.database, counts.read_change)
        return sum(each.calls for each in counts.apply_change(change, everybody))

    async def made_and_added(number: int) -> None:
        for _ in range(number):
            await calls.make()
            await RollUp(store.database).run_pass(Counter())

    await made_and_added(12)
    seen = [await counted()]
    for name in (HOURS, TOTALS, STATE):
        await store.database[name].drop()
    seen.append(await counted())
    await made_and_added(16)

    assert [*seen, await counted()] == [12, 12, 28]


async def test_an_exporter_reads_totals_that_were_rebuilt_without_a_scheduler(store: RunStore) -> None:
    """`unattended usage --rebuild` after the totals and their indexes were lost."""
    calls, roll_up = RandomCalls(store, seed=8), RollUp(store.database)
    for _ in range(20):
        await calls.make()
    await roll_up.run_pass(Counter())
    for name in (HOURS, TOTALS):
        await store.database[name].drop()

    await rebuild(store.database)

    assert await UsageExporter(store).scraped_values() == await sums_of_ledger(store)


async def test_a_late_answer_to_an_abandoned_call_moves_no_counter_back(store: RunStore) -> None:
    """A counter keeps a corrected call without usage until the exporter restarts."""
    calls, roll_up = RandomCalls(store, seed=5), RollUp(store.database)
    await calls.begin()
    await roll_up.run_pass(Counter())
    living = UsageExporter(store)
    given_up = await living.scraped_values()
    for _ in range(20):  # some of these have usage
        await calls.make()
    await calls.end()
    await roll_up.run_pass(Counter())
    answered = await living.scraped_values()

    assert sum(given_up["unattended_usage_missing"].values()) == 1
    for name, series in given_up.items():
        assert all(answered[name][labels] >= count for labels, count in series.items()), name
    assert await UsageExporter(store).scraped_values() == await sums_of_ledger(store)


async def test_an_older_store_that_is_put_back_moves_no_counter_and_is_read_anew(store: RunStore) -> None:
    calls, roll_up = RandomCalls(store, seed=6), RollUp(store.database)
    counts, everybody = UsageCounts(store.database), AppLabels(frozenset("abcde"))

    async def counted() -> int:
        change = await snapshot_read(store.database, counts.read_change)
        return sum(each.calls for each in counts.apply_change(change, everybody))

    await calls.make()
    await roll_up.run_pass(Counter())
    kept = {name: await store.database[name].find().to_list(None) for name in ("usage", HOURS, TOTALS, STATE)}
    for _ in range(5):
        await calls.make()
        await roll_up.run_pass(Counter())
    living = UsageExporter(store)
    newest, made = await living.scraped_values(), await counted()

    for name, documents in kept.items():
        await store.database[name].delete_many({})
        await store.database[name].insert_many(documents)

    assert await living.scraped_values() == newest
    assert (made, await counted()) == (6, 1)
    assert await UsageExporter(store).scraped_values() == await sums_of_ledger(store)
