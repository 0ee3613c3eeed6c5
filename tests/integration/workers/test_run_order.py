"""Runs with an order key on real servers: one at a time of each key, in the order they were accepted."""

import asyncio
import itertools
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from accounting.infra.aio import gather_all
from tests.integration.stage import Document, Stage, relay, wait_until
from tests.integration.workers.test_caps import WORK
from tests.integration.workers.test_run_inserts import RecordedWakeups, insert_commands
from workers.control.change_result import RefusedError
from workers.control.run_answers import submit_answer
from workers.control.run_cancellation import cancel
from workers.control.run_detail import read_run_detail
from workers.control.run_replay import replay
from workers.control.run_retry import retry_now
from workers.reconciler.order_releases import OrderReleases
from workers.reconciler.reclaim import Reclaim
from workers.reconciler.reconcile_metrics import ReconcileMetrics
from workers.reconciler.reconciler import Reconciler
from workers.settings import Settings
from workers.store.claimed_runs import MongoRunRepository
from workers.store.held_runs import HeldRuns
from workers.store.run import Accepted, Claim, RunRequest, RunState, TriggerEvent
from workers.store.run_document import run_document
from workers.store.run_order import as_head, as_held
from workers.store.run_store import RunStore
from workers.store.worker_losses import MAX_LOSSES

pytestmark = pytest.mark.integration

OUTCOME = {"outcome": {"kind": "completed", "reason": "", "error": None}, "usage": {}, "errors": []}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
KEYS, OF_EACH = 20, 10


def request(event: str, *, key: str | None = "doc", app_id: str = "acme", **fields: Any) -> RunRequest:
    happened = TriggerEvent("database_condition", "changes", event, fired_at=datetime.now(UTC))
    return RunRequest(app_id, "Relay", happened, order_key=key, **fields)


async def accept_runs(store: RunStore, *events: str, **fields: Any) -> list[str]:
    """Inserts the runs one after the other."""
    return [(await store.insert(request(event, **fields))).run_id for event in events]


async def claim_run(store: RunStore, run_id: str) -> Claim:
    claim = await MongoRunRepository(store, owner="w1", lease_s=60).claim(run_id)
    assert claim is not None
    return claim


async def finish_run(store: RunStore, claim: Claim, state: RunState = RunState.SUCCEEDED) -> None:
    """Ends the run like a worker that dies right after, before it releases the next one."""
    question = {"question": {"number": 1, "kind": "message"}} if state is RunState.NEEDS_HUMAN else {}
    await MongoRunRepository(store, owner="w1", lease_s=60).finish(claim, state, {**OUTCOME, **question})


async def run_of(store: RunStore, run_id: str) -> Document:
    run = await store.find(run_id)
    assert run is not None
    return run


async def heads(store: RunStore) -> list[str]:
    return [run["_id"] async for run in store.runs.find({"order_head": {"$exists": True}}).sort("_id", 1)]


async def ready_runs(store: RunStore) -> list[str]:
    return [run["_id"] async for run in store.runs.find({"lane": {"$exists": True}}).sort("_id", 1)]


def reconciler_of(store: RunStore, settings: Settings, woken: RecordedWakeups) -> Reconciler:
    metrics = ReconcileMetrics(CollectorRegistry())
    return Reconciler(store, settings, wakeups=woken, tickets=woken, metrics=metrics)


async def test_only_the_first_of_a_key_may_start_and_the_others_wait_in_order(store: RunStore) -> None:
    first = await store.insert(request("1"))
    second = await store.insert(request("2"))
    elsewhere = [
        await store.insert(request("3", key=key, app_id=app)) for key, app in (("other", "acme"), ("doc", "b"))
    ]

    assert [each.ready for each in (first, second, *elsewhere)] == [True, False, True, True]
    assert set(await heads(store)) == {first.run_id, *(each.run_id for each in elsewhere)}
    held = await run_of(store, second.run_id)
    assert (held["hold"], held["held_by"], "lane" in held) == ("concurrency", "order:acme/doc", False)
    assert await MongoRunRepository(store, owner="w1", lease_s=60).claim(second.run_id) is None


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.FAILED, RunState.PARKED, RunState.NEEDS_HUMAN])
async def test_whatever_a_head_becomes_the_next_run_is_released(store: RunStore, state: RunState) -> None:
    first, second, third = await accept_runs(store, "1", "2", "3")
    await finish_run(store, await claim_run(store, first), state)

    let_go = await store.order.release_next("acme/doc", sends_wakeup=True)

    assert let_go is not None
    assert (let_go["_id"], await heads(store), await ready_runs(store)) == (second, [second], [second])
    assert (await run_of(store, third))["held_by"] == "order:acme/doc"


