"""Health endpoints: liveness, readiness and the metrics for Prometheus."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from triggers.gateway.http_problems import unavailable_problem

READY_TIMEOUT_S = 2


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
