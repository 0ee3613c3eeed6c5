"""A gateway as it is in production: uvicorn on a free port, the real store, a package on disk."""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import yaml
from standardwebhooks import Webhook
from starlette.routing import BaseRoute
from ulid import ULID

from tests import webhook_senders
from triggers.gateway.connection_admission import SLOTS, ConnectionAdmission, RouteGroup
from triggers.gateway.gateway_app import GatewayOptions, create_app
from triggers.gateway.gateway_metrics import GatewayMetrics
from triggers.gateway.gateway_role import bind_socket
from triggers.gateway.gateway_server import GatewayServer
from triggers.role_context import RoleContext, open_role_context
from workers.setting_values import Address
from workers.settings import Settings

BODY_LIMIT = 10_000
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
GITHUB_SECRET = "It's a Secret to Everybody"

ORCHESTRATOR = "{workflow_name: Sales, initial_agent: Clerk, orchestration_pattern: DefaultPattern}"
AGENTS = "{agents: [{name: Clerk, prompt_sections: [{id: role, heading: ROLE, content: You are a clerk.}]}]}"
TRIGGERS = """
triggers:
  - name: paid
    type: webhook
    apps: [acme, globex]
    verify: {scheme: standard, secret: env:STANDARD_SECRET}
    input: {order: =order.id, agent: '=_request.headers."user-agent"', signed: '=_request.headers."webhook-signature"'}
  - name: opened
    type: webhook
    app_id: acme
    verify: {scheme: github, secret: env:GITHUB_SECRET}
    when: "action == 'opened'"
    dedupe: =number
    input: {number: =number}
    message: =join('', ['Look at ', title])
  - name: routed
    type: webhook
    app_id: =tenant
    verify: {scheme: github, secret: env:GITHUB_SECRET}
    input: {sum: "=sum(numbers)"}
  - {name: locked, type: webhook, apps: [acme], verify: {scheme: github, secret: env:NOT_SET}}
  - {name: nobody, type: webhook, verify: {scheme: github, secret: env:GITHUB_SECRET}}
  - name: lead
    type: form_submit
    apps: [acme]
    inputs:
      email: {type: string, format: email, required: true}
      seats: {type: integer, default: 1}
      newsletter: {type: boolean}
"""


@dataclass(frozen=True, slots=True)
class Gateway:
    ground: RoleContext
    client: httpx.AsyncClient
    address: tuple[str, int]

    async def runs(self) -> list[dict[str, Any]]:
        return list(await self.ground.store.list())


def settings_with_package(settings: Settings, folder: Path) -> Settings:
    package = folder / "packages" / "Sales"
    package.mkdir(parents=True)
    (package / "orchestrator.yaml").write_text(ORCHESTRATOR)
    (package / "agents.yaml").write_text(AGENTS)
    (package / "triggers.yaml").write_text(TRIGGERS)
    return replace(
        settings,
        packages=(folder / "packages",),
        body_limit_bytes=BODY_LIMIT,
        environ={"STANDARD_SECRET": STANDARD_SECRET, "GITHUB_SECRET": GITHUB_SECRET},
    )


def settings_with_senders(settings: Settings, folder: Path, **changes: Any) -> Settings:
    """A package with a trigger for each sender of webhooks."""
    package = folder / "packages" / webhook_senders.WORKFLOW
    package.mkdir(parents=True)
    (package / "orchestrator.yaml").write_text(ORCHESTRATOR.replace("Sales", webhook_senders.WORKFLOW))
    (package / "agents.yaml").write_text(AGENTS)
    (package / "triggers.yaml").write_text(yaml.safe_dump(webhook_senders.TRIGGERS))
    return replace(settings, packages=(folder / "packages",), environ=webhook_senders.ENVIRON, **changes)


@asynccontextmanager
async def running_gateway(settings: Settings, folder: Path) -> AsyncIterator[Gateway]:
    async with open_role_context(settings_with_package(settings, folder)) as ground, serving(ground) as gateway:
        yield gateway


@asynccontextmanager
async def serving(
    ground: RoleContext,
    *,
    places: Mapping[RouteGroup, int] = SLOTS,
    more_routes: Sequence[BaseRoute] = (),
    options: GatewayOptions | None = None,
) -> AsyncIterator[Gateway]:
    with bind_socket(Address("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        metrics = GatewayMetrics()
        app = create_app(ground, more_routes, metrics=metrics, options=options)
        limit = ground.settings.body_limit_bytes
        server = GatewayServer(app, ConnectionAdmission(metrics, slots=places), body_limit_bytes=limit)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        limits = httpx.Limits(max_connections=60)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{address[1]}", limits=limits, timeout=20) as client:
            try:
                yield Gateway(ground, client, address)
            finally:
                server.should_exit = True
        await task


def sign_as_github(body: Any, *, delivery: str | None = None) -> dict[str, Any]:
    """Keyword arguments for a POST of exactly the signed bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    signature = hmac.digest(GITHUB_SECRET.encode(), content, hashlib.sha256).hex()
    headers = {"content-type": "application/json", "x-hub-signature-256": f"sha256={signature}"}
    return {"content": content, "headers": headers | ({"x-github-delivery": delivery} if delivery else {})}


def sign_as_standard(body: str, *, delivery: str | None = None, age_s: int = 0) -> dict[str, Any]:
    delivery = delivery or f"msg_{ULID()}"
    at = int(time.time()) - age_s
    signature = Webhook(STANDARD_SECRET).sign(msg_id=delivery, timestamp=datetime.fromtimestamp(at, UTC), data=body)
    headers = {
        "content-type": "application/json",
        "webhook-id": delivery,
        "webhook-timestamp": str(at),
        "webhook-signature": signature,
    }
    return {"content": body.encode(), "headers": headers}
