"""Ownership on a real MongoDB: one owner at a time, and a stale one cannot write."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.errors import PyMongoError

from accounting.infra.store_errors import is_unavailable
from workers.store.claimed_runs import MongoRunRepository
from workers.store.run import (
    Accepted,
    Claim,
    Hold,
    HoldKind,
    LeaseLostError,
    RunRequest,
    RunState,
    TriggerEvent,
)
from workers.store.run_document import MAX_HISTORY, MAX_REASON
from workers.store.run_store import RunStore
from workers.store.run_transitions import ALLOWED
from workers.store.storable import NotStorableError

pytestmark = pytest.mark.integration

TURN = {"agent": "Writer", "text": "hello"}
OUTCOME = {"kind": "completed", "reason": "", "error": None}


def request(event_id: str = "1", **fields: Any) -> RunRequest:
    event = TriggerEvent("webhook", "hook", event_id, fired_at=datetime.now(UTC))
    return RunRequest("acme", "Digest", event, **fields)


async def claim_run(store: RunStore, owner: str = "first") -> Claim:
    accepted = await store.insert(request())
    claim = await MongoRunRepository(store, owner=owner, lease_s=30).claim(accepted.run_id)
    assert claim is not None
    return claim


async def take_over(store: RunStore, claim: Claim, *, by: str = "second") -> Claim:
    """Reclaims the run after its lease expired, and claims it for the next worker."""
    await store.runs.update_one({"_id": claim.run_id}, {"$set": {"state": "queued", "lease.until": None}})
    newer = await MongoRunRepository(store, owner=by, lease_s=30).claim(claim.run_id)
    assert newer is not None
    return newer


async def test_fifty_requests_for_one_event_are_one_run(store: RunStore) -> None:
    accepted: list[Accepted] = await asyncio.gather(*(store.insert(request()) for _ in range(50)))

    assert len({each.run_id for each in accepted}) == 1
    assert sum(each.created for each in accepted) == 1
    assert await store.runs.count_documents({}) == 1


async def test_the_same_event_for_another_app_is_another_run(store: RunStore) -> None:
    event = TriggerEvent("webhook", "hook", "1", fired_at=datetime.now(UTC))

    first = await store.insert(RunRequest("acme", "Digest", event))
    second = await store.insert(RunRequest("globex", "Digest", event))

    assert first.run_id != second.run_id
    assert await store.find(first.run_id, app_id="globex") is None


async def test_input_that_cannot_be_stored_is_refused_before_the_insert(store: RunStore) -> None:
    with pytest.raises(NotStorableError, match=r"input\.number"):
        await store.insert(request(input={"number": 2**70}))
    with pytest.raises(NotStorableError, match="message"):
        await store.insert(request(message="\ud800"))

    assert await store.runs.count_documents({}) == 0


@pytest.mark.parametrize("priority", [-1, 10])
async def test_a_priority_that_is_no_digit_is_refused(store: RunStore, priority: int) -> None:
    with pytest.raises(NotStorableError, match="from 0 to 9"):
        await store.insert(request(priority=priority))


async def test_of_many_claims_at_once_one_succeeds(store: RunStore) -> None:
    run_id = (await store.insert(request())).run_id

    claims = await asyncio.gather(
        *(MongoRunRepository(store, owner=f"w{n}", lease_s=30).claim(run_id) for n in range(30))
    )

    assert [claim is not None for claim in claims].count(True) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"hold": "budget"},
        {"state": "succeeded"},
        {"state": "cancelled"},
        {"state": "parked"},
        {"not_before": datetime.now(UTC) + timedelta(hours=1)},
    ],
    ids=["held", "succeeded", "cancelled", "parked", "not due"],
)
async def test_a_run_that_may_not_start_is_not_claimed(store: RunStore, change: dict[str, Any]) -> None:
    run_id = (await store.insert(request())).run_id
    await store.runs.update_one({"_id": run_id}, {"$set": change})

    assert await MongoRunRepository(store, owner="w", lease_s=30).claim(run_id) is None


async def test_each_claim_gets_a_higher_token(store: RunStore) -> None:
    first = await claim_run(store)

    second = await take_over(store, first)

    assert second.token > first.token


@pytest.mark.parametrize("newer", ["second", "first"], ids=["another owner", "the same owner again"])
async def test_a_stale_owner_cannot_commit_finish_requeue_or_pin(store: RunStore, newer: str) -> None:
    """The token decides: a worker may lose a run and claim it again."""
    stale = await claim_run(store)
    await take_over(store, stale, by=newer)
    ownership = MongoRunRepository(store, owner="first", lease_s=30)

    for write in (
        ownership.commit_turn(stale, number=1, turn=TURN, checkpoint={"context": {"by": "stale"}}),
        ownership.finish(stale, RunState.SUCCEEDED, {"outcome": OUTCOME, "usage": {}}),
        ownership.requeue(stale, delay=timedelta(0), counts_as_attempt=True, reason=""),
        ownership.pin_package(stale, "stale"),
        ownership.keep_open_turn(stale, number=1, turn={"steps": []}),  # the newer owner has written no turn yet
        ownership.record_answer(stale, {"question": {"id": "q_1"}, "standing": True}),
    ):
        with pytest.raises(LeaseLostError):
            await write

    run = await store.find(stale.run_id)
    assert run is not None
    assert (run["state"], run["turn"], run["context"], run["attempt"]) == ("running", 0, {}, 1)
    assert await store.committed_turns(stale.run_id, up_to=run["turn"]) == []


async def test_a_stale_turn_neither_counts_nor_overwrites_the_newer_owners(store: RunStore) -> None:
    stale = await claim_run(store)
    newer = await take_over(store, stale)
    ownership = MongoRunRepository(store, owner="any", lease_s=30)
    await ownership.commit_turn(newer, number=1, turn={**TURN, "text": "newer"}, checkpoint={})

    with pytest.raises(LeaseLostError):
        await ownership.commit_turn(stale, number=1, turn={**TURN, "text": "stale"}, checkpoint={})

    turns = await store.committed_turns(stale.run_id, up_to=1)
    assert [turn["text"] for turn in turns] == ["newer"]


async def test_what_a_dead_owner_left_uncommitted_is_replaced(store: RunStore) -> None:
    dead = await claim_run(store)
    left_behind = {**TURN, "_id": f"{dead.run_id}:1", "run_id": dead.run_id, "number": 1, "token": dead.token}
    await store.turns.insert_one({**left_behind, "text": "never committed"})
    newer = await take_over(store, dead)

    await MongoRunRepository(store, owner="second", lease_s=30).commit_turn(newer, number=1, turn=TURN, checkpoint={})

    assert [turn["text"] for turn in await store.committed_turns(dead.run_id, up_to=1)] == ["hello"]


async def test_a_turn_is_committed_once_and_in_order(store: RunStore) -> None:
    claim = await claim_run(store)
    ownership = MongoRunRepository(store, owner="first", lease_s=30)
    await ownership.commit_turn(claim, number=1, turn=TURN, checkpoint={"next_agent": "Reader"})

    for number in (1, 3):
        with pytest.raises(LeaseLostError):
            await ownership.commit_turn(claim, number=number, turn=TURN, checkpoint={})

    run = await store.find(claim.run_id)
    assert run is not None
    assert (run["turn"], run["next_agent"]) == (1, "Reader")


async def test_a_committed_turn_forgives_the_worker_losses_before_it(store: RunStore) -> None:
    """Otherwise a long run would be parked after five losses, whatever its progress."""
    claim = await claim_run(store)
    await store.runs.update_one({"_id": claim.run_id}, {"$set": {"worker_losses": 4, "losses_alone": 2}})

    await MongoRunRepository(store, owner="first", lease_s=30).commit_turn(claim, number=1, turn=TURN, checkpoint={})

    run = await store.find(claim.run_id)
    assert run is not None
    assert (run["worker_losses"], run["losses_alone"]) == (0, 0)


async def test_a_finished_run_keeps_its_token_and_never_changes(store: RunStore) -> None:
    claim = await claim_run(store)
    ownership = MongoRunRepository(store, owner="first", lease_s=30)
    await ownership.finish(claim, RunState.SUCCEEDED, {"outcome": OUTCOME, "usage": {"calls": 1}})

    with pytest.raises(LeaseLostError):
        await ownership.finish(claim, RunState.FAILED, {"outcome": OUTCOME, "usage": {}})

    run = await store.find(claim.run_id)
    assert run is not None
    assert (run["state"], run["lease"]) == ("succeeded", {"owner": None, "token": claim.token, "until": None})
    assert await ownership.claim(claim.run_id) is None


async def test_a_turn_that_its_owner_wrote_already_may_be_committed(store: RunStore) -> None:
    claim = await claim_run(store)
    written = {"_id": f"{claim.run_id}:1", "run_id": claim.run_id, "number": 1, "token": claim.token}
    await store.turns.insert_one({**TURN, **written})  # and then the response got lost

    await MongoRunRepository(store, owner="first", lease_s=30).commit_turn(claim, number=1, turn=TURN, checkpoint={})

    assert len(await store.committed_turns(claim.run_id, up_to=1)) == 1


async def test_a_run_starts_once_and_is_claimed_by_each_of_its_owners(store: RunStore) -> None:
    first = await claim_run(store)
    second = await take_over(store, first)

    assert first.document["started_at"] == first.document["claimed_at"]
    assert second.document["started_at"] == first.document["started_at"] < second.document["claimed_at"]


async def test_each_owner_leaves_a_history_line_with_how_it_released_the_run(store: RunStore) -> None:
    ownership = MongoRunRepository(store, owner="first", lease_s=30)
    claim = await claim_run(store)
    for reason, counts in (("429", True), ("stopping", False)):
        await store.runs.update_one({"_id": claim.run_id}, {"$set": {"wakes": 3}})
        await ownership.requeue(claim, delay=timedelta(0), counts_as_attempt=counts, reason=reason)
        run = await store.find(claim.run_id)
        assert run is not None
        assert (run["attempt"], run["wakes"], run["lease"]["owner"], run["not_before"]) == (2, 0, None, None)
        again = await ownership.claim(claim.run_id)
        assert again is not None
        claim = again
    await ownership.finish(claim, RunState.FAILED, {"outcome": {**OUTCOME, "reason": "$broken"}, "usage": {}})

    run = await store.find(claim.run_id)
    assert run is not None
    lines = [(line["token"], line["owner"], line["ended"], line["reason"]) for line in run["history"]]
    assert lines == [
        (1, "first", "retry", "429"),
        (2, "first", "handed_back", "stopping"),
        (3, "first", "failed", "$broken"),
    ]


async def test_a_history_is_bounded_in_lines_and_in_length(store: RunStore) -> None:
    claim = await claim_run(store)
    line = {"token": 0, "owner": "old", "ended": "handed_back", "reason": ""}
    await store.runs.update_one({"_id": claim.run_id}, {"$set": {"history": [line] * MAX_HISTORY}})

    await MongoRunRepository(store, owner="first", lease_s=30).finish(
        claim, RunState.FAILED, {"outcome": {**OUTCOME, "reason": "x" * 9_000}, "usage": {}}
    )

    run = await store.find(claim.run_id)
    assert run is not None
    assert (len(run["history"]), len(run["history"][-1]["reason"])) == (MAX_HISTORY, MAX_REASON)


async def test_a_run_that_is_held_has_no_owner(store: RunStore) -> None:
    claim = await claim_run(store)

    await MongoRunRepository(store, owner="first", lease_s=30).hold(claim, Hold(HoldKind.CONCURRENCY, "app:acme"))

    run = await store.find(claim.run_id)
    assert run is not None
    assert run["lease"] == {"owner": None, "token": claim.token, "until": None}
    assert (run["hold"], run["held_by"], run["started_at"], "lane" in run) == ("concurrency", "app:acme", None, False)


async def test_a_move_that_the_table_does_not_know_is_not_made(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ownership, claim = MongoRunRepository(store, owner="first", lease_s=30), await claim_run(store)
    monkeypatch.setitem(ALLOWED, RunState.RUNNING, frozenset())

    with pytest.raises(LeaseLostError):
        await ownership.finish(claim, RunState.SUCCEEDED, {"outcome": OUTCOME, "usage": {}})
    with pytest.raises(LeaseLostError):
        await ownership.finish(claim, RunState.PARKED, {"outcome": OUTCOME, "usage": {}})
    with pytest.raises(LeaseLostError):
        await ownership.requeue(claim, delay=timedelta(0), counts_as_attempt=True, reason="429")
    with pytest.raises(LeaseLostError):
        await ownership.hold(claim, Hold(HoldKind.RATE, "rate:acme"))

    assert (await store.find(claim.run_id) or {})["state"] == "running"


async def test_a_preferred_run_is_one_of_the_lane_whose_turn_it_is(store: RunStore) -> None:
    event = TriggerEvent("webhook", "hook", "1", fired_at=datetime.now(UTC))
    older, preferred = [(await store.insert(request(each))).run_id for each in "12"]
    elsewhere = (await store.insert(RunRequest("globex", "Digest", event))).run_id
    ownership = MongoRunRepository(store, owner="w", lease_s=30)

    claims = [await ownership.claim_first("acme", preferred=each) for each in (elsewhere, preferred)]

    assert [claim and claim.run_id for claim in claims] == [older, preferred]


async def test_a_hand_back_means_now_by_whatever_clock(store: RunStore) -> None:
    """The next primary's clock may be behind that of the one that wrote the time."""
    claim = await claim_run(store)

    await MongoRunRepository(store, owner="first", lease_s=30).requeue(
        claim, delay=timedelta(0), counts_as_attempt=False, reason="this worker is stopping"
    )

    run = await store.find(claim.run_id)
    assert run is not None
    assert run["not_before"] is None


async def test_a_result_cut_off_by_a_server_restart_is_no_fault_of_the_run(store: RunStore) -> None:
    await store.turns.insert_many([{"run_id": "long", "number": number} for number in range(50)])
    turns = store.turns.find({"run_id": "long"}, batch_size=10)
    await anext(turns)
    await store.database.command("killCursors", "turns", cursors=[turns.cursor_id])  # as a restart does

    with pytest.raises(PyMongoError) as away:
        await turns.to_list(None)

    assert is_unavailable(away.value)
