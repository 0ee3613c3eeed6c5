"""Ended runs on a real MongoDB: each counts once, whatever happens between two reads."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.asynchronous.client_session import AsyncClientSession

from accounting.infra.snapshot_read import snapshot_read
from workers.control.run_cancellation import discard
from workers.control.run_replay import replay
from workers.reconciler.run_retention import PRUNED, RunRetention
from workers.store import ended_counts
from workers.store.claimed_runs import MongoRunRepository
from workers.store.ended_counts import WINDOW_MARGIN, EndedRunCounter, RunLabels
from workers.store.run import RunRequest, RunState, TriggerEvent
from workers.store.run_document import run_document
from workers.store.run_pruner import ROLLUPS
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

NOW = datetime.now(UTC)
COMPLETED = RunLabels("acme", "Digest", "api", "completed")
STRANDED = RunLabels("acme", "Digest", "api", "no_transition", stranded=True)
TIMED_OUT = RunLabels("acme", "Digest", "api", "timeout")


class EndedRunsExporter:
    """Count as an exporter does, at a given time."""

    def __init__(self, store: RunStore, clock: list[float], **bounds: int) -> None:
        self._database = store.database
        self._runs = EndedRunCounter(store.database, clock=lambda: clock[0], **bounds)

    async def at(self, now: datetime) -> Mapping[RunLabels, int]:
        async def ask(session: AsyncClientSession) -> Mapping[RunLabels, int]:
            return await self._runs.count(session, now)

        return await snapshot_read(self._database, ask)


class NoWakeups:
    def send(self, run_id: str) -> None:
        """A stage without a worker."""


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def look(store: RunStore, clock: list[float]) -> EndedRunsExporter:
    return EndedRunsExporter(store, clock)


def request(number: int) -> RunRequest:
    return RunRequest("acme", "Digest", TriggerEvent("api", "test", str(number), fired_at=NOW))


async def insert_ended_run(store: RunStore, number: int, at: datetime, **changes: Any) -> None:
    document = run_document(request(number), now=NOW, republish_after=timedelta(0))
    del document["lane"]
    end = {"state": "succeeded", "outcome": {"kind": "completed"}, "finished_at": at}
    await store.runs.insert_one({**document, **end, **changes})


async def insert_parked_run(store: RunStore) -> str:
    run_id = (await store.insert(request(1))).run_id
    ownership = MongoRunRepository(store, owner="w", lease_s=30)
    claim = await ownership.claim(run_id)
    assert claim is not None
    await ownership.finish(claim, RunState.PARKED, {"outcome": {"kind": "timeout", "reason": "slow", "error": None}})
    return run_id


async def test_what_ends_between_two_looks_is_counted_from_then_on(store: RunStore, look: EndedRunsExporter) -> None:
    await insert_ended_run(store, 1, NOW - timedelta(days=1))
    seen = [await look.at(NOW)]
    for number, minutes in ((2, 1), (3, 2), (4, 30)):
        await insert_ended_run(store, number, NOW + timedelta(minutes=minutes))
        seen.append(await look.at(NOW + timedelta(minutes=minutes)))
    seen += [await look.at(NOW + timedelta(minutes=60)) for _ in range(2)]

    assert [each[COMPLETED] for each in seen] == [1, 2, 3, 4, 4, 4]


async def test_an_end_that_is_seen_only_after_its_time_is_counted(store: RunStore, look: EndedRunsExporter) -> None:
    """An end becomes visible late: its transaction was open, or a new primary's clock differs."""
    await look.at(NOW)
    await look.at(NOW + timedelta(seconds=5))

    await insert_ended_run(store, 1, NOW + timedelta(seconds=5) - WINDOW_MARGIN + timedelta(seconds=1))

    assert (await look.at(NOW + timedelta(seconds=10)))[COMPLETED] == 1
    assert (await look.at(NOW + timedelta(hours=5)))[COMPLETED] == 1


async def test_a_clock_that_goes_back_counts_nothing_twice(store: RunStore, look: EndedRunsExporter) -> None:
    await insert_ended_run(store, 1, NOW)
    late = NOW + WINDOW_MARGIN + timedelta(seconds=1)
    seen = [await look.at(each) for each in (late, NOW - timedelta(seconds=30), late)]

    assert [each[COMPLETED] for each in seen] == [1, 1, 1]


async def test_what_is_deleted_between_two_looks_stays_counted(store: RunStore, look: EndedRunsExporter) -> None:
    await insert_ended_run(store, 1, NOW - timedelta(days=31))
    await insert_ended_run(store, 2, NOW)
    before = await look.at(NOW)
    counts: Counter[str] = Counter()
    await RunRetention(store, timedelta(days=30)).run_pass(counts)

    assert counts[PRUNED] == 1
    assert await look.at(NOW + timedelta(seconds=5)) == before == {COMPLETED: 2}
    assert await EndedRunsExporter(store, [0.0]).at(NOW) == before


