"""Chains: the end of one run starts another one, in the same app, once, and never for ever."""

from datetime import UTC, datetime
from typing import Any

import pytest
from ulid import ULID

from tests.integration.stage import Stage, relay
from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.stream_bench import StreamBench
from tests.trigger_packages import package_with_triggers
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import Pause
from triggers.run_finished.run_finished_kind import KIND
from workers.control.run_cancellation import cancel, discard
from workers.control.run_replay import replay
from workers.store.run import RunRequest, TriggerEvent
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec

pytestmark = pytest.mark.integration

Document = dict[str, Any]


class SilentWakeups:
    def send(self, run_id: str) -> None:
        """No worker runs here."""


class Chains:
    """Triggers of `Orders` on the ends of runs, and runs that end by hand."""

    def __init__(self, bench: StreamBench) -> None:
        self.bench = bench
        self.store = bench.store
        self.stream = f"{bench.store.database.name}.runs"
        self.declare({})

    def declare(self, *changes: Document, workflow: str = "Orders") -> None:
        specs = [RunFinishedSpec.model_validate({"name": "after", "workflow": "Digest", **each}) for each in changes]
        self.bench.packages = package_with_triggers(*specs, name=workflow)

    @property
    def trigger(self) -> Trigger:
        return Trigger("Orders", self.bench.packages["Orders"].triggers[0])

    async def accept_run(self, workflow: str = "Digest", *, app_id: str = "acme", **request: Any) -> str:
        event = TriggerEvent("api", "test", str(ULID()), fired_at=datetime.now(UTC))
        return (await self.store.insert(RunRequest(app_id, workflow, event, **request))).run_id

    async def end_run(self, run_id: str, state: str = "succeeded", *, kind: str = "completed") -> None:
        end = {"state": state, "outcome": {"kind": kind, "reason": None, "error": None}, "context": {"n": 5}}
        await self.store.runs.update_one({"_id": run_id}, {"$set": {"state": "running"}})
        await self.store.runs.update_one({"_id": run_id}, {"$set": {**end, "finished_at": datetime.now(UTC)}})

    async def accept_and_end_run(self, state: str = "succeeded", *, kind: str = "completed", **request: Any) -> str:
        run_id = await self.accept_run(**request)
        await self.end_run(run_id, state, kind=kind)
        return run_id

    async def followers(self) -> list[Document]:
        return await self.store.runs.find({"trigger.type": "run_finished"}).sort("_id", 1).to_list(None)

    async def follow(self, *parents: str) -> list[Document]:
        async def all_there() -> bool:
            return len(await self.followers()) >= len(parents)

        await wait_until(all_there, f"{len(parents)} runs that follow")
        followers = await self.followers()
        assert sorted(run["parent_run_id"] for run in followers) == sorted(parents)
        return followers


@pytest.fixture
def chains(bench: StreamBench) -> Chains:
    return Chains(bench)


async def test_a_chain_behind_an_unknown_workflow_is_reported_and_still_works(
    chains: Chains, caplog: pytest.LogCaptureFixture
) -> None:
    """Another machine may have it."""
    chains.declare({}, {"name": "own", "workflow": "Orders"})
    async with chains.bench.watching(chains.stream):
        await chains.follow(await chains.accept_and_end_run())

    said = [record for record in caplog.records if record.message == "chain_waits_in_vain"]
    assert [(vars(record)["trigger"], vars(record)["workflow"]) for record in said] == [("Orders/after", "Digest")]


async def test_the_end_of_a_run_starts_another_one_with_what_the_trigger_maps(chains: Chains) -> None:
    chains.declare(
        {
            "input": {"of": "=run_id", "n": "=context.n", "was": "=state", "asked": "=input.report"},
            "message": "=outcome.kind",
        }
    )
    async with chains.bench.watching(chains.stream):
        parent = await chains.accept_and_end_run(input={"report": "weekly"}, correlation_id="order-7")
        other = await chains.accept_and_end_run(workflow="Other")
        (run,) = await chains.follow(parent)

    assert other
    assert run["app_id"] == "acme"
    assert run["workflow"] == "Orders"
    assert run["input"] == {"of": parent, "n": 5, "was": "succeeded", "asked": "weekly"}
    assert run["message"] == "completed"
    assert run["correlation_id"] == "order-7"
    assert run["chain"] == ["Orders/after"]
    assert run["trigger"]["id"] == f"{parent}:succeeded"


