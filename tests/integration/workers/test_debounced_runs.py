"""Debounced runs on a real MongoDB: events in quick succession are one run with the input of the newest."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounting.infra.aio import gather_all
from tests.integration.stage import Document
from workers.control.run_cancellation import cancel
from workers.store import debounce
from workers.store.claimed_runs import MongoRunRepository
from workers.store.run import Accepted, RunRequest, TriggerEvent
from workers.store.run_document import as_json
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

QUIET, AT_MOST = timedelta(hours=1), timedelta(hours=3)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def send_event(
    store: RunStore,
    event: str,
    *,
    key: str = "doc",
    quiet: timedelta = QUIET,
    at_most: timedelta = AT_MOST,
    **fields: Any,
) -> Accepted:
    happened = TriggerEvent("database_condition", "changes", event, fired_at=datetime.now(UTC))
    given = {"input": {"event": event, "price": "$5"}, "message": f"${event}", "app_id": "acme"}
    request = RunRequest(workflow="Relay", trigger=happened, **{**given, **fields})
    return await store.insert_debounced(request, key=key, quiet=quiet, max_delay=at_most)


async def only_run(store: RunStore) -> Document:
    [run] = await store.runs.find().to_list(None)
    return run


async def make_due(store: RunStore, run_id: str) -> None:
    """Ends the quiet time; the reconciler has seen it."""
    ready = {"not_before": None, "lane": "acme"}
    await store.runs.update_one({"_id": run_id}, {"$set": ready})


async def test_what_comes_in_the_quiet_time_goes_into_the_run_that_waits(store: RunStore) -> None:
    first = await send_event(store, "1")
    before = await only_run(store)
    second = await send_event(store, "2")

    run = await only_run(store)
    assert (first.created, first.ready, first.merged) == (True, False, False)
    assert (second.run_id, second.created, second.ready, second.merged) == (first.run_id, False, False, True)
    assert (run["input"], run["message"], run["trigger"]["id"]) == ({"event": "2", "price": "$5"}, "$2", "2")
    assert (run["dedupe_key"], run["wake_at"]) == (before["dedupe_key"], run["not_before"])
    assert run["not_before"] > before["not_before"]
    assert ("lane" in run, as_json(run)["debounce"]["events"]) == (False, 2)


async def test_standing_answers_are_those_of_the_newest_event(store: RunStore) -> None:
    """The trigger may have been edited meanwhile: an approval for one event does not apply to another."""
    small = {"pay": {"verdict": "yes"}, "ship": [{"when": "arguments.amount < `5`", "answer": {"verdict": "yes"}}]}
    for event, answers in enumerate((small, {}, None, small)):
        await send_event(store, str(event), ui_responses=answers)
        assert (await only_run(store)).get("ui_responses") == answers


async def test_it_never_waits_longer_than_at_most_after_the_first(store: RunStore) -> None:
    await send_event(store, "1", quiet=QUIET, at_most=QUIET * 1.5)
    first = await only_run(store)

    await send_event(store, "2", quiet=10 * QUIET, at_most=20 * QUIET)

    run = await only_run(store)
    assert run["not_before"] == first["debounce"]["until"] == first["not_before"] + QUIET / 2


@pytest.mark.parametrize("again", ["1", "2"], ids=["the first", "one that was merged"])
@pytest.mark.parametrize("when", ["while it waits", "when it is due", "when it has run"])
async def test_an_event_that_comes_again_starts_nothing(store: RunStore, again: str, when: str) -> None:
    run_id = (await send_event(store, "1")).run_id
    await send_event(store, "2")
    if when != "while it waits":
        await make_due(store, run_id)
    if when == "when it has run":
        ownership = MongoRunRepository(store, owner="w1", lease_s=60)
        claim = await ownership.claim(run_id)
        assert claim is not None

    repeated = await send_event(store, again)

    assert (repeated.run_id, repeated.created, repeated.merged) == (run_id, False, False)
    assert (await only_run(store))["input"]["event"] == "2"


async def test_a_run_that_waits_no_more_takes_no_event_and_the_next_starts_anew(store: RunStore) -> None:
    run_ids = []
    for event in range(3):
        run_ids.append((await send_event(store, f"{event}")).run_id)
        if event == 0:
            await make_due(store, run_ids[0])
            assert await MongoRunRepository(store, owner="w1", lease_s=60).claim(run_ids[0]) is not None
        elif event == 1:
            await cancel(store, run_ids[1], by="me")

    assert len(set(run_ids)) == 3
    assert (await send_event(store, "4")).run_id == run_ids[2]
    assert [(await store.find(each) or {})["input"]["event"] for each in run_ids] == ["0", "1", "4"]


async def test_keys_and_apps_have_runs_of_their_own(store: RunStore) -> None:
    sent_by = [
        await send_event(store, "1"),
        await send_event(store, "2", key="b"),
        await send_event(store, "3", app_id="globex"),
    ]

    assert [each.created for each in sent_by] == [True] * 3


async def test_the_newest_of_many_at_once_is_one_of_them_and_none_is_lost(store: RunStore) -> None:
    answers = await gather_all(send_event(store, str(number % 20)) for number in range(60))

    run = await only_run(store)
    assert {each.run_id for each in answers} == {run["_id"]}
    assert (sum(each.created for each in answers), sum(each.merged for each in answers)) == (1, 19)
    assert len(run["debounce"]["events"]) == len(set(run["debounce"]["events"])) == 20


async def test_an_event_that_two_send_at_once_is_never_in_two_runs(store: RunStore) -> None:
    """Even if the run that it is merged into is claimed at that moment."""
    ownership = MongoRunRepository(store, owner="w1", lease_s=60)

    async def claim_all(stop: asyncio.Event) -> None:
        while not stop.is_set():
            async for run in store.runs.find({"state": "queued"}, {"_id": 1}):
                await make_due(store, run["_id"])
                await ownership.claim(run["_id"])

    stop = asyncio.Event()
    claiming = asyncio.create_task(claim_all(stop))
    for number in range(40):
        answers = await gather_all(send_event(store, str(number)) for _ in range(3))
        assert len({each.run_id for each in answers}) == 1
    stop.set()
    await claiming

    events = [event async for run in store.runs.find() for event in run["debounce"]["events"]]
    assert len(events) == len(set(events)) == 40


async def test_a_run_that_has_taken_very_many_events_takes_no_more(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(debounce._STILL_QUIET, "debounce.events.2", {"$exists": False})

    runs = [(await send_event(store, str(number))).run_id for number in range(5)]

    assert [len(set(runs[:3])), len(set(runs[3:])), len(set(runs))] == [1, 1, 2]


async def test_a_debounced_run_with_an_order_key_waits_for_its_turn_as_well(store: RunStore) -> None:
    first = await send_event(store, "1", order_key="doc")
    await make_due(store, first.run_id)
    second = await send_event(store, "2", order_key="doc")

    run = await store.find(second.run_id)
    assert run is not None
    assert (run["held_by"], run["not_before"] is not None) == ("order:acme/doc", True)
    assert (await send_event(store, "3", order_key="doc")).run_id == second.run_id


@pytest.mark.parametrize("with_turns", [False, True], ids=["before its first turn", "after a turn"])
async def test_a_claimed_run_takes_no_event_even_while_it_awaits_a_retry(store: RunStore, with_turns: bool) -> None:
    """The model may have the old input already, so a merged event would be lost."""
    first = await send_event(store, "1")
    await make_due(store, first.run_id)
    ownership = MongoRunRepository(store, owner="w1", lease_s=60)
    claim = await ownership.claim(first.run_id)
    assert claim is not None
    if with_turns:
        await ownership.commit_turn(claim, number=1, turn={"agent": "A"}, checkpoint={"context": {}})
    await ownership.requeue(claim, delay=timedelta(minutes=30), counts_as_attempt=True, reason="429")
    retried = await store.find(first.run_id)

    second = await send_event(store, "2")

    assert (second.created, second.merged, second.run_id != first.run_id) == (True, False, True)
    assert retried is not None
    del retried["debounce"]["open"]
    assert await store.find(first.run_id) == retried


@pytest.mark.parametrize("off", [timedelta(hours=-3), timedelta(hours=3)], ids=["behind", "ahead"])
async def test_a_sender_whose_clock_is_wrong_waits_no_shorter_and_no_longer(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, off: timedelta
) -> None:
    class Off(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Off":
            return cls.fromtimestamp((datetime.now(UTC) + off).timestamp(), tz)

    monkeypatch.setattr("workers.store.run_store.datetime", Off)

    first = await send_event(store, "1")
    second = await send_event(store, "2")

    run = await only_run(store)
    assert (second.merged, second.run_id) == (True, first.run_id)
    assert abs(run["not_before"] - (datetime.now(UTC) + QUIET)) < timedelta(minutes=1)
    assert abs(run["debounce"]["until"] - (datetime.now(UTC) + AT_MOST)) < timedelta(minutes=1)