async def test_a_head_that_is_retried_or_handed_back_keeps_its_turn(store: RunStore) -> None:
    first, second = await accept_runs(store, "1", "2")
    ownership = MongoRunRepository(store, owner="w1", lease_s=60)
    for delay in (timedelta(0), timedelta(hours=1)):
        claim = await claim_run(store, first)
        await ownership.requeue(claim, delay=delay, counts_as_attempt=True, reason="429")

        assert await store.order.release_next("acme/doc", sends_wakeup=True) is None
        assert await heads(store) == [first]

    await retry_now(store, RecordedWakeups(), first, by="me")
    assert await ready_runs(store) == [first]
    with pytest.raises(RefusedError, match="held by the order of acme/doc; it starts as soon as the run before it"):
        await retry_now(store, RecordedWakeups(), second, by="me")


async def test_a_head_whose_worker_died_is_taken_over_before_the_next_one_starts(
    store: RunStore, settings: Settings
) -> None:
    first, second = await accept_runs(store, "1", "2")
    await claim_run(store, first)
    await store.runs.update_one({"_id": first}, {"$set": {"lease.until": LONG_AGO}})

    await reconciler_of(store, settings, RecordedWakeups()).run_pass()

    assert (await ready_runs(store), await heads(store)) == ([first], [first])
    assert (await run_of(store, second))["hold"] == "concurrency"


@pytest.mark.parametrize(
    ("losses", "wish", "state"), [(MAX_LOSSES - 1, None, "parked"), (0, {"by": "me"}, "cancelled")]
)
async def test_a_head_parked_or_ended_by_a_reconciler_releases_the_next_run(
    store: RunStore, settings: Settings, losses: int, wish: Mapping[str, str] | None, state: str
) -> None:
    first, second = await accept_runs(store, "1", "2")
    await claim_run(store, first)
    lost = {"lease.until": LONG_AGO, "worker_losses": losses, "cancel_requested": wish}
    await store.runs.update_one({"_id": first}, {"$set": lost})

    await Reclaim(store).run_pass(Counter())

    assert (await run_of(store, first))["state"] == state
    assert (await heads(store), await ready_runs(store)) == ([second], [second]), (
        "however many keys there are to look at"
    )
    woken = RecordedWakeups()
    await reconciler_of(store, settings, woken).run_pass()
    assert woken.run_ids == [second]


async def test_cancelling_a_head_releases_the_next_and_a_waiting_run_leaves(
    store: RunStore, settings: Settings
) -> None:
    first, second, third = await accept_runs(store, "1", "2", "3")

    await cancel(store, second, by="me")
    await cancel(store, first, by="me")

    assert (await heads(store), await ready_runs(store)) == ([third], [third])
    woken = RecordedWakeups()
    await reconciler_of(store, settings, woken).run_pass()
    assert woken.run_ids == [third], "who cancels has no wake-ups to send"


async def test_an_answered_run_continues_beside_the_head_and_takes_no_turn(store: RunStore) -> None:
    first, second, third = await accept_runs(store, "1", "2", "3")
    await finish_run(store, await claim_run(store, first), RunState.NEEDS_HUMAN)
    await store.order.release_next("acme/doc", sends_wakeup=True)

    await submit_answer(store, RecordedWakeups(), first, question=1, by="me", message="yes")

    assert (await heads(store), await ready_runs(store)) == ([second], [first, second])
    await finish_run(store, await claim_run(store, first))
    assert await store.order.release_next("acme/doc", sends_wakeup=True) is None, "the head goes on"
    assert (await run_of(store, third))["hold"] == "concurrency"


async def test_a_replay_waits_for_no_other_run(store: RunStore) -> None:
    [first, second] = await accept_runs(store, "1", "2")
    await finish_run(store, await claim_run(store, first), RunState.PARKED)
    await store.order.release_next("acme/doc", sends_wakeup=True)

    changed = await replay(store, RecordedWakeups(), first, by="me")

    new = await run_of(store, str(changed.new_run_id))
    assert ("order" in new, new["lane"]) == (False, "acme")
    assert await heads(store) == [second]


