"""Admission and limit releases on a real MongoDB: held runs, released runs, and the queries for them."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from pymongo import monitoring

from tests.integration.stage import Document, wait_until
from tests.integration.workers.test_claim_lanes import explain_command, hold_runs, insert_runs, stages
from workers.admission.cap_settings import Caps, parse_caps
from workers.admission.limit_releases import MAX_RELEASED, LimitReleases
from workers.admission.limits.all_limits import AllLimits
from workers.admission.run_admission import Admission
from workers.settings import Settings
from workers.store.claimed_runs import MongoRunRepository
from workers.store.held_runs import LIMITS_PIPELINE, heads_pipeline
from workers.store.limit_name import LimitKind, LimitName, parse_limit
from workers.store.run import Claim, HoldKind
from workers.store.run_store import RunStore, connect
from workers.store.start_rate_store import StartRates

pytestmark = pytest.mark.integration


PUBLISHED: dict[str, Any] = {"on_held": lambda _: None, "on_fenced": lambda: None}


ACME, RELAY = LimitName(LimitKind.APP, "acme"), LimitName(LimitKind.WORKFLOW, "Relay")


class RecordedWakeups:
    def __init__(self) -> None:
        self.run_ids: list[str] = []

    def send(self, run_id: str) -> None:
        self.run_ids.append(run_id)


async def release_runs(
    store: RunStore, limit: str, caps: str = "", *, limit_of_runs: int = 1, after: str = ""
) -> list[str]:
    named = parse_limit(limit)
    assert named is not None
    return list((await AllLimits(parse_caps(caps), store).release(named, count=limit_of_runs, after=after)).run_ids)


async def run_release_pass(store: RunStore, caps: Caps) -> Mapping[str, int]:
    return await LimitReleases(store, caps, RecordedWakeups()).run_pass()


async def test_removed_caps_hold_no_run_and_other_kinds_of_holds_stay(store: RunStore) -> None:
    concurrency = await hold_runs(store, "app:acme", ["acme"] * 3) + await hold_runs(
        store, "workflow:Relay", ["a", "b"]
    )
    rate = await hold_runs(store, "rate:acme", ["acme"] * 4, kind="rate")
    [budget] = await hold_runs(store, "budget:acme", ["acme"], kind="budget")
    sent = RecordedWakeups()

    assert await LimitReleases(store, Caps(), sent).run_pass() == {"concurrency": 5, "rate": 4}

    assert sorted(sent.run_ids) == sorted(concurrency + rate)
    ready = {"state": "queued", "hold": None, "lane": {"$exists": True}}
    assert await store.runs.count_documents({"_id": {"$in": sent.run_ids}, **ready}) == 9
    run = await store.find(budget)
    assert run is not None
    assert (run["hold"], run["held_by"]) == ("budget", "budget:acme")
    assert await run_release_pass(store, Caps()) == {}


async def test_a_pass_is_bounded_and_the_next_goes_on_where_it_ended(store: RunStore) -> None:
    await hold_runs(store, "app:acme", ["acme"] * MAX_RELEASED)
    await hold_runs(store, "app:globex", ["globex"] * 2)
    releases = LimitReleases(store, Caps(), RecordedWakeups())

    assert await releases.run_pass() == {"concurrency": MAX_RELEASED}
    assert await releases.run_pass() == {"concurrency": 2}


async def test_only_as_many_are_released_as_there_is_room_for_and_once(store: RunStore) -> None:
    caps = parse_caps("app=4,workflow:Other=5")
    await insert_runs(store, ["acme"], state="running")
    await hold_runs(store, "app:acme", ["acme"] * 9)
    await hold_runs(store, "workflow:Other", ["a", "b", "c"] * 4, workflow="Other")
    releases = LimitReleases(store, caps, RecordedWakeups())

    assert await releases.run_pass() == {"concurrency": 3 + 5}
    assert await releases.run_pass() == {}  # they are released and not claimed yet
    assert await run_release_pass(store, caps) == {}
    shares = Counter([run["app_id"] async for run in store.runs.find({"workflow": "Other", "hold": None})])
    assert sorted(shares.values()) == [1, 2, 2]

    await store.runs.update_many({"workflow": "Other", "hold": None}, {"$set": {"state": "succeeded"}})
    await store.runs.update_many({"state": "succeeded"}, {"$unset": {"lane": 1, "held_by": 1}})
    assert await releases.run_pass() == {"concurrency": 5}
    shares = Counter([run["app_id"] async for run in store.runs.find({"workflow": "Other", "hold": None})])
    assert sorted(shares.values()) == [3, 3, 4]


async def test_of_those_that_are_held_the_urgent_go_first_then_the_old(store: RunStore) -> None:
    low, old, new, high = [(await hold_runs(store, "app:acme", ["acme"], priority=each))[0] for each in (0, 5, 5, 9)]
    [other] = await hold_runs(store, "app:acme", ["acme"], priority=7, workflow="Other")

    found = [await release_runs(store, "app:acme") for _ in range(6)]

    assert found == [[high], [other], [old], [new], [low], []]


async def test_many_that_wait_for_an_app_go_in_the_same_order(store: RunStore) -> None:
    low, old = [(await hold_runs(store, "app:acme", ["acme"], priority=each))[0] for each in (0, 5)]
    [other] = await hold_runs(store, "app:acme", ["acme"], priority=3, workflow="Other")

    assert await release_runs(store, "app:acme", limit_of_runs=2) == [old, other]
    assert await release_runs(store, "app:acme", limit_of_runs=9) == [low]


async def test_a_run_its_other_limit_would_hold_is_not_released(store: RunStore) -> None:
    """Otherwise its worker would hold it there and release the next one, through the whole backlog."""
    caps = "app=4,workflow:Full=1"
    await insert_runs(store, ["globex"], workflow="Full", state="running")
    full = await hold_runs(store, "app:acme", ["acme"] * 5, workflow="Full")
    [free] = await hold_runs(store, "app:acme", ["acme"], workflow="Free")

    assert await release_runs(store, "app:acme", caps, limit_of_runs=3) == [free]
    assert await release_runs(store, "app:acme", caps) == []

    await store.runs.update_many({"state": "running"}, {"$set": {"state": "succeeded"}})
    assert await release_runs(store, "workflow:Full", caps, limit_of_runs=3) == full[:1], "one of them waits there now"


async def test_an_app_at_its_cap_is_passed_over_by_its_workflow(store: RunStore) -> None:
    caps = "app=1,workflow:Relay=9"
    await insert_runs(store, ["a"], workflow="Other", state="running")
    await hold_runs(store, "workflow:Relay", ["a"] * 3)
    of_b, of_c = await hold_runs(store, "workflow:Relay", ["b"] * 2), await hold_runs(store, "workflow:Relay", ["c"])

    assert sorted(await release_runs(store, "workflow:Relay", caps, limit_of_runs=9)) == sorted([of_b[0], of_c[0]])


async def test_a_look_at_very_many_apps_goes_on_where_the_last_one_ended(store: RunStore) -> None:
    await insert_runs(store, ["a", "b", "c"], workflow="Other", state="running")
    await hold_runs(store, "workflow:Relay", ["a", "b", "c", "d"])
    caps = parse_caps("app=1,workflow:Relay=9")
    releases = LimitReleases(store, caps, RecordedWakeups(), limits=AllLimits(caps, store, max_apps=2))

    assert [await releases.run_pass() for _ in range(2)] == [{}, {"concurrency": 1}]


async def test_a_rate_without_starts_keeps_its_runs_where_they_are(store: RunStore) -> None:
    door = admission(store, "app=2,rate=1/h")
    [first] = await insert_runs(store, ["acme"])
    assert await door.try_admit(await claim_run(store, first))
    waiting = await hold_runs(store, "app:acme", ["acme"] * 3)

    assert await release_runs(store, "app:acme", "app=2,rate=1/h") == []
    assert await release_runs(store, "app:acme", "app=2") == waiting[:1]


async def test_a_run_waiting_for_two_limits_gets_its_turn_at_the_shared_one(store: RunStore) -> None:
    """The workflow is always full: whenever the app has room, the workflow has none."""
    caps = parse_caps("app:a=1,workflow:Relay=1")
    door = Admission(
        AllLimits(caps, store),
        MongoRunRepository(store, owner="w", lease_s=30),
        RecordedWakeups(),
        has_caps=True,
        **PUBLISHED,
    )
    runs_there, runs_here = (await insert_runs(store, ["b"])), (await insert_runs(store, ["a"], workflow="Other"))
    there, here = [await claim_run(store, run_id) for run_id in (*runs_there, *runs_here)]
    [waits] = await hold_runs(store, "app:a", ["a"])
    await hold_runs(store, "workflow:Relay", ["b"] * 3)

    await store.runs.update_one({"_id": here.run_id}, {"$set": {"state": "succeeded"}})
    assert await door.release_after(here) is None
    await store.runs.update_one({"_id": there.run_id}, {"$set": {"state": "succeeded"}})

    assert await door.release_after(there) == waits, "it stood where nobody looks"


async def test_what_a_rate_holds_goes_before_what_came_later_for_the_app(store: RunStore) -> None:
    """Otherwise each new run would be released and held behind the older one: a backlog moves without any work."""
    caps = "app=1,rate=60/m"
    [older] = await hold_runs(store, "rate:acme", ["acme"], kind="rate")
    await hold_runs(store, "app:acme", ["acme"] * 20)

    assert await release_runs(store, "app:acme", caps) == []
    assert await release_runs(store, "rate:acme", caps) == [older]


async def test_a_slot_is_given_once_whichever_limit_gives_it(store: RunStore) -> None:
    caps = "app=9,workflow:Relay=1"
    first, second = await hold_runs(store, "app:a", ["a"]), await hold_runs(store, "workflow:Relay", ["b"])
    assert await release_runs(store, "app:a", caps) == first

    releases = LimitReleases(store, parse_caps(caps), RecordedWakeups())

    assert await releases.run_pass() == {}
    assert await store.runs.count_documents({"_id": second[0], "held_by": "workflow:Relay"}) == 1


async def test_many_that_go_share_what_their_other_limit_has_room_for(store: RunStore) -> None:
    await hold_runs(store, "app:acme", ["acme"] * 3)
    await hold_runs(store, "app:acme", ["acme"] * 3, workflow="Other")

    assert len(await release_runs(store, "app:acme", "app=9,rate=1/h", limit_of_runs=9)) == 1


async def test_a_run_that_has_started_waits_for_no_rate(store: RunStore) -> None:
    [retried] = await hold_runs(store, "app:acme", ["acme"], started_at=datetime.now(UTC))
    caps = parse_caps("app=1,rate=1/h")
    assert await StartRates(store.database).try_acquire("acme", caps.rates[""])

    assert await release_runs(store, "app:acme", "app=1,rate=1/h") == [retried]


async def test_a_run_that_is_held_at_its_first_claim_is_pinned_by_the_next(store: RunStore) -> None:
    await insert_runs(store, ["acme"], state="running")
    [run_id] = await insert_runs(store, ["acme"])
    ownership = MongoRunRepository(store, owner="w", lease_s=30, versions=lambda: {"Relay": "v1", "Other": "v9"})
    door = Admission(AllLimits(parse_caps("app=1"), store), ownership, RecordedWakeups(), has_caps=True, **PUBLISHED)
    claim = await ownership.claim(run_id)
    assert claim is not None
    assert claim.document["package_version"] == "v1"

    assert not await door.try_admit(claim)

    run = await store.find(run_id) or {}
    assert (run["hold"], run["package_version"], run["started_at"]) == ("concurrency", None, None)


async def test_a_run_that_ends_moves_no_backlog_from_one_hold_to_another(store: RunStore) -> None:
    noted: list[HoldKind] = []
    door = admission(store, "app=2,workflow:Full=1", noted)
    running = [(await insert_runs(store, ["acme"], workflow=each))[0] for each in ("Full", "Free")]
    claims = [await claim_run(store, run_id) for run_id in running]
    await hold_runs(store, "app:acme", ["acme"] * 50, workflow="Full")
    free = await hold_runs(store, "app:acme", ["acme"] * 50, workflow="Free")
    await store.runs.update_one({"_id": running[1]}, {"$set": {"state": "succeeded"}})

    assert await door.release_after(claims[1]) == free[0]
    assert await door.try_admit(await claim_run(store, free[0]))
    assert noted == []


async def test_a_held_run_of_a_full_workflow_blocks_no_other_workflow(store: RunStore) -> None:
    door = admission(store, "workflow:Full=1,rate=100/s")
    await insert_runs(store, ["globex"], workflow="Full", state="running")
    await hold_runs(store, "rate:acme", ["acme"], kind="rate", workflow="Full")
    [free] = await insert_runs(store, ["acme"], workflow="Free")

    assert await door.try_admit(await claim_run(store, free))


async def test_a_new_run_does_not_take_the_place_of_a_released_one(store: RunStore) -> None:
    door = admission(store, "app=1")
    [older] = await hold_runs(store, "app:acme", ["acme"])
    assert await release_runs(store, "app:acme", "app=1") == [older]
    [newer] = await insert_runs(store, ["acme"])

    assert not await door.try_admit(await claim_run(store, newer))
    assert await door.try_admit(await claim_run(store, older))


async def claim_run(store: RunStore, run_id: str) -> Claim:
    claim = await MongoRunRepository(store, owner="w", lease_s=30).claim(run_id)
    assert claim is not None
    return claim


def admission(store: RunStore, caps: str, noted: list[HoldKind] | None = None) -> Admission:
    seen = [] if noted is None else noted
    return Admission(
        AllLimits(parse_caps(caps), store),
        MongoRunRepository(store, owner="w", lease_s=30),
        RecordedWakeups(),
        has_caps=bool(caps),
        on_held=seen.append,
        on_fenced=lambda: None,
    )


async def test_a_released_run_has_time_to_be_claimed(store: RunStore) -> None:
    [run_id] = await hold_runs(store, "app:acme", ["acme"])
    await store.runs.update_one({"_id": run_id}, {"$set": {"wake_at": datetime.now(UTC), "wakes": 3}})

    await release_runs(store, "app:acme")

    run = await store.find(run_id)
    assert run is not None
    left_s = (run["wake_at"] - datetime.now(UTC)).total_seconds()
    assert store.republish_after.total_seconds() - 5 < left_s <= store.republish_after.total_seconds()
    assert run["wakes"] == 0


async def test_with_caps_one_process_makes_its_claims_one_after_another(store: RunStore) -> None:
    """A burst that is counted all at once would exceed the limit, and be requeued as a whole."""
    door, open_door = admission(store, "app=1"), admission(store, "")

    async with open_door.exclusive(), open_door.exclusive(), door.exclusive():
        second = asyncio.create_task(door.exclusive().__aenter__())
        await asyncio.sleep(0)
        assert not second.done()
    await second


async def test_a_worker_that_lost_its_run_meanwhile_does_not_execute_it(store: RunStore) -> None:
    await insert_runs(store, ["acme"], state="running")
    [run_id] = await insert_runs(store, ["acme"])
    claim = await claim_run(store, run_id)
    await store.runs.update_one({"_id": run_id}, {"$inc": {"lease.token": 1}})

    assert not await admission(store, "app=1").try_admit(claim)


async def test_a_requeued_run_leaves_its_room_to_the_next(store: RunStore) -> None:
    door = admission(store, "app=1,workflow:Full=1")
    await insert_runs(store, ["globex"], workflow="Full", state="running")
    [waiting], [claim] = (
        await hold_runs(store, "app:acme", ["acme"]),
        await insert_runs(store, ["acme"], workflow="Full"),
    )

    assert not await door.try_admit(await claim_run(store, claim))

    assert await store.runs.count_documents({"_id": waiting, "hold": None, "lane": "acme"}) == 1


async def test_a_rate_releases_only_runs_not_yet_on_their_way(store: RunStore) -> None:
    await hold_runs(store, "rate:acme", ["acme"] * 3, kind="rate")
    releases = LimitReleases(store, parse_caps("rate=1/m"), RecordedWakeups())

    assert await releases.run_pass() == {"rate": 1}
    assert await releases.run_pass() == {}


async def test_a_limit_without_room_keeps_no_other_from_being_looked_at(store: RunStore) -> None:
    await insert_runs(store, ["acme"], state="running")
    await hold_runs(store, "app:acme", ["acme"])
    await hold_runs(store, "app:globex", ["globex"])
    releases = LimitReleases(store, parse_caps("app=1"), RecordedWakeups(), max_limits=1)

    assert [await releases.run_pass() for _ in range(2)] == [{}, {"concurrency": 1}]


async def test_a_later_run_waits_behind_those_a_rate_holds(store: RunStore) -> None:
    noted: list[HoldKind] = []
    door = admission(store, "rate=10/s", noted)
    [older] = await hold_runs(store, "rate:acme", ["acme"], kind="rate")
    younger, urgent = await insert_runs(store, ["acme", "acme"])
    await store.runs.update_one({"_id": urgent}, {"$set": {"priority": 9}})

    assert not await door.try_admit(await claim_run(store, younger))
    assert await door.try_admit(await claim_run(store, urgent))
    assert noted == [HoldKind.RATE]
    await release_runs(store, "rate:acme")
    assert await door.try_admit(await claim_run(store, older))


async def test_a_rate_counts_starts_and_not_attempts(store: RunStore) -> None:
    door, ownership = admission(store, "rate=1/h"), MongoRunRepository(store, owner="w", lease_s=30)
    first, second = await insert_runs(store, ["acme", "acme"])
    claim = await claim_run(store, first)
    assert await door.try_admit(claim)
    await store.runs.update_one({"_id": first}, {"$set": {"state": "queued"}})

    assert await door.try_admit(await claim_run(store, first))
    assert not await door.try_admit(await claim_run(store, second))
    assert await ownership.claim(second) is None


async def test_a_rate_that_was_raised_is_not_bound_by_the_old_one(store: RunStore) -> None:
    rates, slow, fast = StartRates(store.database), parse_caps("rate=1/h").rates[""], parse_caps("rate=100/s").rates[""]
    assert await rates.try_acquire("acme", slow)
    assert not await rates.try_acquire("acme", slow)

    assert not await rates.try_acquire("acme", fast)
    await wait_until("the new rate applies", lambda: rates.try_acquire("acme", fast), within_s=2)


async def test_side_by_side_a_rate_gives_no_start_twice(store: RunStore) -> None:
    rates, rate = StartRates(store.database), parse_caps("rate=1/m").rates[""]

    assert (await asyncio.gather(*(rates.try_acquire("acme", rate) for _ in range(20)))).count(True) == 1
    assert await rates.count_free_starts({"acme": rate, "new": rate}) == {"acme": 0, "new": 1}


async def test_a_run_that_leaves_is_followed_by_one_of_each_of_its_limits(store: RunStore) -> None:
    caps, sent = parse_caps("app=1,workflow:Relay=1"), RecordedWakeups()
    door = Admission(
        AllLimits(caps, store),
        MongoRunRepository(store, owner="w", lease_s=30),
        sent,
        has_caps=True,
        on_held=lambda _: None,
        on_fenced=lambda: None,
    )
    [leaving] = await insert_runs(store, ["acme"])
    claim = await claim_run(store, leaving)
    [same_app] = await hold_runs(store, "app:acme", ["acme"], workflow="Other")
    [same_workflow] = await hold_runs(store, "workflow:Relay", ["globex"])

    assert await door.release_after(claim) is None  # it has not left yet
    await store.runs.update_one({"_id": leaving}, {"$set": {"state": "succeeded"}})
    assert await door.release_after(claim) == same_app
    assert sent.run_ids == [same_workflow]
    assert await door.release_after(claim) is None


class RecordedCommands(monitoring.CommandListener):
    def __init__(self) -> None:
        self.names: list[str] = []
        self.read_concerns: list[str] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.names.append(event.command_name)
        self.read_concerns.append(event.command.get("readConcern", {}).get("level"))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Ignored."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Ignored."""


