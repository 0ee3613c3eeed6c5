"""Inserts that share commands, on a real MongoDB: each caller gets its own result, once it is durable."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import PyMongoError, WTimeoutError
from pymongo.write_concern import WriteConcern

from accounting.infra.aio import gather_all
from accounting.infra.store_errors import is_unavailable
from tests.chaos.own_servers import kill_listener, stage_of_its_own, wait_for_mongodb
from tests.integration.stage import Stage
from triggers.acceptance import Acceptance
from workers.reconciler.republish import Republish
from workers.store.claimed_runs import MongoRunRepository
from workers.store.run import Accepted, RunRequest, TriggerEvent
from workers.store.run_store import RunStore
from workers.store.storable import NotStorableError

pytestmark = pytest.mark.integration


def request(event: str, **fields: Any) -> RunRequest:
    return RunRequest("acme", "Relay", TriggerEvent("webhook", "hook", event, fired_at=datetime.now(UTC)), **fields)


async def insert_commands(store: RunStore) -> int:
    status = await store.database.command("serverStatus", metrics=1)
    return int(status["metrics"]["commands"]["insert"]["total"])


async def test_many_inserts_at_once_share_commands_and_each_gets_its_own_run(store: RunStore) -> None:
    await store.insert(request("first"))
    before = await insert_commands(store)

    accepted = await gather_all(store.insert(request(str(number))) for number in range(400))

    assert await insert_commands(store) - before <= 3
    assert len({each.run_id for each in accepted}) == 400
    assert all(each.created and each.ready for each in accepted)
    assert [each.run_id for each in accepted] == sorted(each.run_id for each in accepted), "run ids sort as they came"
    assert await store.runs.count_documents({}) == 401


async def test_fifty_requests_for_one_event_are_one_run_and_fifty_equal_answers(store: RunStore) -> None:
    accepted = await gather_all(store.insert(request("the event")) for _ in range(50))

    assert len({each.run_id for each in accepted}) == 1
    assert sum(each.created for each in accepted) == 1
    assert await store.runs.count_documents({}) == 1


async def test_a_request_that_cannot_be_written_hurts_no_other(store: RunStore) -> None:
    bad = request("bad", chain=("half of a character \ud800",))

    answers = await asyncio.gather(
        store.insert(request("1")), store.insert(bad), store.insert(request("2")), return_exceptions=True
    )

    assert [type(each) for each in answers] == [Accepted, UnicodeEncodeError, Accepted]
    assert await store.runs.count_documents({}) == 2


async def test_inserts_too_large_for_one_command_are_split_and_faults_isolated(
    store: RunStore,
) -> None:
    """A command holds 48 MB: the bad run comes after the first ones were written."""
    await store.insert(request("first"))
    large = [request(str(number), input={"text": "x" * 3_900_000}) for number in range(15)]
    bad = request("bad", chain=("half of a character \ud800",))

    answers = await asyncio.gather(*(store.insert(each) for each in (*large, bad)), return_exceptions=True)

    assert [isinstance(each, Accepted) and each.created for each in answers] == [True] * 15 + [False]
    assert isinstance(answers[-1], UnicodeEncodeError)
    assert await store.runs.count_documents({}) == 16


async def test_a_caller_with_many_inserts_gets_an_answer_for_each(store: RunStore) -> None:
    known = await store.insert(request("known"))
    head = await store.insert(request("head", order_key="doc"))
    bad = request("bad", priority=99)
    before = await insert_commands(store)

    answers = await store.insert_all(
        [
            *(request(str(number)) for number in range(100)),
            *(request("known"), bad),
            *(request(f"doc {number}", order_key="doc") for number in range(3)),
        ]
    )

    assert await insert_commands(store) - before <= 2
    assert [isinstance(each, Accepted) and each.created for each in answers] == [True] * 100 + [False] * 2 + [True] * 3
    assert (answers[100], type(answers[101])) == (Accepted(known.run_id, created=False), NotStorableError)
    assert [isinstance(each, Accepted) and each.ready for each in answers[102:]] == [False] * 3
    assert await store.order.head_of("acme/doc") == head.run_id


async def test_a_caller_that_gives_up_hurts_no_other(store: RunStore) -> None:
    callers = [asyncio.create_task(store.insert(request(str(number)))) for number in range(20)]
    await asyncio.sleep(0)
    for caller in callers[::2]:
        caller.cancel()

    answers = await asyncio.gather(*callers, return_exceptions=True)

    assert all(isinstance(each, Accepted) and each.created for each in answers[1::2])


async def test_a_later_start_is_durable_and_woken_only_by_the_reconciler(store: RunStore) -> None:
    woken = RecordedWakeups()
    acceptance = Acceptance(store, woken)
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)

    accepted = await acceptance.accept(request("later", not_before=later))
    past = await acceptance.accept(request("past", not_before=datetime(2020, 1, 1, tzinfo=UTC)))

    run, due = await store.find(accepted.run_id), await store.find(past.run_id)
    assert run is not None
    assert due is not None
    assert (run["state"], run["not_before"], run["wake_at"], "lane" in run) == ("queued", later, later, False)
    assert (due["not_before"], due["lane"]) == (None, "acme"), "a time that has passed is none"
    assert (accepted.ready, woken.run_ids) == (False, [past.run_id])
    assert await MongoRunRepository(store, owner="w1", lease_s=60).claim(accepted.run_id) is None


async def test_a_delayed_run_is_made_ready_when_it_is_due(store: RunStore) -> None:
    woken = RecordedWakeups()
    # In whole milliseconds, as in the store: otherwise the run is ready a moment before.
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(milliseconds=1_300)
    accepted = await Acceptance(store, woken).accept(request("soon", not_before=soon))
    republish = Republish(store, woken, woken, 2)

    async with asyncio.timeout(10):
        while not woken.run_ids:
            await republish.run_pass(Counter())

    assert (woken.run_ids, datetime.now(UTC) >= soon) == ([accepted.run_id], True)
    run = await store.find(accepted.run_id)
    assert run is not None
    assert (run["lane"], run["not_before"], run["ready_at"] >= soon) == ("acme", None, True)


async def step_down_primary(stage: Stage) -> None:
    with suppress(PyMongoError):
        await stage.store.database.client.admin.command({"replSetStepDown": 2, "force": True})


async def kill_primary(stage: Stage) -> None:
    kill_listener(stage.settings.mongodb_url)


@pytest.mark.parametrize("fails", [kill_primary, step_down_primary])
async def test_a_store_that_fails_in_the_middle_loses_nothing_that_was_answered(
    tmp_path: Path, fails: Callable[[Stage], Awaitable[None]]
) -> None:
    async with stage_of_its_own(tmp_path) as stage:
        answered: list[str] = []
        failed: list[str] = []
        errors: list[PyMongoError] = []

        async def sender(name: int) -> None:
            for number in range(60):
                event = f"{name} {number}"
                try:
                    accepted = await stage.store.insert(request(event, order_key=f"doc {name % 4}"))
                except PyMongoError as error:
                    failed.append(event)
                    errors.append(error)
                else:
                    answered.append(accepted.run_id)
                    if len(answered) == 200:
                        await fails(stage)

        await gather_all(sender(name) for name in range(16))
        await wait_for_mongodb(stage)
        again = await gather_all(stage.store.insert(request(event, order_key="doc")) for event in failed)

        assert answered
        assert all(is_unavailable(error) for error in errors), errors
        kept = {run["_id"] async for run in stage.store.runs.find({}, {"_id": 1})}
        assert set(answered) <= kept
        assert len(kept) == 16 * 60 == len({*answered, *(each.run_id for each in again)})


async def test_an_insert_without_write_concern_is_never_reported_as_accepted(tmp_path: Path) -> None:
    """The write concern needs a second server, which is missing, and every caller in the command gets the error."""
    async with stage_of_its_own(tmp_path) as stage:
        database = stage.store.database
        admin = database.client.admin
        config = (await admin.command("replSetGetConfig"))["config"]
        missing = {"_id": 1, "host": "127.0.0.1:1", "votes": 0, "priority": 0}
        two = {**config, "members": [*config["members"], missing], "version": config["version"] + 1}
        await admin.command("replSetReconfig", two)
        known = await stage.store.insert(request("known"))
        alone = RunStore(database.with_options(write_concern=WriteConcern(w=2, wtimeout=300)))
        asked = [request("1"), request("2", order_key="doc"), request("3", order_key="doc"), request("known")]

        told = await asyncio.gather(*(alone.insert(each) for each in asked), return_exceptions=True)
        with pytest.raises(WTimeoutError):
            await alone.insert_all([request("4"), request("known")])

        assert [type(each) for each in told] == [WTimeoutError] * 3 + [Accepted]
        again = await gather_all(stage.store.insert(each) for each in asked)
        assert [each.created for each in again] == [False] * 4
        assert again[3].run_id == known.run_id
        assert await stage.store.runs.count_documents({}) == 5
        assert await stage.store.order.head_of("acme/doc") == again[1].run_id
        await admin.command(
            "replSetReconfig", {**config, "version": two["version"] + 1}
        )  # otherwise it would not stop soon


class RecordedWakeups:
    """A broker that accepts every wake-up."""

    def __init__(self) -> None:
        self.run_ids: list[str] = []

    def send(self, run_id: str) -> None:
        self.run_ids.append(run_id)

    async def count_waiting(self) -> int:
        return 0
