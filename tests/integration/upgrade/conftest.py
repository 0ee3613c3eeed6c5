"""The recorded deployment, taken over by this version: loaded, worked on until nothing is left, and then looked at."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis
from ulid import ULID

from tests.chaos.counting_model import CallCounts, counting_model
from tests.integration.accounting.billing.receiver import BillingReceiver, billing_receiver
from tests.integration.ops.all_roles import Roles
from tests.integration.ops.command import unattended
from tests.integration.stage import ENDED, Document, Stage, wait_until
from tests.integration.upgrade import deployment
from tests.integration.upgrade.recorded_data import Recording, load, read_recording
from workers.admission.cap_settings import parse_caps
from workers.embedded_services import Services
from workers.settings import Settings
from workers.store.run_store import RunStore, connect

SECRETS = {"HOOK_SECRET": deployment.HOOK_SECRET, "BILLING_SECRET": deployment.BILLING_SECRET}


@dataclass(frozen=True, slots=True)
class UpgradedDeployment:
    """`after_wakeups`: the recorded runs by case, when the old wake-ups were used up and no other role ran yet."""

    stage: Stage
    recording: Recording
    roles: Roles
    calls: CallCounts
    after_wakeups: dict[str, Document]
    client: httpx.AsyncClient
    receiver: BillingReceiver

    async def runs(self) -> dict[str, Document]:
        return {run["_id"]: run async for run in self.stage.store.runs.find()}

    async def call(self, method: str, path: str, body: Any = None, *, key: str = "", **headers: str) -> httpx.Response:
        authorization = {"authorization": f"Bearer {key or self.recording.key}"}
        return await self.client.request(method, path, json=body, headers={**authorization, **headers})


@pytest.fixture(scope="module")
async def upgraded(
    servers: Services, dropped: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[UpgradedDeployment]:
    folder, name = tmp_path_factory.mktemp("upgrade"), f"test_{ULID()}".lower()
    database = connect(servers.mongodb_url or "", database=name)
    recording = read_recording(name, now=datetime.now(UTC))
    await load(recording, database, servers.redis_url or "", name)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.client.close)
        receiver = await stack.enter_async_context(billing_receiver())
        stage = _stage(
            _settings(servers, folder, name, billing_url=receiver.url), RunStore(database, republish_after_s=2), folder
        )
        stack.push_async_callback(stage.close)
        calls = stack.enter_context(counting_model(stage, takes_s=0.005))
        await _rewind_the_clock(stage)
        await stage.start_worker()
        after_wakeups = await _wait_until_wakeups_are_used(stage, recording)
        await database["orders"].insert_one({"_id": "order-2", "state": "new"})  # while no watcher runs
        roles = Roles(stage, SECRETS)
        stack.push_async_callback(roles.close)
        await roles.start("scheduler", "watcher", "gateway", "exporter")
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=f"http://{roles.at['gateway']}", timeout=20)
        )
        upgraded = UpgradedDeployment(stage, recording, roles, calls, after_wakeups, client, receiver)
        await _bring_to_an_end(upgraded)
        yield upgraded
    dropped(name)


def _settings(servers: Services, folder: Path, name: str, *, billing_url: str) -> Settings:
    return Settings(
        mongodb_url=servers.mongodb_url,
        redis_url=servers.redis_url,
        database=name,
        queue=name,
        data_dir=folder,
        lease_s=3,
        max_attempts=2,
        republish_after_s=2,
        caps=parse_caps(deployment.CAPS),
        billing_url=billing_url,
        billing_secret=frozenset({"env:BILLING_SECRET"}),
    )


def _stage(settings: Settings, store: RunStore, folder: Path) -> Stage:
    stage = Stage(settings, store, folder)
    stage.settings = replace(stage.settings, environ={**stage.settings.environ, **SECRETS})
    for package, files in deployment.packages(settings.database).items():
        stage.package(package, files)
    return stage


async def _rewind_the_clock(stage: Stage) -> None:
    """As if the old scheduler had been killed after the runs of its last tick, and before it moved on."""
    to_last_tick = [{"$set": {"schedule.next_at": "$schedule.last_at"}}]
    done = await stage.store.database["triggers"].update_one({"_id": "Short/ticking"}, to_last_tick)
    assert done.modified_count == 1


async def _wait_until_wakeups_are_used(stage: Stage, recording: Recording) -> dict[str, Document]:
    redis = Redis.from_url(stage.settings.redis_url or "")

    async def all_woken() -> bool:
        lanes = await stage.store.runs.count_documents({"lane": {"$exists": True}, "state": "queued"})
        running = {"state": "running", "lease.until": {"$gt": datetime.now(UTC)}}
        busy = await stage.store.runs.count_documents(running)
        return not lanes and not busy and not await redis.llen(stage.settings.queue)

    try:
        await wait_until("the old wake-ups are used up", all_woken)
    finally:
        await redis.aclose()
    return {case: await stage.run(run["_id"]) for case, run in recording.by_case().items()}


async def _bring_to_an_end(upgraded: UpgradedDeployment) -> None:
    """As operators would: one question is answered with the old key, and one budget is raised."""
    cases = upgraded.recording.by_case()
    await _wait_for_ends(upgraded, but={cases["held-by-budget"]["_id"]})
    body = {"question": 1, "responses": {"Refund": {"choice": "yes"}}}
    answered, raised = await asyncio.gather(
        upgraded.call("POST", f"/v1/runs/{cases['waiting']['_id']}/answer", body),
        unattended(upgraded.stage, "budgets", "set", "--app", "thrifty", "--per", "total", "--tokens", "1000"),
    )
    assert answered.status_code == 200, answer_text(answered)
    assert raised.code == 0, raised.err
    await _wait_for_ends(upgraded)


def answer_text(answer: httpx.Response) -> str:
    return f"{answer.status_code}: {answer.text}"


async def _wait_for_ends(upgraded: UpgradedDeployment, but: frozenset[str] | set[str] = frozenset()) -> None:
    recorded = [run["_id"] for run in upgraded.recording.collections["runs"] if run["_id"] not in but]
    query = {"$or": [{"_id": {"$in": recorded}}, {"workflow": "Orders"}], "state": {"$nin": [*ENDED]}}

    async def all_ended() -> bool:
        return await upgraded.stage.store.runs.find_one(query, {"_id": 1}) is None

    try:
        await wait_until("the recorded runs have ended", all_ended, within_s=60)
    except AssertionError as error:
        fields = {
            "state": 1,
            "hold": 1,
            "held_by": 1,
            "workflow": 1,
            "trigger": 1,
            "lease": 1,
            "not_before": 1,
            "lane": 1,
        }
        left = await upgraded.stage.store.runs.find(query, fields).to_list(None)
        raise AssertionError(f"{error}: {left}\n{upgraded.stage.log()[-4000:]}") from None