async def test_only_ends_with_a_wanted_outcome_and_that_hold_start_runs(chains: Chains) -> None:
    chains.declare(
        {"outcome": ["failed", "max_turns"]},
        {"name": "any", "outcome": "any", "when": "input.n > `1`"},
    )
    async with chains.bench.watching(chains.stream):
        failed = await chains.accept_and_end_run("failed", kind="tool_error")
        await chains.accept_and_end_run()
        long = await chains.accept_and_end_run(kind="max_turns")
        wanted = await chains.accept_and_end_run(input={"n": 2})
        runs = await chains.follow(failed, long, wanted)

    names = {run["parent_run_id"]: run["trigger"]["name"] for run in runs}
    assert names == {failed: "after", long: "after", wanted: "any"}


async def test_a_chain_stays_in_its_app_and_serves_only_those_it_names(chains: Chains) -> None:
    chains.declare({"apps": ["acme", "globex"]})
    made = RunFinishedSpec.model_validate({"name": "made", "workflow": "Digest"})
    await chains.bench.triggers.create(Trigger("Orders", made, app_id="initech"))
    async with chains.bench.watching(chains.stream):
        parents = [
            await chains.accept_and_end_run(app_id=app) for app in ("acme", "globex", "initech", "umbrella", "acme")
        ]
        runs = await chains.follow(*(parents[at] for at in (0, 1, 2, 4)))

    app_of = dict(zip(parents, ("acme", "globex", "initech", "umbrella", "acme"), strict=True))
    assert all(run["app_id"] == app_of[run["parent_run_id"]] for run in runs)
    assert [run["trigger"]["name"] for run in runs if run["app_id"] == "initech"] == ["made"]


async def test_runs_that_end_without_a_watcher_are_followed_once_later(chains: Chains) -> None:
    async with chains.bench.watching(chains.stream):
        start = (await chains.bench.stream(chains.stream))["resume_token"]
        first = await chains.accept_and_end_run()
        await chains.follow(first)
    second = await chains.accept_and_end_run()

    async with chains.bench.watching(chains.stream):
        await chains.follow(first, second)
    await chains.bench.streams.update_one({"_id": chains.stream}, {"$set": {"resume_token": start}})
    async with chains.bench.watching(chains.stream):
        third = await chains.accept_and_end_run()
        await chains.follow(first, second, third)

    assert chains.bench.metric("duplicates_dropped_total", trigger="Orders/after") == 2


async def test_a_cycle_is_cut_when_a_trigger_comes_round_to_itself(chains: Chains) -> None:
    chains.declare({"workflow": "Orders"})
    async with chains.bench.watching(chains.stream):
        first = await chains.accept_and_end_run("succeeded", workflow="Orders")
        (second,) = await chains.follow(first)
        await chains.end_run(second["_id"])
        notes = await chains.bench.wait_for_skips("cycle", 1, trigger=chains.trigger)
        await chains.follow(first)

    assert notes[0]["detail"] == "Orders/after"
    assert notes[0]["app_id"] == "acme"


async def test_a_chain_of_more_than_ten_links_is_cut(chains: Chains) -> None:
    async with chains.bench.watching(chains.stream):
        deep = await chains.accept_and_end_run(chain=tuple(f"W{number}/t" for number in range(10)))
        notes = await chains.bench.wait_for_skips("too_deep", 1, trigger=chains.trigger)
        less = await chains.accept_and_end_run(chain=tuple(f"W{number}/t" for number in range(9)))
        (run,) = await chains.follow(less)

    assert deep in notes[0]["event_id"]
    assert len(run["chain"]) == 10


async def test_a_parking_run_ends_once_by_its_outcome_and_later_as_cancelled(chains: Chains) -> None:
    chains.declare(
        {"name": "any", "outcome": "any"},
        {"name": "kind", "outcome": ["model_error"]},
        {"name": "parked", "outcome": ["parked"]},
        {"name": "cancelled", "outcome": ["cancelled"]},
    )
    async with chains.bench.watching(chains.stream):
        parked = await chains.accept_and_end_run("parked", kind="model_error")
        await chains.follow(parked, parked, parked)
        await discard(chains.store, parked, by="ada")
        runs = await chains.follow(parked, parked, parked, parked)
        waiting = await chains.accept_run()
        await cancel(chains.store, waiting, by="ada")
        await chains.follow(*[parked] * 4, waiting, waiting)

    assert sorted(run["trigger"]["name"] for run in runs) == ["any", "cancelled", "kind", "parked"]
    assert len({run["trigger"]["id"] for run in runs}) == 2