async def test_a_given_sequence_beats_acceptance_time_and_priority(
    store: RunStore,
) -> None:
    given = {"1": ("0", 5), "2": ("B", 0), "3": ("A", 9), "4": ("C", 5)}
    run_ids = {
        event: (await store.insert(request(event, order_seq=seq, priority=priority))).run_id
        for event, (seq, priority) in given.items()
    }
    order = []
    for _ in given:
        [head] = await heads(store)
        order.append(head)
        await finish_run(store, await claim_run(store, head))
        await store.order.release_next("acme/doc", sends_wakeup=True)

    assert order == [run_ids[event] for event in ("1", "3", "2", "4")]


async def test_runs_of_one_command_keep_the_order_of_their_calls(store: RunStore) -> None:
    """Nearly all are of one millisecond, where random ids would not sort by arrival."""
    before = await insert_commands(store)
    inserted = await gather_all(store.insert(request(str(number))) for number in range(100))

    assert await insert_commands(store) == before + 1, "nobody tries in vain to be the head beside the first"
    assert [each.ready for each in inserted] == [True] + [False] * 99
    waiting = [run["_id"] async for run in store.runs.find({"hold": "concurrency"}).sort("order.seq", 1)]
    assert waiting == [each.run_id for each in inserted[1:]]


async def test_no_run_that_arrives_as_the_head_leaves_is_left_behind(store: RunStore) -> None:
    """One task inserts and one ends heads, as fast as they can, without a reconciler."""
    done: list[str] = []

    async def end_heads(total: int) -> None:
        while len(done) < total:
            for head in await heads(store):
                await finish_run(store, await claim_run(store, head))
                done.append(head)
                await store.order.release_next("acme/doc", sends_wakeup=True)
            await asyncio.sleep(0)

    async def insert_some(name: str) -> list[str]:
        return await accept_runs(store, *(f"{name} {number}" for number in range(40)))

    async with asyncio.timeout(30):
        one, two, _ = await asyncio.gather(insert_some("a"), insert_some("b"), end_heads(80))

    assert sorted(done) == sorted([*one, *two])
    assert [each for each in done if each in one] == one, "each sender's in its order"
    assert [each for each in done if each in two] == two


MOMENTS = 9  # before and after each command of an insert


@pytest.mark.parametrize("dies", [False, True], ids=["its worker goes on", "its worker dies"])
@pytest.mark.parametrize("waiting", [0, 1], ids=["alone", "behind another"])
async def test_the_next_run_is_released_whenever_its_head_ends_during_an_insert(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, waiting: int, dies: bool
) -> None:
    for moment in range(MOMENTS):
        key = f"doc {moment}"
        first, *others = await accept_runs(store, *(f"{moment} {each}" for each in range(1 + waiting)), key=key)
        head = HeadEndsAt(moment, RunStore(store.database), await claim_run(store, first), dies=dies)

        with monkeypatch.context() as patched:
            for part, name in (
                (store.order, "keys_without_head"),
                (store.order, "keys_with_waiters"),
                (store.runs, "insert_many"),
            ):
                patched.setattr(part, name, head.wrap_step(getattr(part, name)))
            newest = (await store.insert(request(f"{moment} last", key=key))).run_id
            await head.reach_moment()
        if dies:
            await OrderReleases(store, RecordedWakeups()).run_pass(Counter())

        assert (await run_of(store, first))["state"] == "succeeded"
        assert await store.order.head_of(f"acme/{key}") == [*others, newest][0]
        assert ("lane" in await run_of(store, newest)) is not bool(waiting)
    assert head.passed == MOMENTS, "all moments were tried"


class HeadEndsAt:
    """Ends the head at this moment of another operation."""

    def __init__(self, moment: int, store: RunStore, claim: Claim, *, dies: bool) -> None:
        self.passed = 0
        self._moment, self._store, self._claim, self._dies = moment, store, claim, dies

    async def reach_moment(self) -> None:
        self.passed += 1
        if self.passed == self._moment + 1:
            await finish_run(self._store, self._claim)
            if not self._dies:
                await self._store.order.release_next(self._claim.document["order_head"], sends_wakeup=True)

    def wrap_step(self, do: Any) -> Any:
        async def with_moments(*args: Any, **keywords: Any) -> Any:
            await self.reach_moment()
            result = await do(*args, **keywords)
            await self.reach_moment()
            return result

        return with_moments


