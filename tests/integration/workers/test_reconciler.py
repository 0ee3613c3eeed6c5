"""The reconciler against a real MongoDB: what it brings back, and that only one of several does it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounting.ledger import Ledger
from accounting.prices import PriceTable
from accounting.usage import ModelCall, RunOwner, Tokens, UsageTotals
from workers.ownership import Ownership
from workers.reconciling.reconciler import BATCH, DUE_WAKE_UP, EXPIRED_LEASE, MAX_WORKER_LOSSES, Reconciled, Reconciler
from workers.run import Claim, LeaseLostError, RunRequest, RunState, TriggerEvent
from workers.run_store import RunStore
from workers.together import together

pytestmark = pytest.mark.integration

PAST = datetime(2020, 1, 1, tzinfo=UTC)


class Heard:
    """The publisher's side: which runs were told about."""

    def __init__(self) -> None:
        self.run_ids: list[str] = []

    def send(self, run_id: str) -> None:
        self.run_ids.append(run_id)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def reconciler(store: RunStore, heard: Heard) -> Reconciler:
    return Reconciler(store, heard, 15)


async def _queued(store: RunStore, number: int = 0, **changes: Any) -> str:
    event = TriggerEvent("schedule", "nightly", str(number), fired_at=datetime.now(UTC))
    run_id = (await store.insert(RunRequest("acme", "Digest", event))).run_id
    if changes:
        await store.runs.update_one({"_id": run_id}, {"$set": changes})
    return run_id


async def _abandoned(store: RunStore, **changes: Any) -> Claim:
    """A run whose worker died: claimed, and the lease ran out."""
    claim = await Ownership(store, owner="dead", lease_s=30).claim(await _queued(store))
    assert claim is not None
    await store.runs.update_one({"_id": claim.run_id}, {"$set": {"lease.until": PAST, **changes}})
    return claim


def _call(number: int) -> ModelCall:
    """By a model that nobody has a price for."""
    tokens = Tokens(input=10, output=5)
    return ModelCall(number, "A", "p", "unpriced", tokens, "reported", ok=True, started_at=PAST, duration_s=0.5)


async def _find(store: RunStore, run_id: str) -> dict[str, Any]:
    document = await store.find(run_id)
    assert document is not None
    return document


async def test_a_run_whose_message_was_lost_is_published_again(
    store: RunStore, reconciler: Reconciler, heard: Heard
) -> None:
    run_id = await _queued(store, wake_at=PAST)

    assert await reconciler.run_pass() == Reconciled(republished=1)

    assert heard.run_ids == [run_id]
    document = await _find(store, run_id)
    assert document["wakes"] == 1
    assert document["wake_at"] > datetime.now(UTC) + timedelta(seconds=10)


async def test_repeats_are_spaced_by_doubling_up_to_a_limit(store: RunStore, reconciler: Reconciler) -> None:
    waits = []
    for wakes in (0, 1, 3, 6, 40):
        run_id = await _queued(store, wakes, wake_at=PAST, wakes=wakes)
        await reconciler.run_pass()
        wait = (await _find(store, run_id))["wake_at"] - datetime.now(UTC)
        waits.append(round(wait.total_seconds() / 15))

    assert waits == [1, 2, 8, 64, 64]


