"""Run status: GET /v1/runs/{id}, for whoever holds an API key of the run's app."""

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from triggers.api_keys import ApiKey
from triggers.gateway.problems import ProblemError
from workers.store.run_document import as_json


class Keys(Protocol):
    async def verify(self, plaintext: str) -> ApiKey | None: ...


class Runs(Protocol):
    async def find(self, run_id: str, *, app_id: str | None = None) -> dict[str, Any] | None: ...


def run_status(keys: Keys, runs: Runs) -> Callable[[Request], Awaitable[Response]]:
    async def show(request: Request) -> Response:
        key = await _authenticated(keys, request)
        # The store is asked within the key's app: another app's run is as unknown as one that never was.
        document = await runs.find(request.path_params["id"], app_id=key.app_id)
        if document is None:
            raise ProblemError(404, "there is no such run")
        body = json.dumps(_shown(as_json(document)), ensure_ascii=False).encode()
        return Response(body, 200, {"cache-control": "no-store"}, "application/json")

    return show


async def _authenticated(keys: Keys, request: Request) -> ApiKey:
    scheme, _, plaintext = request.headers.get("authorization", "").partition(" ")
    key = await keys.verify(plaintext.strip()) if scheme.lower() == "bearer" else None
    if key is None:
        raise ProblemError(401, "send an API key: Authorization: Bearer ua_…", headers={"www-authenticate": "Bearer"})
    return key


def _shown(value: Any) -> Any:
    """As JSON can say it: dates in ISO 8601, and null for the NaN and Infinity that a tool may have left."""
    if isinstance(value, Mapping):
        return {str(key): _shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)