async def test_a_run_arriving_as_the_head_leaves_does_not_overtake(store: RunStore) -> None:
    first, second = await accept_runs(store, "1", "2")
    await finish_run(store, await claim_run(store, first))  # and its worker is about to release the next one

    third = await store.insert(request("3"))

    assert not third.ready
    assert (await heads(store), await ready_runs(store)) == ([second], [second]), "let go by whoever saw it"


async def test_the_reconciler_releases_what_no_worker_released(store: RunStore, settings: Settings) -> None:
    stranded = [await accept_runs(store, f"{key} 1", f"{key} 2", key=key) for key in "abcde"]
    for first, _ in stranded:
        await finish_run(store, await claim_run(store, first))
    woken = RecordedWakeups()

    done = await reconciler_of(store, settings, woken).run_pass()

    seconds = [second for _, second in stranded]
    assert done["order"] == {"concurrency": 5}
    assert (await heads(store), sorted(woken.run_ids)) == (seconds, seconds)


async def test_very_many_unreleased_runs_are_released_in_bounded_parts(store: RunStore) -> None:
    await store.runs.insert_many([_document(f"doc {number}", as_held, "1") for number in range(5)])
    orders, let_go = OrderReleases(store, RecordedWakeups(), max_released=2), []

    for _ in range(4):
        counts: Counter[str] = Counter()
        await orders.run_pass(counts)
        let_go.append(counts["concurrency"])

    assert let_go == [2, 2, 1, 0]


async def test_a_head_that_an_older_worker_ended_gives_up_its_turn(store: RunStore, settings: Settings) -> None:
    first, second = await accept_runs(store, "1", "2")
    await store.runs.update_one({"_id": first}, {"$set": {"state": "succeeded"}, "$unset": {"lane": 1}})

    await reconciler_of(store, settings, RecordedWakeups()).run_pass()

    assert await heads(store) == [second]


async def test_a_hundred_thousand_keys_are_looked_through_in_bounded_parts(store: RunStore) -> None:
    """With fewer keys here, and smaller parts."""
    keys = [f"doc {number:04}" for number in range(200)]
    await store.runs.insert_many([_document(key, as_head, "1") for key in keys if key != "doc 0123"])
    await store.runs.insert_many([_document(key, as_held, "2") for key in keys])
    await store.runs.insert_many([_document("doc 0000", as_held, f"x {number}") for number in range(200)])
    orders, woken = OrderReleases(store, RecordedWakeups(), max_entries=50), []
    await store.database.command("profile", 2)

    for _ in range(6):
        counts: Counter[str] = Counter()
        await orders.run_pass(counts)
        woken.append(counts["concurrency"])

    await store.database.command("profile", 0)
    assert sum(woken) == 1, "a key of which very many wait is passed by"
    assert await store.runs.count_documents({"order_head": "acme/doc 0123"}) == 1
    profiled = store.database["system.profile"].find({"ns": store.runs.full_name, "op": "query"})
    assert max([each["keysExamined"] async for each in profiled]) <= 200


def _document(key: str, place: Any, event: str) -> Document:
    asked = request(f"{key} {event}", key=key)
    placed: Document = place(run_document(asked, now=datetime.now(UTC), republish_after=timedelta(hours=1)))
    return placed


async def test_reading_the_limits_scans_no_run_that_waits_in_order(store: RunStore) -> None:
    await store.runs.insert_many([_document(f"doc {number}", as_held, "1") for number in range(200)])
    await store.runs.insert_one({**_document("x", as_held, "2"), "held_by": "app:acme"})
    await store.runs.insert_one({**_document("y", as_held, "3"), "held_by": "workflow:Relay"})
    await store.database.command("profile", 2)

    limits = [str(limit) for limit in await HeldRuns(store).list_limits()]

    await store.database.command("profile", 0)
    assert limits == ["app:acme", "workflow:Relay"]
    plans = await store.database["system.profile"].find({"ns": store.runs.full_name}).to_list(None)
    assert sum(plan["keysExamined"] for plan in plans) < 10


