"""Runs that an older or newer version wrote: executed where possible, and always displayed."""

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.stage import Stage, relay, wait_until
from workers.control.change_result import RefusedError
from workers.control.run_answers import submit_answer
from workers.control.run_cancellation import cancel, discard
from workers.control.run_detail import read_run_detail
from workers.control.run_replay import replay
from workers.control.run_retry import retry_now
from workers.control.run_tail import follow_run
from workers.reconciler.reclaim import Reclaim
from workers.store.claimed_runs import MongoRunRepository
from workers.store.ended_counts import EndedRunCounter
from workers.store.followed_runs import FollowedRuns
from workers.store.queue_counts import QueueReader
from workers.store.run import RUN_FORMAT, RunRequest, TriggerEvent
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration


class Silent:
    def send(self, run_id: str) -> None:
        """Ignored: no worker runs here."""


def request(event_id: str = "1", **fields: Any) -> RunRequest:
    return RunRequest("acme", "Relay", TriggerEvent("webhook", "hook", event_id, fired_at=datetime.now(UTC)), **fields)


async def of_a_newer_version(store: RunStore) -> str:
    run_id = (await store.insert(request())).run_id
    newer = {"state": "compensating", "format": RUN_FORMAT + 1, "finished_at": datetime.now(UTC)}
    await store.runs.update_one({"_id": run_id}, {"$set": newer, "$unset": {"lane": ""}})
    return run_id


async def test_a_state_that_this_version_does_not_know_is_displayed(store: RunStore) -> None:
    run_id = await of_a_newer_version(store)

    story = await read_run_detail(store, run_id)
    [listed] = await store.list()
    first = await anext(follow_run(store, run_id))

    assert (story["state"], listed["state"], first.event) == ("compensating", "compensating", "accepted")


async def test_an_unknown_state_is_counted_under_no_known_name(store: RunStore) -> None:
    await of_a_newer_version(store)
    now = await FollowedRuns(store).now()

    async with store.database.client.start_session(snapshot=True) as session:
        queue = await QueueReader(store.database, session, now).read()
        ended = await EndedRunCounter(store.database).count(session, now + timedelta(seconds=1))

    assert (queue.in_progress, queue.parked, sum(queue.queued.values()), dict(ended)) == (0, 0, 0, {})


async def test_a_run_in_an_unknown_state_is_not_changed_by_an_older_version(store: RunStore) -> None:
    run_id = await of_a_newer_version(store)
    before = await store.find(run_id)
    changes: list[Awaitable[Any]] = [
        cancel(store, run_id, by="Ada"),
        discard(store, run_id, by="Ada"),
        replay(store, Silent(), run_id, by="Ada"),
        retry_now(store, Silent(), run_id, by="Ada"),
    ]

    for change in changes:
        with pytest.raises(RefusedError, match="compensating, which this version does not know"):
            await change
    with pytest.raises(RefusedError):
        await submit_answer(store, Silent(), run_id, question=1, by="Ada", message="yes")

    assert await store.find(run_id) == before


async def test_what_the_version_before_left_behind_is_worked_on(stage: Stage) -> None:
    """A run that it accepted, one that waits for its retry, and one that its dead worker had claimed."""
    stage.package("Relay", relay("Relay", ["A"]))
    stage.answers({}, default={"text": "done"})
    store = stage.store
    run_ids = [(await store.insert(request(str(number)))).run_id for number in range(3)]
    _, retried, lost = run_ids
    past = datetime.now(UTC) - timedelta(minutes=1)
    await store.runs.update_one(
        {"_id": retried}, {"$set": {"not_before": past, "wake_at": past, "attempt": 2}, "$unset": {"lane": ""}}
    )
    claimed = {"state": "running", "lease": {"owner": "gone", "token": 1, "until": past}, "claimed_at": past}
    await store.runs.update_one({"_id": lost}, {"$set": {**claimed, "started_at": past}, "$unset": {"lane": ""}})
    await store.runs.update_many({}, {"$unset": {"format": ""}})

    await stage.start_worker()
    reconciler = stage.reconciler()

    async def all_ended() -> bool:
        await reconciler.run_pass()
        return await store.runs.count_documents({"state": "succeeded"}) == len(run_ids)

    await wait_until("all runs of the version before have succeeded", all_ended)
    formats = [run["format"] for run in await store.list(only=["format"])]
    assert formats == [RUN_FORMAT] * len(run_ids)


async def test_the_version_before_goes_on_with_runs_of_this_one(store: RunStore) -> None:
    """It has no formats: it claims, requeues and ends them, and this version takes them back."""
    run_id = (await store.insert(request())).run_id
    old_claim = {"$set": {"state": "running", "lease.owner": "old", "lease.until": datetime(2020, 1, 1, tzinfo=UTC)}}
    await store.runs.update_one({"_id": run_id}, {**old_claim, "$inc": {"lease.token": 1}, "$unset": {"lane": ""}})

    [expired] = await store.list(only=["app_id", "workflow", "worker_losses", "lease"])
    assert await Reclaim(store).reclaim(expired) == "queued"

    claim = await MongoRunRepository(store, owner="new", lease_s=30).claim(run_id)
    assert claim is not None
    assert (claim.token, claim.document["format"]) == (2, RUN_FORMAT)
