"""The gateway app: every address that the gateway serves."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from triggers.api.api_app import api_routes, create_api
from triggers.api.keyring import UNKNOWN_KEYS_RATE
from triggers.form.form_endpoint import form_routes
from triggers.gateway.endpoint_response import count_requests
from triggers.gateway.gateway_metrics import GatewayMetrics
from triggers.gateway.http_problems import EXCEPTION_HANDLERS, unavailable_problem
from triggers.gateway.middleware import CallerTraceMiddleware, DrainMiddleware
from triggers.gateway.trigger_intake import TriggerIntake
from triggers.gateway.trigger_lookup import STORE_TIMEOUT_S, TriggerLookup
from triggers.role_context import RoleContext
from triggers.token_bucket import TokenRate
from triggers.webhook.webhook_endpoint import webhook_endpoint

READY_TIMEOUT_S = 2


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """How long the gateway waits for the store, and how many unknown API keys it looks up."""

    store_timeout_s: float = STORE_TIMEOUT_S
    clock: Callable[[], float] = time.monotonic  # of the trigger cache
    unknown_keys: TokenRate = UNKNOWN_KEYS_RATE


def create_app(
    context: RoleContext,
    extra_routes: Sequence[BaseRoute] = (),
    *,
    metrics: GatewayMetrics | None = None,
    options: GatewayOptions | None = None,
) -> Starlette:
    """Builds the app. `extra_routes` are those of other rooms, such as the console."""
    metrics, options = metrics or GatewayMetrics(), options or GatewayOptions()
    timeout_s = options.store_timeout_s
    # The catalog checks its files at most once a second, in a few milliseconds: not worth a thread.
    lookup = TriggerLookup(context.catalog.packages, context.triggers, clock=options.clock, store_timeout_s=timeout_s)
    intake = TriggerIntake(context.settings, lookup, context.acceptance, metrics, context.stats, timeout_s)
    webhook = count_requests("webhook", metrics, webhook_endpoint(intake))
    app = Starlette(
        routes=[
            Route("/hooks/{app}/{workflow}/{trigger}", webhook, methods=["POST"]),
            *form_routes(intake, metrics),
            *api_routes(create_api(context, metrics=metrics, unknown_keys=options.unknown_keys)),
            Route("/healthz", liveness_endpoint),
            Route("/readyz", readiness_endpoint(context.database)),
            Route("/metrics", metrics_endpoint(metrics.registry)),
            *extra_routes,
        ],
        exception_handlers=EXCEPTION_HANDLERS,
    )
    app.add_middleware(DrainMiddleware)
    if context.tracing.is_on:
        app.add_middleware(CallerTraceMiddleware)
    app.router.redirect_slashes = False  # half of the clients drop the body of a redirected POST
    return app


async def liveness_endpoint(_request: Request) -> Response:
    return JSONResponse({"status": "alive"})


def readiness_endpoint(database: AsyncDatabase[dict[str, Any]]) -> Callable[[Request], Awaitable[Response]]:
    async def show(_request: Request) -> Response:
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                await database.client.admin.command("ping")
        except (PyMongoError, TimeoutError):
            raise unavailable_problem("MongoDB does not answer") from None
        return JSONResponse({"status": "ready"})

    return show


def metrics_endpoint(registry: CollectorRegistry) -> Callable[[Request], Awaitable[Response]]:
    async def show(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return show
