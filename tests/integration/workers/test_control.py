"""Control of runs on a real MongoDB: each request takes effect once, in any race with the run."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounting.infra.aio import gather_all
from tests.integration.stage import Stage, relay
from workers.control.bulk_change import change_each
from workers.control.change_result import RefusedError, RunNotFoundError, read_run
from workers.control.run_cancellation import _end_run, cancel, discard
from workers.control.run_ids import resolve_run_id
from workers.control.run_replay import ReplayOptions, find_replays, replay
from workers.control.run_retry import retry_now
from workers.store.claimed_runs import MongoRunRepository
from workers.store.run import Claim, Hold, HoldKind, LeaseLostError, RunRequest, RunState, TriggerEvent
from workers.store.run_filter import RunFilter
from workers.store.run_selection import Selection
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

Document = dict[str, Any]
OUTCOME = {"kind": "model_error", "reason": "429 at the fifth attempt", "error": None}
PARKED = {"outcome": OUTCOME, "usage": {"calls": 5}}


class RecordedWakeups:
    def __init__(self) -> None:
        self.run_ids: list[str] = []

    def send(self, run_id: str) -> None:
        self.run_ids.append(run_id)


async def insert_queued_run(store: RunStore, event_id: str = "1", **fields: Any) -> str:
    event = TriggerEvent("webhook", "hook", event_id, fired_at=datetime.now(UTC))
    return (await store.insert(RunRequest("acme", "Digest", event, **fields))).run_id


def ownership(store: RunStore) -> MongoRunRepository:
    return MongoRunRepository(store, owner="w", lease_s=30)


async def insert_claimed_run(store: RunStore, event_id: str = "1", **fields: Any) -> Claim:
    claim = await ownership(store).claim(await insert_queued_run(store, event_id, **fields))
    assert claim is not None
    return claim


async def insert_parked_run(store: RunStore, event_id: str = "1", **fields: Any) -> str:
    claim = await insert_claimed_run(store, event_id, **fields)
    await ownership(store).finish(claim, RunState.PARKED, PARKED)
    return claim.run_id


async def run_of(store: RunStore, run_id: str) -> Document:
    run = await store.find(run_id)
    assert run is not None
    return run


async def test_a_cancelled_queued_run_is_over_at_once_and_cannot_be_claimed(store: RunStore) -> None:
    run_id = await insert_queued_run(store)

    done = await cancel(store, run_id, by="$ann")

    run = await run_of(store, run_id)
    assert (done.state, done.changed, run["state"]) == ("cancelled", True, "cancelled")
    assert run["outcome"] == {"kind": "cancelled", "reason": "cancelled by $ann", "error": None}
    assert run["usage"]["calls"] == 0
    assert "lane" not in run
    assert run["finished_at"] is not None
    assert await ownership(store).claim(run_id) is None
    assert await ownership(store).claim_first("acme") is None
    again = await cancel(store, run_id, by="bob")
    assert (again.changed, again.said) == (False, "was cancelled already")


async def test_a_held_run_leaves_its_limit_when_it_is_cancelled(store: RunStore) -> None:
    claim = await insert_claimed_run(store)
    await ownership(store).hold(claim, Hold(HoldKind.RATE, "rate:acme"))

    await cancel(store, claim.run_id, by="ann")

    run = await run_of(store, claim.run_id)
    assert (run["state"], run["hold"], "held_by" in run) == ("cancelled", None, False)


async def test_what_is_worked_on_is_marked_and_ends_when_it_is_given_up(store: RunStore) -> None:
    claim = await insert_claimed_run(store)

    first, second = await cancel(store, claim.run_id, by="ann"), await cancel(store, claim.run_id, by="bob")

    assert (first.state, first.changed, second.changed) == ("running", True, False)
    assert "by ann" in second.said
    state = await ownership(store).requeue(claim, delay=timedelta(0), counts_as_attempt=True, reason="429")
    run = await run_of(store, claim.run_id)
    assert (state, run["state"], "lane" in run) == ("cancelled", "cancelled", False)
    assert (run["outcome"]["reason"], run["usage"]["calls"]) == ("cancelled by ann", 0)


async def test_of_many_concurrent_cancellations_one_counts(store: RunStore) -> None:
    claim = await insert_claimed_run(store)

    done = await gather_all(cancel(store, claim.run_id, by=f"{number}") for number in range(10))

    assert [each.changed for each in done].count(True) == 1
    await ownership(store).requeue(claim, delay=timedelta(hours=1), counts_as_attempt=True, reason="429")
    run = await run_of(store, claim.run_id)
    assert (run["state"], run["not_before"]) == ("cancelled", None)


async def test_what_was_worked_on_since_it_was_looked_at_is_looked_at_again(store: RunStore) -> None:
    run = await read_run(store, await insert_queued_run(store), None)
    claim = await ownership(store).claim(run["_id"])
    assert claim is not None
    await ownership(store).requeue(claim, delay=timedelta(hours=1), counts_as_attempt=True, reason="429")

    assert await _end_run(store, run, "ann") is None  # it would miss the usage of this attempt

    assert (await cancel(store, claim.run_id, by="ann")).changed
    assert (await run_of(store, claim.run_id))["not_before"] is None


async def test_a_run_to_be_held_after_a_cancel_request_is_cancelled(store: RunStore) -> None:
    claim = await insert_claimed_run(store)
    await cancel(store, claim.run_id, by="ann")

    await ownership(store).hold(claim, Hold(HoldKind.RATE, "rate:acme"))

    run = await run_of(store, claim.run_id)
    assert (run["state"], run["hold"], "held_by" in run, run["usage"]["calls"]) == ("cancelled", None, False, 0)


async def test_a_run_to_be_parked_after_a_cancel_request_is_cancelled(store: RunStore) -> None:
    claim = await insert_claimed_run(store)
    await cancel(store, claim.run_id, by="ann")

    await ownership(store).finish(claim, RunState.PARKED, PARKED)

    run = await run_of(store, claim.run_id)
    assert (run["state"], run["outcome"]["kind"], run["usage"]) == ("cancelled", "cancelled", {"calls": 5})


@pytest.mark.parametrize("change", [cancel, discard])
async def test_a_parked_run_is_given_up_and_keeps_what_it_was_counted_under(store: RunStore, change: Any) -> None:
    run_id = await insert_parked_run(store)
    before = await run_of(store, run_id)

    assert (await change(store, run_id, by="ann")).changed

    run = await run_of(store, run_id)
    assert (run["state"], run["outcome"], run["usage"]) == ("cancelled", OUTCOME, {"calls": 5})
    assert run["finished_at"] == run["resolved"]["at"] > before["finished_at"]
    assert (run["resolved"]["by"], run["resolved"]["how"]) == ("ann", "discarded")
    assert not (await change(store, run_id, by="ann")).changed


@pytest.mark.parametrize(
    ("change", "state", "said"),
    [
        (cancel, "succeeded", "has succeeded already"),
        (cancel, "failed", "has failed already"),
        (discard, "running", "cancel it instead"),
        (discard, "queued", "cancel it instead"),
        (discard, "succeeded", "nothing is left"),
    ],
)
async def test_what_a_run_does_not_take_is_refused(store: RunStore, change: Any, state: str, said: str) -> None:
    run_id = await insert_queued_run(store)
    await store.runs.update_one({"_id": run_id}, {"$set": {"state": state}})
    before = await run_of(store, run_id)

    with pytest.raises(RefusedError, match=f"{run_id}.*{said}"):
        await change(store, run_id, by="ann")

    assert await run_of(store, run_id) == before


async def test_another_apps_run_is_not_there(store: RunStore) -> None:
    run_id, wake = await insert_parked_run(store), RecordedWakeups()

    for change in (
        cancel(store, run_id, by="x", app_id="globex"),
        discard(store, run_id, by="x", app_id="globex"),
        retry_now(store, wake, run_id, by="x", app_id="globex"),
        replay(store, wake, run_id, by="x", app_id="globex"),
        resolve_run_id(store, run_id[-8:], app_id="globex"),
    ):
        with pytest.raises(RunNotFoundError):
            await change
    assert (await run_of(store, run_id))["state"] == "parked"


async def test_of_cancel_and_claim_and_finish_at_once_one_truth_is_left(store: RunStore) -> None:
    run_ids = [await insert_queued_run(store, str(number)) for number in range(60)]
    at_work = ownership(store)

    async def worked_on(run_id: str) -> str:
        claim = await at_work.claim(run_id)
        if claim is None:
            return "never claimed"
        try:
            await at_work.finish(claim, RunState.SUCCEEDED, {"outcome": {**OUTCOME, "kind": "completed"}, "usage": {}})
        except LeaseLostError:
            return "lost"
        return "finished"

    async def cancel_later(run_id: str, number: int) -> str:
        await asyncio.sleep(number % 6 / 500)
        try:
            return (await cancel(store, run_id, by="ann")).state.value
        except RefusedError:
            return "refused"

    worked = gather_all(worked_on(run_id) for run_id in run_ids)
    ends, answers = await asyncio.gather(
        worked, gather_all(cancel_later(run_id, number) for number, run_id in enumerate(run_ids))
    )

    seen = set()
    for run_id, end, answer in zip(run_ids, ends, answers, strict=True):
        state = (await run_of(store, run_id))["state"]
        seen.add((end, answer, state))
    # "cancelled" means that it never ran. "asked to stop" came too late for this worker, which has no heartbeat.
    assert seen <= {
        ("never claimed", "cancelled", "cancelled"),
        ("finished", "running", "succeeded"),
        ("finished", "refused", "succeeded"),
    }


async def test_runs_cancelled_at_any_moment_end_one_way_and_cost_as_the_ledger(
    stage: Stage,
) -> None:
    stage.package("Relay", relay("Relay", ["A", "B"]))
    stage.answers({}, default={"text": "ok", "delay_s": 0.4, "usage": {"input": 10, "output": 2}})
    await stage.start_worker()
    run_ids = [(await stage.accept("Relay")).run_id for _ in range(60)]

    async def cancel_later(run_id: str, number: int) -> str:
        if number % 3 == 1:
            await stage.wait_for_turn(run_id, 1)
            await asyncio.sleep(number / 100)  # any moment of the rest of the run
        if number % 3 == 2:
            await stage.wait_for_end(run_id)
        try:
            return (await cancel(stage.store, run_id, by="ann")).state.value
        except RefusedError:
            return "refused"

    answers = await gather_all(cancel_later(run_id, number) for number, run_id in enumerate(run_ids))
    runs = [await stage.wait_for_end(run_id) for run_id in run_ids]

    for run, answer in zip(runs, answers, strict=True):
        rows = await stage.usage_rows(run["_id"])
        assert run["usage"]["calls"] == len(rows)
        if run["state"] == "cancelled":
            assert answer in {"cancelled", "running"}
            assert run["outcome"]["reason"] == "cancelled by ann"
            assert answer == "running" or rows == []
        else:
            assert (run["state"], run["turn"], len(rows)) == ("succeeded", 2, 2)
            assert answer in {"running", "refused"}
    assert {"cancelled", "succeeded"} <= {run["state"] for run in runs}


async def test_a_run_that_waits_for_its_next_attempt_can_be_made_due(store: RunStore) -> None:
    claim, wake = await insert_claimed_run(store), RecordedWakeups()
    await ownership(store).requeue(claim, delay=timedelta(hours=1), counts_as_attempt=True, reason="429")
    assert await ownership(store).claim(claim.run_id) is None

    done = await retry_now(store, wake, claim.run_id, by="ann")

    assert (done.changed, wake.run_ids) == (True, [claim.run_id])
    due = await run_of(store, claim.run_id)
    assert due["wake_at"] <= datetime.now(UTC)  # in case the wake-up gets lost
    assert due["not_before"] is None, "a time of the past may be one of the future for the next primary"
    assert not (await retry_now(store, wake, claim.run_id, by="ann")).changed
    assert await ownership(store).claim_first("acme") is not None
    with pytest.raises(RefusedError, match="is running now"):
        await retry_now(store, wake, claim.run_id, by="ann")


async def test_a_held_or_parked_run_shows_what_would_start_it(store: RunStore) -> None:
    claim = await insert_claimed_run(store)
    await ownership(store).hold(claim, Hold(HoldKind.CONCURRENCY, "app:acme"))

    with pytest.raises(RefusedError, match="held by the concurrency limit of app:acme"):
        await retry_now(store, RecordedWakeups(), claim.run_id, by="ann")
    with pytest.raises(RefusedError, match="a replay starts it anew"):
        await retry_now(store, RecordedWakeups(), await insert_parked_run(store, "2"), by="ann")


async def test_a_replay_is_the_same_request_in_a_new_run_with_a_chat_of_its_own(store: RunStore) -> None:
    asked: dict[str, Any] = {"input": {"order": 7}, "message": "hi", "user_id": "u", "priority": 8, "chat_id": "old"}
    run_id, wake = await insert_parked_run(store, **asked, correlation_id="c-1"), RecordedWakeups()

    done = await replay(store, wake, run_id, by="ann")

    assert done.new_run_id is not None
    old, new = await run_of(store, run_id), await run_of(store, done.new_run_id)
    same = ("app_id", "workflow", "input", "message", "user_id", "priority", "correlation_id")
    assert [new[name] for name in same] == [old[name] for name in same]
    assert [new["trigger"][name] for name in ("type", "name")] == ["webhook", "hook"]
    assert (new["replay_of"], new["state"], new["chat_id"]) == (run_id, "queued", done.new_run_id)
    assert new["dedupe_key"].startswith("Digest/hook/webhook/acme/")
    assert (old["state"], old["outcome"]) == ("cancelled", OUTCOME)
    assert (old["resolved"]["how"], old["resolved"]["run_id"]) == ("replayed", done.new_run_id)
    assert wake.run_ids == [done.new_run_id]


async def test_of_many_replays_at_once_one_is_made_and_all_name_it(store: RunStore) -> None:
    run_id, wake = await insert_parked_run(store), RecordedWakeups()

    done = await gather_all(replay(store, wake, run_id, by=f"{number}") for number in range(20))
    later = await replay(store, wake, run_id, by="late")

    assert len({each.new_run_id for each in (*done, later)}) == 1
    assert [each.changed for each in (*done, later)].count(True) == 1
    assert len(wake.run_ids) == 1
    more = [await replay(store, wake, run_id, by="ann", options=ReplayOptions(again=True)) for _ in range(2)]
    assert len({later.new_run_id, *(each.new_run_id for each in more)}) == 3
    found = await find_replays(store, await run_of(store, run_id))
    assert [each["_id"] for each in found] == [later.new_run_id, *(each.new_run_id for each in more)]


async def test_a_replay_that_died_before_resolving_the_old_run_can_be_repeated(store: RunStore) -> None:
    run_id = await insert_parked_run(store)

    class Dying:
        def send(self, run_id: str) -> None:
            raise KeyboardInterrupt(run_id)

    with pytest.raises(KeyboardInterrupt) as died:
        await replay(store, Dying(), run_id, by="ann")
    assert (await run_of(store, run_id))["state"] == "parked"

    done = await replay(store, RecordedWakeups(), run_id, by="ann")

    assert (done.new_run_id, done.changed) == (str(died.value), False)
    assert (await run_of(store, run_id))["resolved"]["run_id"] == done.new_run_id


async def test_an_event_that_is_called_like_a_replay_is_not_taken_for_one(store: RunStore) -> None:
    run_id = await insert_parked_run(store)
    forged = await insert_queued_run(store, f"replay:{run_id}:1")

    done = await replay(store, RecordedWakeups(), run_id, by="ann")

    assert done.changed
    assert done.new_run_id not in {None, forged}


@pytest.mark.parametrize("state", ["queued", "running", "needs_human"])
async def test_what_goes_on_is_not_replayed(store: RunStore, state: str) -> None:
    run_id = await insert_queued_run(store)
    await store.runs.update_one({"_id": run_id}, {"$set": {"state": state}})

    with pytest.raises(RefusedError, match=run_id):
        await replay(store, RecordedWakeups(), run_id, by="ann")

    assert await store.runs.count_documents({}) == 1


async def test_bulk_changes_go_in_batches_and_report_each_refusal_once(store: RunStore) -> None:
    run_ids = [await insert_queued_run(store, str(number)) for number in range(230)]
    await store.runs.update_many({"_id": {"$in": run_ids[:120]}}, {"$set": {"state": "succeeded"}})
    selection = Selection(RunFilter(app_id="acme"))
    await insert_queued_run(store, "came later")
    steps: list[int] = []

    tally = await change_each(
        store,
        selection,
        lambda run_id: cancel(store, run_id, by="ann"),
        on_progress=lambda tally: steps.append(tally.total),
    )

    assert (tally.changed, tally.already, tally.refused) == (110, 0, 120)
    assert tally.reasons[0] == {
        "run_id": run_ids[0],
        "reason": f"{run_ids[0]} has succeeded already; nothing is left to cancel",
    }
    assert steps[-1] == 230
    assert await store.runs.count_documents({"state": "queued"}) == 1


async def test_a_selection_never_meets_the_runs_that_it_makes(store: RunStore) -> None:
    run_ids = [await insert_parked_run(store, str(number)) for number in range(5)]
    states = (RunState.PARKED, RunState.QUEUED, RunState.CANCELLED)
    wake, anything = RecordedWakeups(), RunFilter(states=states, until=datetime.now(UTC) + timedelta(hours=1))

    tally = await change_each(
        store, Selection(anything), lambda run_id: replay(store, wake, run_id, by="ann"), on_progress=lambda _: None
    )

    assert (tally.changed, tally.refused, await store.runs.count_documents({})) == (5, 0, 2 * len(run_ids))
    limited = Selection(anything, limit=2)
    assert await limited.count(store) == 2
    assert [[run["_id"] for run in batch] async for batch in limited.batches(store)] == [run_ids[:2]]


async def test_a_run_is_found_by_the_end_of_its_id(store: RunStore) -> None:
    run_id = await insert_queued_run(store)

    assert await resolve_run_id(store, f"…{run_id[-6:].lower()}") == run_id
    assert await resolve_run_id(store, run_id) == run_id
    for text in (run_id[-5:], "no/such.*"):
        with pytest.raises(RefusedError, match="no run id"):
            await resolve_run_id(store, text)
    with pytest.raises(RunNotFoundError):
        await resolve_run_id(store, "ZZZZZZ")
    twin = {**await run_of(store, run_id), "_id": f"run_00000{run_id[9:]}", "dedupe_key": "twin"}
    await store.runs.insert_one(twin)
    with pytest.raises(RefusedError, match="several runs end in"):
        await resolve_run_id(store, run_id[-8:])


NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("matching", "most"),
    [
        (RunFilter(states=(RunState.PARKED,)), 10),
        (RunFilter(states=(RunState.PARKED, RunState.FAILED), app_id="globex"), 25),
        (RunFilter(outcome="model_error"), 25),
        (RunFilter(hold=HoldKind.RATE), 10),
        (RunFilter(states=(RunState.RUNNING,)), 10),
        (RunFilter(states=(RunState.QUEUED,)), 10),
        (RunFilter(workflow="Rare"), 10),
        (RunFilter(since=NOW - timedelta(minutes=1)), 10),
    ],
    ids=["parked", "parked or failed of an app", "outcome", "held", "running", "queued", "workflow", "since"],
)
async def test_a_filtered_list_reads_what_it_shows_and_not_what_exists(
    store: RunStore, matching: RunFilter, most: int
) -> None:
    """A few failed among many old successes."""
    template = await run_of(store, await insert_queued_run(store))
    await store.runs.delete_many({})
    rare: list[dict[str, Any]] = [
        {"state": "parked", "outcome": OUTCOME},
        {"state": "failed", "outcome": OUTCOME, "app_id": "globex"},
        {"state": "queued", "hold": "rate", "held_by": "rate:acme"},
        {"state": "running", "lease": {"owner": "w", "token": 1, "until": NOW}},
        {"state": "succeeded", "workflow": "Rare"},
        {"state": "succeeded", "created_at": NOW},
    ]
    ended = {"state": "succeeded", "created_at": NOW - timedelta(days=1), "outcome": {"kind": "completed"}}
    runs = [{**template, **ended} for _ in range(2000)] + [{**template, **ended, **each} for each in rare * 5]
    for number, run in enumerate(runs):
        run |= {"_id": f"run_{number:06}", "dedupe_key": str(number)}
        run.pop("lane", None)
    await store.runs.insert_many(runs)

    expected = await store.runs.count_documents(matching.query())
    plan = await store.runs.find(matching.query()).sort([("created_at", -1), ("_id", -1)]).limit(1000).explain()

    stats = plan["executionStats"]
    assert stats["nReturned"] == expected > 0
    assert stats["totalDocsExamined"] <= most