async def test_a_replay_is_a_chain_of_its_own(chains: Chains) -> None:
    chains.declare({"workflow": "Orders"})
    async with chains.bench.watching(chains.stream):
        first = await chains.accept_and_end_run(workflow="Orders")
        (second,) = await chains.follow(first)
        await chains.end_run(second["_id"])
        again = await replay(chains.store, SilentWakeups(), second["_id"], by="ada")
        assert again.new_run_id is not None
        await chains.end_run(again.new_run_id)

        async def has_follower() -> bool:
            return await chains.store.runs.find_one({"parent_run_id": again.new_run_id}) is not None

        await wait_until(has_follower, "a run that follows the replay")


async def test_a_paused_trigger_and_a_mapping_that_fails_are_noted(chains: Chains) -> None:
    chains.declare({}, {"name": "maps", "input": {"n": "=abs(state)"}})
    await chains.bench.triggers.pause(chains.trigger, Pause(datetime.now(UTC), "ada", "stocktaking"), app_id="acme")
    async with chains.bench.watching(chains.stream):
        await chains.accept_and_end_run()
        notes = await chains.bench.wait_for_skips("paused", 1, trigger=chains.trigger)
        other = await chains.accept_and_end_run(app_id="globex")
        await chains.follow(other)

    assert notes[0]["detail"] == "stocktaking"
    assert chains.bench.metric("stream_events_skipped_total", trigger="Orders/maps", reason="unmappable") == 2


async def test_a_run_removed_before_its_end_was_seen_is_noted_only_in_its_app(
    chains: Chains,
) -> None:
    made = RunFinishedSpec.model_validate({"name": "made", "workflow": "Digest"})
    others = Trigger("Orders", made, app_id="initech")
    await chains.bench.triggers.create(others)
    async with chains.bench.watching(chains.stream):
        pass
    gone = await chains.accept_and_end_run()
    await chains.store.runs.delete_one({"_id": gone})

    async with chains.bench.watching(chains.stream):
        notes = await chains.bench.wait_for_skips("gone", 1, trigger=chains.trigger)

    assert gone in notes[0]["event_id"]
    (told,) = (await chains.bench.record(others)).notes
    assert told["reason"] == "gone"
    assert gone not in str(told)


async def test_the_end_of_a_run_of_many_megabytes_is_followed(chains: Chains) -> None:
    chains.declare({"input": {"n": "=length(context.text)"}})
    async with chains.bench.watching(chains.stream):
        run_id = await chains.accept_run()
        large = {"state": "succeeded", "context": {"text": "x" * 9_000_000}}
        await chains.store.runs.update_one({"_id": run_id}, {"$set": large})
        (run,) = await chains.follow(run_id)

    assert run["input"] == {"n": 9_000_000}


async def test_the_description_shows_the_stream_of_ended_runs(chains: Chains) -> None:
    async with chains.bench.watching(chains.stream):
        told = await KIND.describe(chains.trigger, None, chains.store.database, chains.bench.settings)

    assert told["stream"] == chains.stream
    assert told["state"] == "running"


async def test_a_worker_ends_a_run_and_the_chain_goes_on(stage: Stage, chains: Chains) -> None:
    chains.declare({"input": {"after": "=run_id", "tokens": "=usage.input_tokens"}}, workflow="Orders")
    stage.package("Digest", relay("Digest", ["A"]))
    stage.package("Orders", relay("Orders", ["B"]))
    async with chains.bench.watching(chains.stream):
        await stage.start_worker()
        first = await stage.accept("Digest")
        (second,) = await chains.follow(first.run_id)
        stage.wakeups.send(second["_id"])
        end = await stage.wait_for_end(second["_id"])

    assert end["state"] == "succeeded"
    assert end["input"] == {"after": first.run_id, "tokens": 10}
    assert end["correlation_id"] == first.run_id
