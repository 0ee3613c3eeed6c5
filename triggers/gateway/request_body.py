"""Request bodies: read within limits, and parsed as JSON or form fields."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from accounting.infra.strict_json import parse_strict_json
from triggers.gateway.http_problems import ProblemError

READ_TIMEOUT_S = 30  # a client that trickles its body would hold a connection for ever
URLENCODED = "application/x-www-form-urlencoded"
MAX_FIELDS = 1_000


def body_too_large(limit_bytes: int) -> ProblemError:
    return ProblemError(413, f"the body is larger than {limit_bytes} bytes", headers={"connection": "close"})


def is_declared_too_large(content_length: str, limit_bytes: int) -> bool:
    if not (content_length.isascii() and content_length.isdigit()):
        return False
    return len(content_length) >= 19 or int(content_length) > limit_bytes


def check_declared_size(request: Request, limit_bytes: int) -> None:
    """Refuses before any of the body is read."""
    if is_declared_too_large(request.headers.get("content-length", ""), limit_bytes):
        raise body_too_large(limit_bytes)


async def read_body(request: Request, limit_bytes: int, *, timeout_s: float = READ_TIMEOUT_S) -> bytes:
    """Reads up to the limit, since a chunked body declares no length."""
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit_bytes:
                    raise body_too_large(limit_bytes)
    except TimeoutError:
        raise ProblemError(408, "the body did not arrive in time", headers={"connection": "close"}) from None
    except ClientDisconnect:
        raise ProblemError(400, "the body ended early") from None
    return bytes(body)


def media_type(request: Request) -> str:
    return media_type_of(request.headers)


def media_type_of(headers: Mapping[str, str]) -> str:
    """Returns the content type without parameters; empty for a compressed body."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        return ""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json_type(media: str) -> bool:
    return media == "application/json" or (media.startswith("application/") and media.endswith("+json"))


def parse_urlencoded(raw_body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(raw_body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise ProblemError(400, f"the body is not form fields in UTF-8, or has more than {MAX_FIELDS}") from None


def parse_json(raw_body: bytes) -> Any:
    """Parses strict JSON in UTF-8.

    NaN, Infinity and numbers beyond a double are refused: JSON cannot carry them.
    """
    try:
        return parse_strict_json(raw_body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ProblemError(400, "the body is not JSON") from None
