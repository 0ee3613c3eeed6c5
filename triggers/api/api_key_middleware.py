"""API key middleware: checks key, rate and body size before anything else.

FastAPI reads a body before it checks the caller. Here the body of an unknown caller is never read.
"""

import math
import time
from collections.abc import Mapping
from http import HTTPStatus

from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from triggers.api.caller_access import CALLER_SCOPE_KEY, Caller, unauthorized_problem
from triggers.api.keyring import Keyring
from triggers.api_keys import ApiKey
from triggers.gateway.gateway_metrics import RESULT_BY_STATUS, GatewayMetrics, RequestResult
from triggers.gateway.http_problems import ProblemError, on_store_error, problem_response
from triggers.gateway.request_body import check_declared_size, is_json_type, media_type, parse_json, read_body
from triggers.token_bucket import TokenBuckets

_SECURITY_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_METRIC_RESULTS: Mapping[int, RequestResult] = {202: "accepted", **RESULT_BY_STATUS}


class ApiKeyMiddleware:
    def __init__(self, app: ASGIApp, keyring: Keyring, metrics: GatewayMetrics, *, body_limit_bytes: int) -> None:
        self._app = app
        self._keyring = keyring
        self._metrics = metrics
        self._body_limit_bytes = body_limit_bytes
        self._rate_buckets = TokenBuckets()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = time.perf_counter(), HTTPStatus.INTERNAL_SERVER_ERROR.value
        headers = dict(_SECURITY_HEADERS)

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = {name.lower() for name, _ in message["headers"]}
                message["headers"] += [pair for pair in headers.items() if pair[0] not in sent]
            await send(message)

        try:
            await self._authorize_and_call(scope, receive, send_with_headers, headers)
        finally:
            result = _METRIC_RESULTS.get(status, "answered" if status < 400 else "error")
            self._metrics.observe_request("api", result, seconds=time.perf_counter() - started)

    async def _authorize_and_call(
        self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, bytes]
    ) -> None:
        request = Request(scope, receive)
        try:
            key = await self._keyring.authenticate(_bearer_token(request))
            self._check_rate(key, headers)
            body = await self._read_json_body(request)
        except ProblemError as problem:
            await problem_response(problem)(scope, receive, send)
        except PyMongoError as error:
            await (await on_store_error(request, error))(scope, receive, send)
        else:
            await self._app({**scope, CALLER_SCOPE_KEY: Caller(key)}, _replay_body(body, receive), send)

    def _check_rate(self, key: ApiKey, headers: dict[bytes, bytes]) -> None:
        per_s = key.rate.count / key.rate.seconds
        decision = self._rate_buckets.try_acquire(key.id, per_s=per_s, burst=key.burst)
        limits = {
            "ratelimit-limit": key.burst,
            "ratelimit-remaining": decision.remaining,
            "ratelimit-reset": math.ceil(decision.full_in_s),
        }
        headers |= {name.encode(): str(value).encode() for name, value in limits.items()}
        if not decision.is_allowed:
            wait = {"retry-after": str(max(math.ceil(decision.wait_s), 1))}
            raise ProblemError(429, "this key calls too often; try again later", headers=wait)

    async def _read_json_body(self, request: Request) -> bytes:
        check_declared_size(request, self._body_limit_bytes)
        body = await read_body(request, self._body_limit_bytes)
        if body:
            if not is_json_type(media_type(request)):
                raise ProblemError(415, "send JSON: content-type: application/json")
            parse_json(body)  # invalid JSON is 400, not the 422 of a field
        return body


def _bearer_token(request: Request) -> str:
    scheme, _, plaintext = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise unauthorized_problem()
    return plaintext.strip()


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Replays the body, then passes on further messages, such as the disconnect."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