async def test_without_caps_nothing_is_asked_of_the_store(
    settings: Settings, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = RecordedCommands()
    monkeypatch.setattr(monitoring, "_LISTENERS", monitoring._Listeners([commands], [], [], [], []))
    listened = RunStore(connect(settings.mongodb_url or "", database=settings.database))
    claim = await claim_run(store, (await insert_runs(store, ["acme"]))[0])

    try:
        assert await admission(listened, "").try_admit(claim)
        assert await admission(listened, "").release_after(claim) is None
        assert commands.names == []
        assert await admission(listened, "app=1").try_admit(claim)
        assert commands.names == ["aggregate", "aggregate"]  # released runs, and running ones
        # The majority view of a new primary may be older than this claim, and than all that it must see.
        assert commands.read_concerns == ["local", "local"]
    finally:
        await listened.database.client.close()


async def test_releasing_reads_a_key_for_each_limit_and_app_and_not_the_backlog(store: RunStore) -> None:
    await hold_runs(store, "app:acme", ["acme"] * 500)
    await hold_runs(store, "app:acme", ["acme"] * 500, workflow="Other")
    await hold_runs(store, "workflow:Relay", ["a", "b", "c"] * 200)

    for pipeline, seeks in ((LIMITS_PIPELINE, 3), (heads_pipeline(RELAY), 4), (heads_pipeline(ACME), 3)):
        look = await explain_command(
            store, {"aggregate": "runs", "pipeline": pipeline, "hint": "by_limit_and_workflow", "cursor": {}}
        )
        assert look["totalKeysExamined"] <= seeks
        assert look["totalDocsExamined"] <= seeks
        assert "DISTINCT_SCAN" in stages(look)
    behind: Document = {"held_by": "app:acme", "app_id": "acme", "workflow": "Relay"}
    order = {"app_id": 1, "workflow": 1, "priority": -1, "_id": 1}
    asked = {"find": "runs", "filter": behind, "projection": {"started_at": 1}, "sort": order, "limit": 2}
    index = "by_limit_and_workflow"
    found = await explain_command(store, {**asked, "hint": index})
    assert (found["totalKeysExamined"], found["totalDocsExamined"]) == (2, 2)
    next_app: Document = {"held_by": "workflow:Relay", "app_id": {"$gt": "a"}}
    found = await explain_command(store, {"find": "runs", "filter": next_app, "sort": order, "limit": 1, "hint": index})
    assert (found["totalKeysExamined"], found["totalDocsExamined"]) == (1, 1)
    under_way: Document = {"held_by": {"$gte": "released:", "$lt": "released;"}, "app_id": "acme"}
    found = await explain_command(store, {"find": "runs", "filter": under_way, "projection": {"_id": 1}, "hint": index})
    assert found["totalKeysExamined"] <= 1
    assert found["totalDocsExamined"] == 0
