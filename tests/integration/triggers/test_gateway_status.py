"""Run status behind API keys, and health while the store is unavailable."""

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest
from pymongo import AsyncMongoClient

from tests.integration.triggers.gateway_server import (
    Gateway,
    running_gateway,
    serving,
    settings_with_package,
    sign_as_standard,
)
from triggers.api_keys import ApiKeys
from triggers.role_context import build_role_context
from workers.broker.publisher import Publisher
from workers.broker.wakeups import Wakeups
from workers.celery import configure
from workers.settings import Settings
from workflows.package.catalog import Catalog

pytestmark = pytest.mark.integration


@pytest.fixture
async def gateway(settings: Settings, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(settings, tmp_path) as running:
        yield running


@pytest.fixture
async def gateway_without_store(settings: Settings, tmp_path: Path) -> AsyncIterator[Gateway]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed_port = taken.getsockname()[1]
    settings = settings_with_package(settings, tmp_path)
    client: AsyncMongoClient[dict[str, object]] = AsyncMongoClient(
        "127.0.0.1", closed_port, serverSelectionTimeoutMS=200
    )
    database = client["nowhere"]
    wakeups = Wakeups(Publisher(configure(settings)))
    ground = build_role_context(database, settings, catalog=Catalog(settings.packages), wakeups=wakeups)
    async with serving(ground) as running:
        yield running
    await client.close()


async def make_run(gateway: Gateway, app: str) -> str:
    answer = await gateway.client.post(f"/hooks/{app}/Sales/paid", **sign_as_standard('{"order": {"id": 1}}'))
    return str(answer.json()["run_id"])


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def test_a_key_reads_the_runs_of_its_app_only(gateway: Gateway) -> None:
    keys = ApiKeys(gateway.ground.database)
    of_acme, of_all = await keys.create("ci", "acme"), await keys.create("ops", None)
    ours, theirs = await make_run(gateway, "acme"), await make_run(gateway, "globex")

    async def status(run_id: str, key: str) -> int:
        return (await gateway.client.get(f"/v1/runs/{run_id}", headers=bearer(key))).status_code

    assert await status(ours, of_acme) == 200
    assert await status(theirs, of_acme) == 404
    assert await status("run_none", of_acme) == 404
    assert await status(theirs, of_all) == 200


async def test_a_run_is_shown_by_its_public_names(gateway: Gateway) -> None:
    key = await ApiKeys(gateway.ground.database).create("ci", "acme")
    run_id = await make_run(gateway, "acme")
    await gateway.ground.store.runs.update_one({"_id": run_id}, {"$set": {"context": {"odd": float("nan")}}})

    answer = await gateway.client.get(f"/v1/runs/{run_id}", headers=bearer(key))

    shown = answer.json()
    assert (shown["run_id"], shown["state"], shown["app_id"]) == (run_id, "queued", "acme")
    assert datetime.fromisoformat(shown["created_at"]).tzinfo is not None
    assert shown["context"] == {"odd": None}
    assert shown["dedupe_key"].endswith(f"/acme/{shown['trigger']['id']}")
    assert answer.headers["cache-control"] == "no-store"


async def test_without_a_valid_key_there_is_no_answer(gateway: Gateway) -> None:
    keys = ApiKeys(gateway.ground.database)
    revoked = await keys.create("old", None)
    [key] = await keys.list()
    assert await keys.revoke(key.id)
    run_id = await make_run(gateway, "acme")

    wrong = [{}, bearer(revoked), bearer("ua_" + "x" * 43), bearer("ua_ü"), bearer(""), {"authorization": "Basic x"}]
    for headers in wrong:
        encoded = [(name.encode(), value.strip().encode()) for name, value in headers.items()]
        answer = await gateway.client.get(f"/v1/runs/{run_id}", headers=encoded)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"


async def test_keys_are_kept_as_hashes_and_listed_without(gateway: Gateway) -> None:
    keys = ApiKeys(gateway.ground.database)
    plaintext = await keys.create("ci", "acme")

    [document] = await gateway.ground.database["api_keys"].find().to_list()
    assert plaintext not in str(document)
    [listed] = await keys.list()
    assert (listed.name, listed.app_id, listed.revoked_at) == ("ci", "acme", None)
    assert await keys.verify(plaintext) == listed
    assert await keys.verify(plaintext[:-1]) is None

    assert await keys.revoke(listed.id)
    assert not await keys.revoke(listed.id)
    assert not await keys.revoke("key_none")
    assert await keys.verify(plaintext) is None


async def test_a_healthy_gateway_reports_ok(gateway: Gateway) -> None:
    assert (await gateway.client.get("/healthz")).json() == {"status": "alive"}
    assert (await gateway.client.get("/readyz")).json() == {"status": "ready"}
    nowhere = await gateway.client.get("/nowhere")
    assert (nowhere.status_code, nowhere.headers["content-type"]) == (404, "application/problem+json")


async def test_without_its_store_a_gateway_accepts_nothing_and_sends_retry_after(
    gateway_without_store: Gateway,
) -> None:
    client = gateway_without_store.client

    answers = await asyncio.gather(
        client.post("/hooks/acme/Sales/paid", **sign_as_standard("{}")),
        client.post("/forms/acme/Sales/lead", json={"email": "ada@example.com"}),
        client.get("/v1/runs/run_1", headers=bearer("ua_" + "x" * 43)),
        client.get("/readyz"),
    )

    for answer in answers:
        assert answer.status_code == 503, answer.text
        assert answer.headers["retry-after"] == "5"
        assert answer.headers["content-type"] == "application/problem+json"
        assert "127.0.0.1" not in answer.text
    assert (await client.get("/healthz")).status_code == 200
    metrics = (await client.get("/metrics")).text
    assert 'unattended_webhook_requests_total{endpoint="webhook",result="unavailable"} 1.0' in metrics
