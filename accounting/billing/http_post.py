"""The HTTP post of a batch. Its result never shows the secrets of the URL."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import cast
from urllib.parse import unquote, unquote_plus, urlsplit

import httpx

from accounting.infra.retry_after import parse_retry_after

GONE = 410
# Overloaded servers: their Retry-After applies to all deliveries, not to one batch.
THROTTLING = frozenset({429, 502, 503, 504})

CONNECT_TIMEOUT_S = 10.0
MAX_READ_BYTES = 16_384
MAX_SHOWN_CHARACTERS = 200
MIN_HIDDEN_CHARACTERS, MIN_HIDDEN_PATH_CHARACTERS = 4, 8  # a shorter piece of a path is a word


@dataclass(frozen=True, slots=True)
class PostResult:
    """`status` is None without an answer. `description` is for people."""

    status: int | None
    description: str
    retry_after_s: float | None = None

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def create_ssl_context() -> ssl.SSLContext:
    """Trusts the public authorities and those of this system, such as a company's own."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def create_http_client() -> httpx.AsyncClient:
    """Creates the HTTP client of the sender.

    It has no redirects, no cookies, and no proxy or password from the environment.
    """
    return httpx.AsyncClient(
        verify=create_ssl_context(),
        follow_redirects=False,
        trust_env=False,
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        headers={"user-agent": "unattended", "content-type": "application/json", "accept-encoding": "identity"},
    )


async def post_batch(
    http: httpx.AsyncClient,
    url: str,
    body: bytes,
    *,
    headers: Mapping[str, str],
    timeout_s: float,
    body_timeout_s: float,
) -> PostResult:
    try:
        request = http.build_request("POST", url, content=body, headers=headers)
        async with asyncio.timeout(timeout_s):
            response = await http.send(request, stream=True)
        try:
            text = _printable_text(await _read_beginning(response, body_timeout_s), url)
        finally:
            await response.aclose()
    except TimeoutError:
        return PostResult(None, f"no answer within {timeout_s:g} s")
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        # Only the type: the text of such errors may quote the URL, and with it a secret.
        return PostResult(None, f"the call failed ({type(error).__name__})")
    description = f"it answered {response.status_code}"
    retry_after_s = parse_retry_after(response.headers.get("retry-after", ""), now=datetime.now(UTC))
    return PostResult(response.status_code, f"{description}: {text}" if text else description, retry_after_s)


async def _read_beginning(response: httpx.Response, timeout_s: float) -> bytes:
    """Reads the beginning of the answer, for people and to reuse the connection."""
    read = b""
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(timeout_s):
            # Closed explicitly: the garbage collector may run while the response is being closed.
            async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as parts:
                async for part in parts:
                    read += part[: MAX_READ_BYTES - len(read)]
                    if len(read) == MAX_READ_BYTES:
                        break
    return read


def _printable_text(body: bytes, url: str) -> str:
    text = body.decode("utf-8", "replace")
    for part in _hidden_parts(url):  # hidden before the text is cut
        text = text.replace(part, "(hidden)")
    return "".join(character for character in " ".join(text.split()) if character.isprintable())[:MAX_SHOWN_CHARACTERS]


def _hidden_parts(url: str) -> Sequence[str]:
    """Lists parts of the URL that may be tokens, longest first.

    Many servers repeat the URL in their answer.
    """
    address = urlsplit(url)
    values = [pair.partition("=")[2] or pair for pair in address.query.split("&")]
    names = [name for name in address.path.split("/") if len(name) >= MIN_HIDDEN_PATH_CHARACTERS]
    written = [f"{address.path}?{address.query}".rstrip("?"), *values, *names]
    candidates = {*written, *map(unquote, written), *map(unquote_plus, values)}
    return sorted((part for part in candidates if len(part) >= MIN_HIDDEN_CHARACTERS), key=len, reverse=True)
