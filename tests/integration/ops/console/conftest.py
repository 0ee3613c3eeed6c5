"""A gateway with the console, a worker, and keys of every kind."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest
from ulid import ULID

from ops.console.app import console_routes
from ops.console.console_context import ConsoleOptions
from tests.integration.stage import Stage, relay
from tests.integration.triggers.gateway_server import Gateway, serving, settings_with_package
from triggers.api_keys import ApiKeys
from triggers.role_context import open_role_context
from workers.embedded_services import Services
from workers.settings import Settings

FORM_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')
ORDER_ID = re.compile(r'name="order_id" value="([\w-]+)"')

ORDERS = """
def count_orders(region: str) -> dict:
    return {"orders": 128, "region": region}
"""


def digest() -> dict[str, Any]:
    """Two agents; the first one calls a tool and changes the context."""
    counted = {"type": "agent_text", "agent": "Collector", "match": {"contains": "NEXT"}}
    return {
        **relay("Digest", ["Collector", "Writer"]),
        "tools": {"tools": [{"agent": "Collector", "file": "orders.py", "function": "count_orders"}]},
        "tools/orders.py": ORDERS,
        "context_variables": {
            "definitions": {
                "collected": {"type": "boolean", "source": {"type": "state", "default": False, "triggers": [counted]}}
            }
        },
    }


def desk() -> dict[str, Any]:
    """A package that asks a person, and continues after the answer."""
    rules = (("Clerk", "user"), ("user", "Cashier"), ("Cashier", "terminate"))
    return {
        "orchestrator": {"workflow_name": "Desk", "initial_agent": "Clerk", "human_in_the_loop": True},
        "agents": {"agents": [{"name": name, "system_message": f"You are {name}."} for name in ("Clerk", "Cashier")]},
        "handoffs": {
            "handoff_rules": [
                {"source_agent": one, "target_agent": other, "handoff_type": "after_work"} for one, other in rules
            ]
        },
    }


PAY = """
from workflows.tools import use_ui_tool

async def pay(amount: int) -> dict:
    asked = await use_ui_tool("Refund", {"amount": amount}, title=f"Refund {amount} EUR?", choices=["yes", "no"])
    return {"paid": amount if asked["verdict"] == "yes" else 0}
"""


def till() -> dict[str, Any]:
    """A model that asks for two refunds in one reply."""
    answered = {"type": "ui_response", "tool": "Refund", "response_key": "verdict"}
    return {
        **relay("Till", ["Payer"]),
        "tools": {"tools": [{"agent": "Payer", "file": "pay.py", "function": "pay"}]},
        "tools/pay.py": PAY,
        "context_variables": {
            "definitions": {
                "verdict": {"type": "string", "source": {"type": "state", "default": "", "triggers": [answered]}}
            }
        },
    }


ANSWERS = {
    "Payer": [
        {"tool_calls": [{"name": "pay", "arguments": {"amount": each}} for each in (10, 5000)]},
        {"text": "It is settled."},
    ],
    "Collector": [
        {
            "tool_calls": [{"name": "count_orders", "arguments": {"region": "eu"}}],
            "usage": {"input": 400, "output": 20},
        },
        {"text": "There are 128 orders. NEXT", "usage": {"input": 500, "output": 40}},
    ],
    "Writer": [{"text": "Orders rose to 128 today.", "usage": {"input": 600, "output": 50}}],
    "Clerk": [{"text": "May I refund 120 EUR to Ada?", "usage": {"input": 100, "output": 10}}],
}


@dataclass(frozen=True, slots=True)
class Visit:
    """An HTTP client that acts like a browser: keeps the cookie, and sends Origin with forms."""

    gateway: Gateway
    client: httpx.AsyncClient
    key: str = field(repr=False)

    async def log_in(self, key: str | None = None, **headers: str) -> httpx.Response:
        return await self.send("/console/login", headers=headers, key=self.key if key is None else key)

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.client.get(path, **options)

    async def send(self, path: str, *, headers: Any = None, **fields: Any) -> httpx.Response:
        return await self.client.post(path, data=fields, headers={"origin": self.origin, **(headers or {})})

    async def token(self) -> str:
        page = (await self.get("/console")).text
        found = FORM_TOKEN.search(page)
        assert found is not None, page
        return found[1]

    async def allow_actions(self) -> None:
        answer = await self.send("/console/actions", form_token=await self.token(), allow="yes")
        assert answer.status_code == 303, answer.text

    @property
    def origin(self) -> str:
        return f"http://{self.gateway.address[0]}:{self.gateway.address[1]}"


@dataclass(frozen=True, slots=True)
class Console:
    gateway: Gateway
    stage: Stage
    clients: AsyncExitStack

    @asynccontextmanager
    async def with_options(self, options: ConsoleOptions) -> AsyncIterator["Console"]:
        """Serve the same store by another gateway."""
        ground = self.gateway.ground
        async with serving(ground, more_routes=console_routes(ground, options)) as gateway:
            yield replace(self, gateway=gateway)

    async def key(self, name: str = "Ada", app_id: str | None = None, **options: Any) -> str:
        return await ApiKeys(self.gateway.ground.database).create(name, app_id, **options)

    async def visit(self, name: str = "Ada", app_id: str | None = None, **options: Any) -> Visit:
        """Log in, and return the client."""
        key = await self.key(name, app_id, **options)
        address = f"http://{self.gateway.address[0]}:{self.gateway.address[1]}"
        client = await self.clients.enter_async_context(httpx.AsyncClient(base_url=address, timeout=20))
        visit = Visit(self.gateway, client, key)
        answer = await visit.log_in()
        assert (answer.status_code, answer.headers["location"]) == (303, "/console")
        return visit


@pytest.fixture(scope="module")
async def console(
    servers: Services, dropped: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Console]:
    folder, name = tmp_path_factory.mktemp("console"), f"test_{ULID()}".lower()
    settings = settings_with_package(
        Settings(
            mongodb_url=servers.mongodb_url,
            redis_url=servers.redis_url,
            database=name,
            queue=name,
            data_dir=folder,
            lease_s=3,
            republish_after_s=2,
        ),
        folder,
    )
    async with (
        open_role_context(settings) as ground,
        serving(ground, more_routes=console_routes(ground)) as gateway,
        AsyncExitStack() as clients,
    ):
        stage = Stage(settings, ground.store, folder)
        stage.package("Digest", digest())
        stage.package("Desk", desk())
        stage.package("Till", till())
        stage.answers(ANSWERS, default={"text": "Done.", "usage": {"input": 10, "output": 2}})
        yield Console(gateway, stage, clients)
        await stage.close()
    dropped(name)


async def accept_run(stage: Stage, **request: Any) -> str:
    """A queued run that no worker claims, as the worker does not have its workflow."""
    return (await stage.accept("Sales", wake=False, **request)).run_id