async def test_stranded_runs_stay_counted_apart_in_runs_and_roll_ups(store: RunStore, look: EndedRunsExporter) -> None:
    """Runs in the window, before it, and pruned; runs of older versions count as not stranded."""
    stranded = {"outcome": {"kind": "no_transition", "stranded": True}}
    older = {"outcome": {"kind": "no_transition"}}
    for number, days in ((1, 31), (2, 31), (3, 1)):
        await insert_ended_run(store, number, NOW - timedelta(days=days), **(older if number == 2 else stranded))
    before = await look.at(NOW)
    await RunRetention(store, timedelta(days=30)).run_pass(Counter())
    key = {"app": "acme", "workflow": "Digest", "trigger": "api", "outcome": "no_transition"}
    await store.database[ROLLUPS].update_one({"_id": key}, {"$inc": {"count": 1}})
    await insert_ended_run(store, 4, NOW + timedelta(minutes=1), **stranded)

    plain = STRANDED._replace(stranded=False)
    assert before == {STRANDED: 2, plain: 1}
    assert await look.at(NOW + timedelta(minutes=1)) == {STRANDED: 3, plain: 1}
    assert await look.at(NOW + timedelta(minutes=10)) == {STRANDED: 3, plain: 1}
    assert await EndedRunsExporter(store, [0.0]).at(NOW) == {STRANDED: 3, plain: 2}


@pytest.mark.parametrize("looked", ["while it was parked", "only later"])
@pytest.mark.parametrize("how", ["discarded", "replayed"])
async def test_a_run_that_was_parked_counts_once_whatever_becomes_of_it(
    store: RunStore, look: EndedRunsExporter, how: str, looked: str
) -> None:
    await look.at(NOW - timedelta(minutes=30))
    run_id = await insert_parked_run(store)
    resolved_at = datetime.now(UTC) + 3 * WINDOW_MARGIN
    if looked == "while it was parked":
        assert await look.at(datetime.now(UTC)) == {TIMED_OUT: 1}
        assert await look.at(datetime.now(UTC) + 2 * WINDOW_MARGIN) == {TIMED_OUT: 1}
    if how == "discarded":
        await discard(store, run_id, by="ada")
    else:
        await replay(store, NoWakeups(), run_id, by="ada")
    await store.runs.update_one({"_id": run_id}, {"$set": {"finished_at": resolved_at}})

    after = [await look.at(resolved_at + passed * WINDOW_MARGIN) for passed in (0, 0.5, 2, 4)]

    assert after == [{TIMED_OUT: 1}] * 4
    assert await EndedRunsExporter(store, [0.0]).at(resolved_at) == {TIMED_OUT: 1}


async def test_a_run_that_waits_for_a_person_counts_when_it_ends(store: RunStore, look: EndedRunsExporter) -> None:
    await insert_ended_run(store, 1, NOW, state="needs_human")
    asked = await look.at(NOW)
    await store.runs.update_one({}, {"$set": {"state": "succeeded", "finished_at": NOW + timedelta(minutes=9)}})

    assert asked == {}
    assert (await look.at(NOW + timedelta(minutes=10)))[COMPLETED] == 1


async def test_a_large_store_is_counted_in_parts(store: RunStore, clock: list[float]) -> None:
    look = EndedRunsExporter(store, clock, max_runs_per_command=3)
    for number in range(10):
        state = "queued" if number in (0, 4, 5, 6) else "succeeded"
        await insert_ended_run(store, number, NOW - timedelta(minutes=number), state=state)

    assert await look.at(NOW) == {COMPLETED: 6}


async def test_now_and_then_everything_is_counted_anew(
    store: RunStore, look: EndedRunsExporter, clock: list[float]
) -> None:
    await insert_ended_run(store, 1, NOW - timedelta(days=3))
    await look.at(NOW)
    await insert_ended_run(store, 2, NOW - timedelta(days=2))  # restored by an operator
    before = await look.at(NOW)
    clock[0] = ended_counts.RECOUNT_INTERVAL_S

    assert before[COMPLETED] == 1
    assert (await look.at(NOW))[COMPLETED] == 2


async def test_a_look_reads_only_what_ended_lately(store: RunStore) -> None:
    for number in range(50):
        await insert_ended_run(store, number, NOW - timedelta(minutes=number))

    pipeline = ended_counts.window_pipeline(NOW - timedelta(minutes=2), NOW)
    command = {"aggregate": "runs", "pipeline": pipeline, "cursor": {}}
    explained: dict[str, Any] = await store.database.command("explain", command, verbosity="executionStats")

    assert explained["executionStats"]["totalDocsExamined"] == 3, explained
