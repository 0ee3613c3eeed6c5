"""The reconciler on a real MongoDB: its repairs, and that only one of several makes each."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from accounting.infra.aio import gather_all
from accounting.ledger.ledger import Ledger
from accounting.prices import PriceTable
from accounting.usage import ModelCall, RunOwner, Tokens, UsageTotals
from workers.reconciler.reclaim import Reclaim
from workers.reconciler.reconcile_metrics import ReconcileMetrics
from workers.reconciler.reconciler import Reconciler
from workers.settings import Settings
from workers.store.claimed_runs import MongoRunRepository
from workers.store.due_runs import NOT_CLAIMED, NOT_LISTED
from workers.store.run import Claim, LeaseLostError, RunRequest, RunState, TriggerEvent
from workers.store.run_batches import BATCH, RunQuery
from workers.store.run_store import RunStore
from workers.store.worker_losses import EXPIRED_LEASE, MAX_ISOLATED_LOSSES, MAX_LOSSES, WorkerLosses

pytestmark = pytest.mark.integration

PAST = datetime(2020, 1, 1, tzinfo=UTC)


class RecordingBroker:
    """A broker as a reconciler sees it: messages wait until a worker takes one or all are lost."""

    def __init__(self) -> None:
        self.run_ids: list[str] = []
        self.silent = False

    def send(self, run_id: str) -> None:
        self.run_ids.append(run_id)

    async def count_waiting(self) -> int | None:
        return None if self.silent else len(self.run_ids)


@pytest.fixture
def broker() -> RecordingBroker:
    return RecordingBroker()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def reconciler(store: RunStore, settings: Settings, broker: RecordingBroker, registry: CollectorRegistry) -> Reconciler:
    return Reconciler(store, settings, wakeups=broker, tickets=broker, metrics=ReconcileMetrics(registry))


def _another_reconciler(store: RunStore, settings: Settings, broker: RecordingBroker) -> Reconciler:
    return Reconciler(store, settings, wakeups=broker, tickets=broker, metrics=ReconcileMetrics(CollectorRegistry()))


async def _insert_queued_run(store: RunStore, number: int = 0, **changes: Any) -> str:
    event = TriggerEvent("schedule", "nightly", str(number), fired_at=datetime.now(UTC))
    run_id = (await store.insert(RunRequest("acme", "Digest", event))).run_id
    if changes:
        await store.runs.update_one({"_id": run_id}, {"$set": changes})
    return run_id


async def _insert_abandoned_run(store: RunStore, **changes: Any) -> Claim:
    """Inserts a claimed run with an expired lease, whose worker died."""
    claim = await MongoRunRepository(store, owner="dead", lease_s=30).claim(await _insert_queued_run(store))
    assert claim is not None
    await store.runs.update_one({"_id": claim.run_id}, {"$set": {"lease.until": PAST, **changes}})
    return claim


def _call(number: int) -> ModelCall:
    """Makes a call of a model without a price."""
    tokens = Tokens(input=10, output=5)
    return ModelCall(
        number, "A", "p", "unpriced", tokens, "reported", ok=True, started_at=datetime.now(UTC), duration_s=0.5
    )


async def _find(store: RunStore, run_id: str) -> dict[str, Any]:
    document = await store.find(run_id)
    assert document is not None
    return document


async def _make_overdue(store: RunStore) -> None:
    await store.runs.update_many({"state": "queued"}, {"$set": {"wake_at": PAST}})


async def test_a_run_whose_message_was_lost_is_published_again(
    store: RunStore, settings: Settings, reconciler: Reconciler, broker: RecordingBroker
) -> None:
    run_id = await _insert_queued_run(store, wake_at=PAST)

    assert await reconciler.run_pass() == {"republish": {"lost": 1}}

    assert broker.run_ids == [run_id]
    document = await _find(store, run_id)
    assert document["wakes"] == 1
    pause = document["wake_at"] - datetime.now(UTC)
    assert pause.total_seconds() == pytest.approx(settings.republish_after_s, abs=1.5)


async def test_a_run_accepted_by_a_host_with_a_fast_clock_is_not_delayed(
    store: RunStore, settings: Settings, reconciler: Reconciler
) -> None:
    run_id = await _insert_queued_run(store, wake_at=datetime.now(UTC) + timedelta(hours=5))
    await _insert_queued_run(store, 2)

    assert await reconciler.run_pass() == {"republish": {"clock": 1}}

    pause = (await _find(store, run_id))["wake_at"] - datetime.now(UTC)
    assert pause.total_seconds() == pytest.approx(settings.republish_after_s, abs=1.5)


async def test_what_is_not_due_held_or_finished_is_left_alone(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    left_alone: list[dict[str, Any]] = [
        {"wake_at": later},
        {"wake_at": PAST, "lane": None, "hold": "budget"},
        {"wake_at": PAST, "lane": None, "not_before": later},
        {"wake_at": PAST, "lane": None, "state": "succeeded"},
    ]
    for number, changes in enumerate(left_alone):
        await _insert_queued_run(store, number, **changes)
    await store.runs.update_many({"lane": None}, {"$unset": {"lane": ""}})

    assert await reconciler.run_pass() == {"republish": {"clock": 1}}  # after an hour every wake-up counts as lost
    assert broker.run_ids == []


async def test_a_retry_whose_time_has_come_is_ready_and_gets_a_ticket(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker
) -> None:
    claim = await MongoRunRepository(store, owner="w", lease_s=30).claim(await _insert_queued_run(store))
    assert claim is not None
    await MongoRunRepository(store, owner="w", lease_s=30).requeue(
        claim, delay=timedelta(hours=1), counts_as_attempt=True, reason="429"
    )
    assert await reconciler.run_pass() == {}
    await store.runs.update_one({"_id": claim.run_id}, {"$set": {"wake_at": PAST, "not_before": PAST}})
    broker.run_ids.append("another's, which does not count for this one")

    assert await reconciler.run_pass() == {"republish": {"due": 1}}

    assert (await _find(store, claim.run_id))["lane"] == "acme"
    assert broker.run_ids[1:] == [claim.run_id]


async def test_a_queued_run_of_an_older_version_gets_its_lane(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker
) -> None:
    run_id = await _insert_queued_run(store, wake_at=PAST)
    await store.runs.update_one({"_id": run_id}, {"$unset": {"lane": "", "cancel_requested": "", "history": ""}})

    assert await reconciler.run_pass() == {"republish": {"older_version": 1}}

    assert (await _find(store, run_id))["lane"] == "acme"
    assert broker.run_ids == [run_id]


async def test_runs_that_an_older_worker_left_in_their_lanes_are_taken_out(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker
) -> None:
    left = await gather_all(_insert_queued_run(store, number) for number in range(BATCH + 1))
    worked_on = {"state": "succeeded", "held_by": "released:app:acme"}
    await store.runs.update_many({"_id": {"$in": left}}, {"$set": {**worked_on, "wake_at": PAST}})
    waiting = await _insert_queued_run(store, BATCH + 1)
    await _make_overdue(store)
    await store.runs.update_many({"_id": {"$in": left}}, {"$set": {"wake_at": PAST}})  # long before the waiting one

    assert await reconciler.run_pass() == {"republish": {"lost": 1, "lane": BATCH + 1}}

    assert broker.run_ids == [waiting]
    found = await store.runs.find({"$or": [{"lane": {"$exists": True}}, {"held_by": {"$exists": True}}]}).to_list(None)
    assert [run["_id"] for run in found] == [waiting]


async def test_a_run_that_was_handed_back_is_published_at_once(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker
) -> None:
    ownership = MongoRunRepository(store, owner="w", lease_s=30)
    claim = await ownership.claim(await _insert_queued_run(store))
    assert claim is not None
    await ownership.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason="stopping")

    assert await reconciler.run_pass() == {"republish": {"given_back": 1}}
    assert broker.run_ids == [claim.run_id]


async def test_workers_that_return_find_as_many_tickets_as_runs(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker
) -> None:
    count = 2 * BATCH + 50
    await gather_all(_insert_queued_run(store, number) for number in range(count))

    for _ in range(5):
        await _make_overdue(store)
        await reconciler.run_pass()

    assert len(set(broker.run_ids)) == len(broker.run_ids) == count
    before = await store.runs.find().sort("_id").to_list(None)
    await _make_overdue(store)
    await reconciler.run_pass()
    after = await store.runs.find().sort("_id").to_list(None)
    assert [run["wakes"] for run in after] == [run["wakes"] for run in before] == [1] * count


async def test_a_broker_that_lost_everything_is_filled_up_again_at_once(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker
) -> None:
    count = 2 * BATCH + 50
    await gather_all(_insert_queued_run(store, number) for number in range(count))
    for _ in range(8):  # with a pause that doubles, this outage would have spread repeats over hours
        await _make_overdue(store)
        await store.runs.update_many({}, {"$inc": {"wakes": 1}})
        await reconciler.run_pass()

    broker.run_ids.clear()
    await _make_overdue(store)

    assert await reconciler.run_pass() == {"republish": {"lost": count}}
    assert len(set(broker.run_ids)) == count


async def test_missing_tickets_are_sent_for_the_runs_that_have_waited_longest(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker
) -> None:
    run_ids = [await _insert_queued_run(store, number, wake_at=PAST + timedelta(days=number)) for number in range(5)]
    broker.run_ids += ["somebody's"] * 3

    assert await reconciler.run_pass() == {"republish": {"lost": 2}}
    assert set(broker.run_ids[3:]) == set(run_ids[:2])  # they are woken concurrently


async def test_while_the_broker_is_silent_nothing_is_repeated_or_forgotten(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker
) -> None:
    run_id = await _insert_queued_run(store, wake_at=PAST)
    broker.silent = True

    for _ in range(3):
        assert await reconciler.run_pass() == {}

    broker.silent = False
    assert await reconciler.run_pass() == {"republish": {"lost": 1}}
    assert broker.run_ids == [run_id]


async def test_a_released_run_keeps_the_note_of_its_release(store: RunStore, reconciler: Reconciler) -> None:
    run_id = await _insert_queued_run(store, wake_at=PAST, held_by="some limit's note")

    assert await reconciler.run_pass() == {"republish": {"lost": 1}}

    assert (await _find(store, run_id))["held_by"] == "some limit's note"


async def test_several_reconcilers_publish_once(store: RunStore, settings: Settings) -> None:
    count = 60
    run_ids = await gather_all(_insert_queued_run(store, number, wake_at=PAST) for number in range(count))
    brokers = [RecordingBroker() for _ in range(4)]

    await gather_all(_another_reconciler(store, settings, each).run_pass() for each in brokers)

    assert sorted(run_id for each in brokers for run_id in each.run_ids) == sorted(run_ids)


async def test_a_dead_workers_run_is_requeued_published_and_gets_a_higher_token(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker
) -> None:
    dead = await _insert_abandoned_run(store)

    assert await reconciler.run_pass() == {"reclaim": {"queued": 1}, "republish": {"given_back": 1}}

    assert broker.run_ids == [dead.run_id]
    claim = await MongoRunRepository(store, owner="next", lease_s=30).claim(dead.run_id)
    assert claim is not None
    assert claim.token > dead.token
    assert claim.attempt == 1
    assert claim.document["worker_losses"] == 1
    with pytest.raises(LeaseLostError):
        await MongoRunRepository(store, owner="dead", lease_s=30).pin_package(dead, "stale")


async def test_a_run_that_keeps_losing_workers_is_parked_with_reason_and_usage(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker
) -> None:
    dead = await _insert_abandoned_run(store, worker_losses=MAX_LOSSES - 1)
    owner = RunOwner(dead.run_id, "acme", None, dead.run_id, "Digest", "schedule")
    for number in (1, 2):
        await Ledger(store.database, PriceTable()).record(owner, lease_token=dead.token, call=_call(number))

    assert await reconciler.run_pass() == {"reclaim": {"parked": 1}, "add_up": {"added": 2}}

    document = await _find(store, dead.run_id)
    assert document["state"] == RunState.PARKED
    assert document["outcome"] == {"kind": "worker_lost", "reason": "its worker was lost 20 times", "error": None}
    assert {name: document["usage"][name] for name in ("calls", "input_tokens", "missing")} == {
        "calls": 2,
        "input_tokens": 20,
        "missing": 0,
    }
    assert document["usage"]["cost_usd"] is None
    assert document["lease"] == {"owner": None, "token": dead.token, "until": None}
    assert document["finished_at"] is not None
    assert broker.run_ids == []


async def test_a_parked_run_that_called_no_model_used_nothing(store: RunStore, reconciler: Reconciler) -> None:
    dead = await _insert_abandoned_run(store, worker_losses=MAX_LOSSES - 1)

    await reconciler.run_pass()

    assert (await _find(store, dead.run_id))["usage"] == UsageTotals().as_json()


@pytest.mark.parametrize("losses", [0, MAX_LOSSES - 1], ids=["would be queued", "would be parked"])
@pytest.mark.parametrize(
    "change",
    [
        {"lease.until": datetime.now(UTC) + timedelta(hours=1)},
        {"lease.token": 2},
        {"state": "succeeded"},
        {"cancel_requested": {"at": PAST, "by": "ada"}},
        {"worker_losses": 2, "turn": 1},
    ],
    ids=["renewed", "taken over and lost again", "finished", "asked to cancel", "got on"],
)
async def test_a_run_that_changed_after_it_was_read_is_left_alone(
    store: RunStore, change: dict[str, Any], losses: int
) -> None:
    dead = await _insert_abandoned_run(store, worker_losses=losses)
    as_read = await _find(store, dead.run_id)
    await store.runs.update_one({"_id": dead.run_id}, {"$set": change})
    before = await _find(store, dead.run_id)

    assert await Reclaim(store).reclaim(as_read) is None

    assert await _find(store, dead.run_id) == before


async def test_wakeups_are_counted_anew_for_a_reclaimed_run(store: RunStore, reconciler: Reconciler) -> None:
    dead = await _insert_abandoned_run(store, wakes=4)

    # One pass reclaims and sends the first new wake-up.
    await reconciler.run_pass()

    assert (await _find(store, dead.run_id))["wakes"] == 1


@pytest.mark.parametrize(("losses", "least_s", "most_s"), [(2, 5, 15), (3, 10, 30), (12, 150, 450)])
async def test_a_run_alone_that_lost_its_worker_backs_off_without_a_solo_loss(
    store: RunStore, reconciler: Reconciler, losses: int, least_s: float, most_s: float
) -> None:
    suspect = await _insert_abandoned_run(store, worker_losses=losses, losses_alone=0, **{"lease.alone": True})

    await reconciler.run_pass()

    run = await _find(store, suspect.run_id)
    assert (run["state"], "lane" in run, run["wake_at"]) == ("queued", False, run["not_before"])
    assert least_s <= (run["not_before"] - run["history"][-1]["until"]).total_seconds() <= most_s
    assert (run["worker_losses"], run["losses_alone"], run["history"][-1]["alone"]) == (losses + 1, 0, True)


@pytest.mark.parametrize(("losses", "lane"), [(0, "acme"), (1, "alone!acme"), (7, "alone!acme")])
async def test_a_run_that_lost_two_workers_is_in_the_lane_of_solo_runs(
    store: RunStore, reconciler: Reconciler, losses: int, lane: str
) -> None:
    lost = await _insert_abandoned_run(store, worker_losses=losses)

    await reconciler.run_pass()

    run = await _find(store, lost.run_id)
    assert (run["worker_losses"], run["lane"], run["not_before"]) == (losses + 1, lane, None)
    assert "alone" not in run["history"][-1]


async def test_losses_alone_count_to_five_and_a_turn_clears_them(store: RunStore) -> None:
    """The worker that has seen the process end charges them."""
    run_id = await _insert_queued_run(store, lane="alone!acme", worker_losses=2)
    ownership, losses = MongoRunRepository(store, owner="here", lease_s=30), WorkerLosses(store)
    states = []
    for number in range(1, MAX_ISOLATED_LOSSES + 1):
        claim = await ownership.claim_first("alone!acme")
        assert claim is not None
        assert (claim.is_isolated, claim.owner.startswith("here/alone-")) == (True, True)
        states.append(await losses.charge(dict(claim.document), extra_query={}, cause="it died", seen_isolated=True))
        run = await _find(store, run_id)
        assert (run["worker_losses"], run["losses_alone"]) == (2 + number, number)
        await store.runs.update_one({"_id": run_id}, {"$set": {"lane": "alone!acme", "not_before": None}})

    assert states == [RunState.QUEUED] * (MAX_ISOLATED_LOSSES - 1) + [RunState.PARKED]
    assert run["outcome"]["reason"] == "its worker was lost 7 times, 5 of them while it ran alone"

    other = await _insert_queued_run(store, 1, worker_losses=4, losses_alone=2)
    claim = await ownership.claim(other)
    assert claim is not None
    await ownership.commit_turn(claim, number=1, turn={}, checkpoint={})
    await ownership.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason="this worker is stopping")
    run = await _find(store, other)
    assert (run["worker_losses"], run["losses_alone"], run["lane"]) == (0, 0, "acme")


async def test_a_live_lease_is_left_alone(store: RunStore, reconciler: Reconciler) -> None:
    claim = await MongoRunRepository(store, owner="alive", lease_s=30).claim(await _insert_queued_run(store))
    assert claim is not None

    assert await reconciler.run_pass() == {}
    assert (await _find(store, claim.run_id))["lease"]["owner"] == "alive"


async def test_several_reconcilers_count_one_loss(store: RunStore, settings: Settings) -> None:
    dead = await _insert_abandoned_run(store)

    passes = await gather_all(_another_reconciler(store, settings, RecordingBroker()).run_pass() for _ in range(4))

    assert sum(each.get("reclaim", {}).get("queued", 0) for each in passes) == 1
    assert sum(each.get("republish", {}).get("given_back", 0) for each in passes) == 1
    assert (await _find(store, dead.run_id))["worker_losses"] == 1


@pytest.mark.parametrize("losses", [0, MAX_LOSSES - 1])
async def test_a_run_with_a_cancel_request_ends_with_its_worker(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker, losses: int
) -> None:
    dead = await _insert_abandoned_run(store, worker_losses=losses, cancel_requested={"at": PAST, "by": "ada"})
    owner = RunOwner(dead.run_id, "acme", None, dead.run_id, "Digest", "schedule")
    await Ledger(store.database, PriceTable()).record(owner, lease_token=dead.token, call=_call(1))

    assert await reconciler.run_pass() == {"reclaim": {"cancelled": 1}, "add_up": {"added": 1}}

    document = await _find(store, dead.run_id)
    assert document["state"] == RunState.CANCELLED
    assert document["outcome"] == {"kind": "cancelled", "reason": "cancelled by ada", "error": None}
    assert document["usage"]["calls"] == 1
    assert document["lease"] == {"owner": None, "token": dead.token, "until": None}
    assert document["finished_at"] is not None
    assert "lane" not in document
    assert [line["ended"] for line in document["history"]] == ["worker_lost"]
    assert broker.run_ids == []


async def test_a_step_that_fails_keeps_no_other_from_its_work(
    store: RunStore, reconciler: Reconciler, broker: RecordingBroker, registry: CollectorRegistry
) -> None:
    odd = await _insert_abandoned_run(store, worker_losses="many")
    lost = await _insert_queued_run(store, 1, wake_at=PAST)

    assert await reconciler.run_pass() == {"republish": {"lost": 1}}

    assert broker.run_ids == [lost]
    assert registry.get_sample_value("unattended_reconcile_faults_total", {"step": "reclaim"}) == 1
    assert registry.get_sample_value("unattended_reconcile_last_success_timestamp_seconds") == 0
    await store.runs.update_one({"_id": odd.run_id}, {"$set": {"worker_losses": 0}})
    await reconciler.run_pass()
    assert registry.get_sample_value("unattended_reconcile_last_success_timestamp_seconds") == pytest.approx(
        datetime.now(UTC).timestamp(), abs=30
    )


async def test_a_store_that_is_away_ends_the_pass(settings: Settings) -> None:
    # Reachable, but never the right server: refused connections would leave open sockets of the driver.
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
        settings.mongodb_url, replicaSet="another", serverSelectionTimeoutMS=100, serverMonitoringMode="poll"
    )
    registry = CollectorRegistry()
    reconciler = Reconciler(
        RunStore(client["nowhere"]),
        settings,
        wakeups=RecordingBroker(),
        tickets=RecordingBroker(),
        metrics=ReconcileMetrics(registry),
    )

    with pytest.raises(PyMongoError):
        await reconciler.run_pass()

    await client.close()
    assert registry.get_sample_value("unattended_reconcile_faults_total", {"step": "reclaim"}) == 0
    assert registry.get_sample_value("unattended_reconcile_seconds_count") == 0


async def test_what_was_done_is_counted_by_its_reason(
    store: RunStore, reconciler: Reconciler, registry: CollectorRegistry
) -> None:
    await _insert_abandoned_run(store)
    await _insert_queued_run(store, 1, wake_at=PAST)

    await reconciler.run_pass()

    assert registry.get_sample_value("unattended_reclaimed_total", {"result": "queued"}) == 1
    assert registry.get_sample_value("unattended_republished_total", {"reason": "lost"}) == 1
    assert registry.get_sample_value("unattended_republished_total", {"reason": "given_back"}) == 1
    assert registry.get_sample_value("unattended_reconcile_seconds_count") == 1


@pytest.mark.parametrize("question", [EXPIRED_LEASE, NOT_LISTED, NOT_CLAIMED], ids=lambda each: each.index)
async def test_a_question_costs_what_is_due_not_what_exists(store: RunStore, question: RunQuery) -> None:
    await gather_all(_insert_queued_run(store, number) for number in range(20))
    overdue_but_listed = {"wake_at": PAST} if question is NOT_LISTED else {}
    await store.runs.update_many({}, {"$set": {"workflow": "Digest", **overdue_but_listed}})

    plan = await store.runs.find(question.query, hint=question.index).sort(question.sort, 1).explain()

    assert plan["executionStats"]["totalDocsExamined"] == 0
    assert plan["executionStats"]["totalKeysExamined"] <= 1
    assert "'SORT'" not in str(plan["queryPlanner"]["winningPlan"])


async def test_a_locked_run_is_waited_for_once_in_a_pass(store: RunStore, caplog: pytest.LogCaptureFixture) -> None:
    """A worker that is killed in a write-back leaves it, first in line before more than one batch of others."""
    reclaim = Reclaim(store, locked_after_s=0.5, batch_size=2)
    run_ids = [await _insert_queued_run(store, number) for number in range(8)]
    lost = {"state": "running", "lease": {"owner": "dead", "token": 1, "until": PAST}}
    await store.runs.update_many({}, {"$set": lost, "$unset": {"lane": ""}})
    locked = run_ids[0]
    await store.runs.update_one({"_id": locked}, {"$set": {"lease.until": PAST - timedelta(days=1)}})

    async with store.database.client.start_session() as dead:
        await dead.start_transaction()
        await store.runs.update_one({"_id": locked}, {"$set": {"turn": 1}}, session=dead)
        counts: Counter[str] = Counter()
        await reclaim.run_pass(counts)
        await dead.abort_transaction()

    assert counts == {"queued": len(run_ids) - 1}
    put_off = [record for record in caplog.records if record.getMessage() == "reclaim_put_off"]
    assert [vars(record)["run_id"] for record in put_off] == [locked]
    await reclaim.run_pass(counts)
    assert (await _find(store, locked))["state"] == "queued"
