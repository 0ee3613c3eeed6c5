"""Watchers that are killed, elections, an oplog that is too short: each change starts one run, or the gap is told."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ops.processes.supervisor import role_command
from tests.chaos.change_traffic import Change, write_changes
from tests.chaos.lengths import add_summary_line, by_length
from tests.chaos.own_servers import stage_on
from tests.chaos.replica_set import replica_set_of_three
from tests.chaos.small_oplog import flood, mongodb_with_small_oplog
from tests.chaos.squad import Member
from tests.integration.stage import Stage, relay, wait_until
from triggers.change_stream.stream_control import NOW, ResumeRefusedError, StreamControl
from workers.settings import Settings, as_environment

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(by_length(short=180, long=900))]

EVENTS = by_length(short=1_500, long=100_000)
DOCUMENTS = by_length(short=400, long=2_000)
KILLS, OWNERS = by_length(short=(2, 2), long=(40, 8))
ELECTION_EVENTS = by_length(short=300, long=3_000)
WRITERS = by_length(short=20, long=100)
ELECTION_DOCUMENTS = 3 * WRITERS
PATIENCE_S = by_length(short=90, long=600)

Document = dict[str, Any]


def declare(stage: Stage, **changes: Any) -> None:
    trigger = {
        "name": "changed",
        "type": "database_condition",
        "database": shop(stage),
        "collection": "orders",
        "operations": ["insert", "update"],
        "full_document": "off",
        "loop_guard": {"max": 100_000, "per": "1s"},
        "apps": ["acme"],
        "input": {"order": "=documentKey._id", "n": "=updateDescription.updatedFields.n"},
        **changes,
    }
    stage.package("Orders", {**relay("Orders", ["A"]), "triggers": {"triggers": [trigger]}})


def shop(stage: Stage) -> str:
    return f"shop_{stage.settings.database}"[:60]


def stream_id(stage: Stage) -> str:
    return f"{shop(stage)}/full_document=off"


async def stream_of(stage: Stage) -> Document:
    found = await stage.store.database["streams"].find_one({"_id": stream_id(stage)})
    return found or {}


@asynccontextmanager
async def watchers(stage: Stage, count: int) -> AsyncIterator[list[Member]]:
    env = as_environment(stage.settings)
    members = [
        Member(role_command("watcher"), log=stage.folder / f"watcher-{number}.log", env=env) for number in range(count)
    ]

    async def has_position() -> bool:
        stream = await stream_of(stage)
        return stream.get("resume_token") is not None or stream.get("state") == "suspended"

    try:
        for member in members:
            member.start()
        await wait_until("the stream has a position", has_position, within_s=60)
        yield members
    finally:
        await asyncio.gather(*(member.stop() for member in members))


async def write_orders(stage: Stage, events: int, documents: int, *, seed: int) -> set[Change]:
    orders = stage.store.database.client.get_database(shop(stage), write_concern=stage.store.database.write_concern)
    return await write_changes(orders["orders"], events, documents, seed=seed, writers=WRITERS)


async def runs_of(stage: Stage) -> list[Document]:
    wanted = {"input": 1, "order": 1}
    found: list[Document] = await stage.store.runs.find({}, wanted).sort("order.seq", 1).to_list(None)
    return found


async def assert_one_run_per_change(stage: Stage, made: set[Change]) -> None:
    async def all_there() -> bool:
        return await stage.store.runs.count_documents({}) >= len(made)

    await wait_until(f"{len(made)} runs", all_there, within_s=PATIENCE_S)
    runs = [(run["input"]["order"], run["input"]["n"]) for run in await runs_of(stage)]
    assert Counter(runs) == Counter(made)
    # In the order of its changes, for each document.
    seen: dict[int, int] = {}
    for order, n in runs:
        assert (n or 0) == seen.get(order, -1) + 1
        seen[order] = n or 0


async def test_repeatedly_killed_watchers_make_one_run_per_change(stage: Stage) -> None:
    declare(stage)
    stage.settings = replace(stage.settings, lease_s=2)
    async with watchers(stage, 3) as members:
        changing = asyncio.create_task(write_orders(stage, EVENTS, DOCUMENTS, seed=6))
        chance, kills, owners = random.Random(7), 0, set[str]()
        # A quick machine has written all of it before the second owner comes: there is enough left to read.
        while not changing.done() or kills < KILLS or len(owners) < OWNERS:
            await asyncio.sleep(chance.uniform(0.3, 1.5))
            owner = str(((await stream_of(stage)).get("lease") or {}).get("owner") or "")
            owners |= {owner} if owner else set()
            # The owner, as far as it is known: the others have nothing to lose.
            named = [each for each in members if each.pid is not None and f":{each.pid}:" in owner]
            kills += chance.choice(named or members).send(signal.SIGKILL)
        await assert_one_run_per_change(stage, await changing)

    add_summary_line("change streams", events=EVENTS, kills=kills, owners=len(owners))
    assert (await stream_of(stage))["gaps"] == []


async def test_elections_lose_no_change(settings: Settings, tmp_path: Path) -> None:
    async with replica_set_of_three(tmp_path / "three") as three:
        own = replace(settings, mongodb_url=three.url, lease_s=4)
        elections: list[Callable[[], Awaitable[None]]] = by_length(
            short=[three.step_down], long=[three.step_down, three.kill_primary, three.step_down]
        )
        async with stage_on(own, tmp_path) as stage:
            declare(stage)
            async with watchers(stage, 2):
                changing = asyncio.create_task(write_orders(stage, ELECTION_EVENTS, ELECTION_DOCUMENTS, seed=8))
                for elect in elections:
                    await asyncio.sleep(1.5)
                    await elect()
                await assert_one_run_per_change(stage, await changing)
            assert (await stream_of(stage))["gaps"] == []


@pytest.fixture
async def short_memory(settings: Settings, tmp_path: Path) -> AsyncIterator[Stage]:
    async with (
        mongodb_with_small_oplog(tmp_path) as url,
        stage_on(replace(settings, mongodb_url=url, lease_s=3), tmp_path) as stage,
    ):
        declare(stage)
        yield stage


async def insert(stage: Stage, *orders: int) -> None:
    documents = [{"_id": order} for order in orders]
    await stage.store.database.client[shop(stage)]["orders"].insert_many(documents)


async def wait_for_runs(stage: Stage, *orders: int) -> None:
    async def all_there() -> bool:
        return await stage.store.runs.count_documents({}) >= len(orders)

    await wait_until(f"{len(orders)} runs", all_there)
    assert sorted(run["input"]["order"] for run in await runs_of(stage)) == sorted(orders)


async def test_a_quiet_collection_keeps_its_position_despite_a_tiny_busy_oplog(short_memory: Stage) -> None:
    stage = short_memory
    async with watchers(stage, 1):
        await insert(stage, 1)
        await wait_for_runs(stage, 1)
        for _ in range(3):
            written = await flood(stage.store.database.client["elsewhere"])
            reached = f"82{written.time:08X}{written.inc:08X}"  # as a position begins

            async def moved_on(reached: str = reached) -> bool:
                return bool((await stream_of(stage))["resume_token"]["_data"] >= reached)

            await wait_until("the position follows the oplog", moved_on)
    async with watchers(stage, 1):  # a restart goes on from a position that is still there
        await insert(stage, 2)
        await wait_for_runs(stage, 1, 2)
        assert (await stream_of(stage))["gaps"] == []


async def test_lost_history_suspends_the_stream_until_an_operator_decides(
    short_memory: Stage,
) -> None:
    stage = short_memory
    database = stage.store.database
    async with watchers(stage, 1):
        await insert(stage, 1)
        await wait_for_runs(stage, 1)
    await insert(stage, 2)
    await flood(database.client["elsewhere"])

    async with watchers(stage, 1) as members:

        async def suspended() -> bool:
            return bool((await stream_of(stage))["state"] == "suspended")

        await wait_until("the stream is suspended", suspended)
        stream = await stream_of(stage)
        assert [(gap["reason"], gap["from"], gap["to"]) for gap in stream["gaps"]] == [
            ("history_lost", stream["token_saved_at"], None)
        ]
        await insert(stage, 3)
        control = StreamControl(database)
        with pytest.raises(ResumeRefusedError, match="no longer reaches back"):
            await control.resume(stream_id(stage), datetime.now(UTC) - timedelta(hours=1))
        await control.resume(stream_id(stage), NOW)

        async def goes_on() -> bool:
            return bool((await stream_of(stage))["resume_token"] not in (None, stream["resume_token"]))

        await wait_until("the stream goes on", goes_on)
        await insert(stage, 4)
        await wait_for_runs(stage, 1, 4)
        assert members[0].log_text().count("stream_suspended") == 1
    assert (await stream_of(stage))["gaps"][0]["to"] is not None


async def test_lost_history_is_skipped_and_recorded_where_triggers_allow_it(short_memory: Stage) -> None:
    stage = short_memory
    declare(stage, on_history_lost="resume_now")
    async with watchers(stage, 1):
        await insert(stage, 1)
        await wait_for_runs(stage, 1)
    lost = (await stream_of(stage))["resume_token"]
    await insert(stage, 2)
    await flood(stage.store.database.client["elsewhere"])

    async with watchers(stage, 1):

        async def goes_on() -> bool:
            stream = await stream_of(stage)
            return bool(stream["state"] == "running" and stream["resume_token"] not in (None, lost))

        await wait_until("the stream goes on", goes_on)
        await insert(stage, 3)
        await wait_for_runs(stage, 1, 3)

    gaps = (await stream_of(stage))["gaps"]
    assert [gap["reason"] for gap in gaps] == ["history_lost"]
    assert gaps[0]["from"] < gaps[0]["to"]
