"""A real gateway with a key of each sort, for the tests of /v1."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.triggers.gateway_server import Gateway, running_gateway
from tests.integration.triggers.shared_gateway import empty_collections, shared_gateway
from triggers.api_keys import ApiKeys
from workers.embedded_services import Services
from workers.settings import Settings


@dataclass(frozen=True, slots=True)
class ApiClient:
    """Calls with one key."""

    gateway: Gateway
    key: str

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.key}", **options.pop("headers", {})}
        return await self.gateway.client.request(method, path, headers=headers, **options)

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        return await self.call("POST", path, **({"json": body} if body is not None else {}), **options)

    async def start(self, **body: Any) -> str:
        answer = await self.post("/v1/runs", {"workflow": "Sales", **body})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["run_id"])


@pytest.fixture(scope="module")
async def served(
    servers: Services, dropped: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    async with shared_gateway(servers, tmp_path_factory.mktemp("gateway"), dropped=dropped) as running:
        yield running


@pytest.fixture
async def gateway(served: Gateway) -> Gateway:
    """Of the module, with nothing left of the tests before."""
    return await empty_collections(served)


@pytest.fixture
async def fresh_gateway(settings: Settings, tmp_path: Path) -> AsyncIterator[Gateway]:
    """For tests of what a gateway keeps in its memory."""
    async with running_gateway(settings, tmp_path) as running:
        yield running


@pytest.fixture
async def keys(gateway: Gateway) -> ApiKeys:
    return ApiKeys(gateway.ground.database)


@pytest.fixture
async def acme(gateway: Gateway, keys: ApiKeys) -> ApiClient:
    return ApiClient(gateway, await keys.create("acme shop", "acme"))


@pytest.fixture
async def boss(gateway: Gateway, keys: ApiKeys) -> ApiClient:
    """May approve."""
    return ApiClient(gateway, await keys.create("boss", "acme", may=("approve",)))


@pytest.fixture
async def globex(gateway: Gateway, keys: ApiKeys) -> ApiClient:
    return ApiClient(gateway, await keys.create("globex shop", "globex"))


@pytest.fixture
async def operator(gateway: Gateway, keys: ApiKeys) -> ApiClient:
    return ApiClient(gateway, await keys.create("operator", None))
