"""MongoDB dies under the API: 503 and when to come back, nothing that was accepted is lost, and then it goes on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.write_concern import WriteConcern

from ops.embedded.embedded_servers import embedded_servers
from tests.integration.triggers.api.conftest import ApiClient
from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.gateway_server import Gateway, serving, settings_with_package
from tests.integration.triggers.test_outage import kill_mongod
from triggers.api_keys import ApiKeys
from triggers.role_context import build_role_context
from workers.broker.wakeups import Wakeups
from workers.settings import Settings
from workflows.package.catalog import Catalog

pytestmark = pytest.mark.integration


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """On a MongoDB of its own, which may be killed."""
    async with embedded_servers(tmp_path / "data", redis=False) as services:
        settings = settings_with_package(Settings(mongodb_url=services.mongodb_url), tmp_path)
        # With less patience than connect() has, which outlasts the restart of this server.
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
            services.mongodb_url, tz_aware=True, serverSelectionTimeoutMS=100
        )
        database = client.get_database("unattended", write_concern=WriteConcern(w="majority", j=True))
        ground = build_role_context(
            database, settings, catalog=Catalog(settings.packages), wakeups=Wakeups(lambda _: None)
        )
        await ground.store.ensure_indexes()
        async with serving(ground) as running:
            yield running
        await client.close()


async def test_what_was_accepted_before_and_after_an_outage_is_there(gateway: Gateway, tmp_path: Path) -> None:
    client = ApiClient(gateway, await ApiKeys(gateway.ground.database).create("shop", "acme"))
    accepted: dict[int, str] = {}
    refused = 0

    async def start(number: int) -> None:
        """Retries with the same key, as clients do after a 503."""
        nonlocal refused
        while number not in accepted:
            headers = {"idempotency-key": f"order-{number}"}
            answer = await client.post("/v1/runs", {"workflow": "Sales", "input": {"n": number}}, headers=headers)
            assert answer.status_code in (200, 202, 503), answer.text
            if answer.status_code == 503:
                refused += 1
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.headers["retry-after"] == "5"
                assert answer.json()["detail"] == "the store does not answer; try again"
                await asyncio.sleep(0.05)  # before Retry-After has passed
            else:
                accepted[number] = answer.json()["run_id"]

    async def some_are_refused() -> bool:
        return refused > 0

    await start(0)
    kill_mongod(tmp_path)
    async with asyncio.TaskGroup() as tasks:
        for number in range(1, 20):
            tasks.create_task(start(number))
        await wait_until(some_are_refused, "calls to be refused", within_s=30)

    assert {run["_id"]: run["input"]["n"] for run in await gateway.runs()} == {
        run_id: number for number, run_id in accepted.items()
    }
    assert len(accepted) == 20
