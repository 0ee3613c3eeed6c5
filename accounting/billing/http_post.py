"""What became of a post."""

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
# Servers that ask for less: their wish is about all that is sent to them, not about one batch.
THROTTLING = frozenset({429, 502, 503, 504})

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 2.0
MAX_READ_BYTES = 16_384
MAX_SHOWN_CHARACTERS = 200
MIN_HIDDEN_CHARACTERS, MIN_HIDDEN_PATH_CHARACTERS = 4, 8  # characters; a shorter piece of a path is a word


@dataclass(frozen=True, slots=True)
class PostResult:
    """`status` is None where no answer came. `what` is for people."""

    status: int | None
    description: str
    retry_after_s: float | None = None

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def create_ssl_context() -> ssl.SSLContext:
    """The public authorities and those of this system, such as a company's own."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def create_http_client() -> httpx.AsyncClient:
    """No redirects, no cookies, and no proxy or password from the process environment."""
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
) -> PostResult:
    try:
        request = http.build_request("POST", url, content=body, headers=headers)
        async with asyncio.timeout(timeout_s):
            response = await http.send(request, stream=True)
        try:
            said = _printable_text(await _read_beginning(response), url)
        finally:
            await response.aclose()
    except TimeoutError:
        return PostResult(None, f"no answer within {timeout_s:g} s")
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        # By its type only: the text of such errors may quote the URL, and with it a secret.
        return PostResult(None, f"the call failed ({type(error).__name__})")
    what = f"it answered {response.status_code}"
    asked_s = parse_retry_after(response.headers.get("retry-after", ""), now=datetime.now(UTC))
    return PostResult(response.status_code, f"{what}: {said}" if said else what, asked_s)


async def _read_beginning(response: httpx.Response) -> bytes:
    """The status has said it all; the rest is read for people, and to use the connection again."""
    read = b""
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(READ_TIMEOUT_S):
            # Closed when it is left early: the garbage collector may come while the response is being closed.
            async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as parts:
                async for part in parts:
                    read += part[: MAX_READ_BYTES - len(read)]
                    if len(read) == MAX_READ_BYTES:
                        break
    return read


def _printable_text(body: bytes, url: str) -> str:
    text = body.decode("utf-8", "replace")
    for each in _hidden_parts(url):  # before anything is cut
        text = text.replace(each, "(hidden)")
    return "".join(each for each in " ".join(text.split()) if each.isprintable())[:MAX_SHOWN_CHARACTERS]


def _hidden_parts(url: str) -> Sequence[str]:
    """What may be a token in the address: many servers repeat what they were asked. The longest comes first."""
    parts = urlsplit(url)
    values = [pair.partition("=")[2] or pair for pair in parts.query.split("&")]
    names = [name for name in parts.path.split("/") if len(name) >= MIN_HIDDEN_PATH_CHARACTERS]
    written = [f"{parts.path}?{parts.query}".rstrip("?"), *values, *names]
    found = {*written, *map(unquote, written), *map(unquote_plus, values)}
    return sorted((each for each in found if len(each) >= MIN_HIDDEN_CHARACTERS), key=len, reverse=True)