async def test_a_waiting_run_names_the_run_it_waits_for(store: RunStore) -> None:
    first, second = await accept_runs(store, "1", "2")

    story = await read_run_detail(store, second)

    assert (story["waits_for"], story["order"]["key"], "order_head" in story) == (first, "acme/doc", False)
    assert "waits_for" not in await read_run_detail(store, first)


async def test_it_waits_for_its_time_and_for_its_turn(store: RunStore) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    [first] = await accept_runs(store, "1")
    [second, third] = await accept_runs(store, "2", "3", not_before=later)
    await finish_run(store, await claim_run(store, first))

    let_go = await store.order.release_next("acme/doc", sends_wakeup=True)

    assert let_go is not None
    assert "lane" not in let_go
    run = await run_of(store, second)
    assert (run["hold"], run["not_before"], run["wake_at"]) == (None, run["wake_at"], run["not_before"])
    assert (await heads(store), await ready_runs(store)) == ([second], []), (
        "the third waits behind it, though both are late"
    )
    assert (await run_of(store, third))["hold"] == "concurrency"


def write_work_package(stage: Stage) -> None:
    package = relay("Work", ["A"])
    package["tools"] = {"tools": [{"agent": "A", "file": "work.py", "function": "work"}]}
    package["tools/work.py"] = WORK.format(log=str(stage.folder / "work.log")).replace("sleep(0.1)", "sleep(0.02)")
    stage.package("Work", package)
    stage.answers({"A": [{"tool_calls": [{"name": "work"}]}, {"text": "worked"}]})


async def wait_for_all_ends(stage: Stage, inserted: Sequence[Accepted]) -> list[Document]:
    run_ids = {"_id": {"$in": [each.run_id for each in inserted]}}

    async def there() -> bool:
        over = {"state": {"$in": ["succeeded", "failed", "cancelled", "parked"]}}
        return await stage.store.runs.count_documents({**run_ids, **over}) == len(inserted)

    await wait_until("all have ended", there, within_s=90)
    return await stage.store.runs.find(run_ids).sort("_id", 1).to_list(None)


def assert_one_at_a_time_and_in_order(runs: Sequence[Document]) -> None:
    by_key: dict[str, list[Document]] = {}
    for run in sorted(runs, key=lambda run: str(run["order"]["seq"])):
        by_key.setdefault(run["order"]["key"], []).append(run)
    for of_key in by_key.values():
        for before, after in itertools.pairwise(of_key):
            assert before["finished_at"] <= after["claimed_at"], (before["_id"], after["_id"])


async def test_two_workers_keep_the_order_of_every_key_and_work_on_many_at_once(stage: Stage) -> None:
    write_work_package(stage)
    await stage.start_worker()
    await stage.start_worker()

    inserted: list[Accepted] = []
    for _ in range(OF_EACH):
        inserted += await gather_all(stage.accept("Work", order_key=f"doc {key}") for key in range(KEYS))
    runs = await wait_for_all_ends(stage, inserted)

    assert {run["state"] for run in runs} == {"succeeded"}
    assert_one_at_a_time_and_in_order(runs)
    assert await stage.store.runs.count_documents({"order_head": {"$exists": True}}) == 0


async def test_a_worker_killed_with_a_head_blocks_no_run_for_ever(stage: Stage) -> None:
    stage.package("Work", relay("Work", ["A"]))
    stage.answers({"A": [{"text": "done", "delay_s": 1.5}]})
    killed = await stage.start_worker()
    inserted = [await stage.accept("Work", order_key="doc") for _ in range(3)]

    async def is_running() -> bool:
        return bool((await stage.run(inserted[0].run_id))["state"] == "running")

    await wait_until("the first one runs", is_running)
    killed.send_signal(signal.SIGKILL)
    stage.answers({"A": [{"text": "done"}]})
    await stage.start_worker()
    last = await stage.reconcile_until_end(inserted[-1].run_id, within_s=40)

    runs = await wait_for_all_ends(stage, inserted)
    assert ({run["state"] for run in runs}, last["order"]["key"]) == ({"succeeded"}, "acme/doc")
    assert [line["ended"] for line in runs[0]["history"]] == ["worker_lost", "succeeded"]
    assert_one_at_a_time_and_in_order(runs)