async def test_what_is_not_due_held_or_finished_is_left_alone(
    store: RunStore, reconciler: Reconciler, heard: Heard
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    await _queued(store, 1)
    await _queued(store, 2, wake_at=PAST, hold="budget")
    await _queued(store, 3, wake_at=PAST, not_before=later)
    await _queued(store, 4, wake_at=PAST, state="succeeded")

    assert await reconciler.run_pass() == Reconciled()
    assert heard.run_ids == []


async def test_a_backlog_larger_than_a_batch_is_worked_off_in_one_pass(
    store: RunStore, reconciler: Reconciler, heard: Heard
) -> None:
    count = 2 * BATCH + 1
    await together(_queued(store, number, wake_at=PAST) for number in range(count))

    assert await reconciler.run_pass() == Reconciled(republished=count)
    assert len(set(heard.run_ids)) == count


async def test_several_reconcilers_publish_once(store: RunStore) -> None:
    count = 60
    run_ids = await together(_queued(store, number, wake_at=PAST) for number in range(count))
    heard = [Heard() for _ in range(4)]

    await together(Reconciler(store, each, 15).run_pass() for each in heard)

    assert sorted(run_id for each in heard for run_id in each.run_ids) == sorted(run_ids)


async def test_a_run_of_a_dead_worker_is_queued_and_published_and_its_next_token_is_higher(
    store: RunStore, reconciler: Reconciler, heard: Heard
) -> None:
    dead = await _abandoned(store)

    assert await reconciler.run_pass() == Reconciled(reclaimed=1, republished=1)

    assert heard.run_ids == [dead.run_id]
    claim = await Ownership(store, owner="next", lease_s=30).claim(dead.run_id)
    assert claim is not None
    assert claim.token > dead.token
    assert claim.attempt == 1
    assert claim.document["worker_losses"] == 1
    with pytest.raises(LeaseLostError):
        await Ownership(store, owner="dead", lease_s=30).pin_package(dead, "stale")


async def test_a_run_that_lost_five_workers_is_parked_with_the_reason_and_what_it_used(
    store: RunStore, reconciler: Reconciler, heard: Heard
) -> None:
    dead = await _abandoned(store, worker_losses=MAX_WORKER_LOSSES - 1)
    owner = RunOwner(dead.run_id, "acme", None, dead.run_id, "Digest", "schedule")
    for number in (1, 2):
        await Ledger(store.database, PriceTable()).record(owner, lease_token=dead.token, call=_call(number))

    assert await reconciler.run_pass() == Reconciled(parked=1)

    document = await _find(store, dead.run_id)
    assert document["state"] == RunState.PARKED
    assert document["outcome"] == {"kind": "worker_lost", "reason": "its worker was lost 5 times", "error": None}
    assert {name: document["usage"][name] for name in ("calls", "input_tokens", "missing")} == {
        "calls": 2,
        "input_tokens": 20,
        "missing": 0,
    }
    assert document["usage"]["cost_usd"] is None
    assert document["lease"] == {"owner": None, "token": dead.token, "until": None}
    assert document["finished_at"] is not None
    assert heard.run_ids == []


async def test_a_parked_run_that_called_no_model_used_nothing(store: RunStore, reconciler: Reconciler) -> None:
    dead = await _abandoned(store, worker_losses=MAX_WORKER_LOSSES - 1)

    await reconciler.run_pass()

    assert (await _find(store, dead.run_id))["usage"] == UsageTotals().as_json()


@pytest.mark.parametrize("losses", [0, MAX_WORKER_LOSSES - 1], ids=["would be queued", "would be parked"])
@pytest.mark.parametrize(
    "change",
    [
        {"lease.until": datetime.now(UTC) + timedelta(hours=1)},
        {"lease.token": 2},
        {"state": "succeeded"},
    ],
    ids=["renewed", "taken over and lost again", "finished"],
)
async def test_a_run_that_changed_after_it_was_read_is_left_alone(
    store: RunStore, reconciler: Reconciler, change: dict[str, Any], losses: int
) -> None:
    dead = await _abandoned(store, worker_losses=losses)
    as_read = await _find(store, dead.run_id)
    await store.runs.update_one({"_id": dead.run_id}, {"$set": change})
    before = await _find(store, dead.run_id)

    assert await reconciler._reclaim(as_read) is None

    assert await _find(store, dead.run_id) == before


async def test_wake_ups_are_counted_anew_for_a_reclaimed_run(store: RunStore, reconciler: Reconciler) -> None:
    dead = await _abandoned(store, wakes=4)

    # One pass reclaims and sends the first new wake-up.
    await reconciler.run_pass()

    assert (await _find(store, dead.run_id))["wakes"] == 1


async def test_a_live_lease_is_left_alone(store: RunStore, reconciler: Reconciler) -> None:
    claim = await Ownership(store, owner="alive", lease_s=30).claim(await _queued(store))
    assert claim is not None

    assert await reconciler.run_pass() == Reconciled()
    assert (await _find(store, claim.run_id))["lease"]["owner"] == "alive"


async def test_several_reconcilers_count_one_loss(store: RunStore) -> None:
    dead = await _abandoned(store)

    passes = await together(Reconciler(store, Heard(), 15).run_pass() for _ in range(4))

    assert sum(each.reclaimed for each in passes) == 1
    assert sum(each.republished for each in passes) == 1
    assert (await _find(store, dead.run_id))["worker_losses"] == 1


@pytest.mark.parametrize(("question", "field"), [(EXPIRED_LEASE, "lease.until"), (DUE_WAKE_UP, "wake_at")])
async def test_both_questions_cost_what_is_due_not_what_exists(
    store: RunStore, question: dict[str, Any], field: str
) -> None:
    await together(_queued(store, number) for number in range(20))

    plan = await store.runs.find(question).sort(field, 1).explain()

    assert plan["executionStats"]["totalDocsExamined"] == 0
    assert "COLLSCAN" not in str(plan["queryPlanner"]["winningPlan"])
