"""External values: HTTP GETs to allowed hosts, by one pooled client per worker.

A package cannot send a secret elsewhere: redirects are not followed, cookies are not stored, and no proxy or password
comes from the process environment.
"""

import asyncio
import base64
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, cast
from urllib.parse import quote, urlsplit

import httpx
import jmespath
from jmespath.exceptions import JMESPathError

from workflows.context.external.external_urls import HOSTS_SETTING, fill_url
from workflows.context.external.response_body import decode_body, read_body, refuse_echo
from workflows.context.external.value_cache import ValueCache
from workflows.context.reads.missing_values import NoValueError
from workflows.context.values.size_limits import TooLargeError, to_json_text
from workflows.package.normal_form.variable_sources import Authorization, ExternalSource

MAX_CALL_S = 15.0
INITIAL_BACKOFF_S = 0.1
MAX_ATTEMPTS = 5
# These headers set a request's end, its encoding or its host.
_RESERVED_HEADERS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "expect", "te", "upgrade"}
)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")

ResolveSecret = Callable[[str], str]


class ExternalReader:
    """Reads external values.

    `resolve_secret` raises ValueError with a text that names the reference and never the secret."""

    def __init__(
        self,
        *,
        allowed_hosts: frozenset[str],
        resolve_secret: ResolveSecret,
        clock: Callable[[], float] = time.monotonic,
        initial_backoff_s: float = INITIAL_BACKOFF_S,
    ) -> None:
        self._allowed_hosts = allowed_hosts
        self._resolve_secret = resolve_secret
        self._initial_backoff_s = initial_backoff_s
        self._cache = ValueCache(clock)
        self._client: httpx.AsyncClient | None = None

    async def read(self, source: ExternalSource, *, app_id: str, facts: Mapping[str, Any]) -> Any:
        """Returns the value as plain JSON, a copy for every run. Raises NoValueError."""
        url = fill_url(source.url, facts, allowed_hosts=self._allowed_hosts)
        if source.cache_ttl_s <= 0:
            return json.loads(await self._call_with_retries(source, url))
        key = (app_id, url, source.authorization, source.select, tuple(sorted(source.headers.items())))
        return json.loads(
            await self._cache.get(key, lambda: self._call_with_retries(source, url), ttl_s=source.cache_ttl_s)
        )

    async def close(self) -> None:
        await self._cache.close()
        if self._client is not None:
            await self._client.aclose()

    async def _call_with_retries(self, source: ExternalSource, url: str) -> str:
        """Makes all attempts within one deadline."""
        headers, secrets = self._build_headers(source)
        deadline_s = min(source.timeout_s, MAX_CALL_S)
        earlier_error = ""
        try:
            async with asyncio.timeout(deadline_s):
                for attempt in range(attempts := min(max(source.attempts, 1), MAX_ATTEMPTS)):
                    try:
                        return await self._call_once(source, url, headers, secrets)
                    except NoValueError as error:
                        if not error.is_transient or attempt + 1 == attempts:
                            raise
                        earlier_error = f"; before that {error}"
                    await asyncio.sleep(self._initial_backoff_s * 2**attempt)
        except TimeoutError:
            raise NoValueError(f"no answer within {deadline_s:g} s{earlier_error}", is_transient=True) from None
        raise AssertionError("the last attempt returns or raises")

    async def _call_once(
        self, source: ExternalSource, url: str, headers: Mapping[str, str], secrets: tuple[str, ...]
    ) -> str:
        try:
            request = self._http_client().build_request("GET", url, headers=headers)
            if request.url.host != urlsplit(url).hostname:  # in case the two URL parsers disagree
                raise NoValueError("the filled address leads to another host")
            response = await self._http_client().send(request, stream=True)
            try:
                _check_status(response.status_code)
                encoding = response.headers.get("content-encoding", "").strip().lower()
                # Closed explicitly: the garbage collector may run while the response is being closed.
                async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as chunks:
                    body = await read_body(chunks, encoding=encoding)
            finally:
                await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            # Only the type: the text of such errors may quote headers, and with them a secret.
            is_transient = isinstance(error, httpx.TransportError) and not isinstance(error, _PERMANENT_ERRORS)
            raise NoValueError(f"the call failed ({type(error).__name__})", is_transient=is_transient) from None
        # In a thread: a large answer would block every other run.
        return await asyncio.to_thread(_select_value, body, response.headers, source.select, secrets)

    def _http_client(self) -> httpx.AsyncClient:
        if self._client is None:  # on demand, on the loop that uses it
            self._client = httpx.AsyncClient(
                follow_redirects=False,
                trust_env=False,
                timeout=None,  # noqa: S113 -- one deadline bounds all attempts
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                headers={"user-agent": "unattended", "accept-encoding": "gzip"},
            )
        return self._client

    def _build_headers(self, source: ExternalSource) -> tuple[dict[str, str], tuple[str, ...]]:
        headers = dict(source.headers)
        secrets: tuple[str, ...] = ()
        if source.authorization is not None:
            name, value, secrets = _authorization_header(source.authorization, self._read_secret(source.authorization))
            headers = {key: text for key, text in headers.items() if key.lower() != name.lower()} | {name: value}
        for name, value in headers.items():
            if name.lower() in _RESERVED_HEADERS or not _HEADER.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise NoValueError(f"the header {name[:40]!r} cannot be sent")
        return headers, secrets

    def _read_secret(self, authorization: Authorization) -> str:
        try:
            secret = self._resolve_secret(authorization.secret).strip()
            secret.encode()
        except UnicodeEncodeError:
            raise NoValueError(f"the secret {authorization.secret} holds characters that cannot be sent") from None
        except ValueError as error:
            raise NoValueError(str(error)) from None
        if not secret:
            raise NoValueError(f"the secret {authorization.secret} is empty")
        return secret


_PERMANENT_ERRORS = (httpx.LocalProtocolError, httpx.UnsupportedProtocol)


def _authorization_header(authorization: Authorization, secret: str) -> tuple[str, str, tuple[str, ...]]:
    """Returns the header, and all forms in which an answer could reveal the secret."""
    if authorization.scheme == "basic":
        user, _, password = secret.partition(":")
        credentials = base64.b64encode(secret.encode()).decode()
        hidden = [secret, password or user, credentials]
    else:
        credentials, hidden = secret, [secret]
    prefix = {"bearer": "Bearer ", "basic": "Basic ", "header": ""}[authorization.scheme]
    return (
        authorization.header,
        prefix + credentials,
        tuple({form for text in hidden for form in (text, quote(text, safe=""))}),
    )


def _check_status(status: int) -> None:
    if status == 200:
        return
    if 300 <= status < 400:
        raise NoValueError(f"it answered {status}; redirects are not followed, name the final address")
    raise NoValueError(f"it answered {status}", is_transient=status == 429 or status >= 500)


def _select_value(body: bytes, headers: httpx.Headers, select: str | None, secrets: tuple[str, ...]) -> str:
    value = decode_body(body, headers)
    refuse_echo(body, value, secrets)
    if select is not None:
        try:
            value = _compile_selection(select).search(value)
        except (JMESPathError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError):
            raise NoValueError("`select` cannot be applied to its answer") from None
    if value is None:
        raise NoValueError("its answer is empty" if select is None else "`select` finds nothing in its answer")
    try:
        json.dumps(value, ensure_ascii=False).encode()
        return to_json_text(value)
    except UnicodeEncodeError:
        raise NoValueError("its answer holds half of a character (a lone surrogate)") from None
    except TooLargeError as error:
        raise NoValueError(str(error).replace("name narrower fields", "select a part of it")) from None


@lru_cache(maxsize=512)
def _compile_selection(expression: str) -> Any:
    return jmespath.compile(expression)


async def refuse_external_read(source: ExternalSource, *, app_id: str, facts: Mapping[str, Any]) -> Any:  # noqa: ARG001 -- has the signature of ExternalReader.read
    raise NoValueError(f"no host is allowed here; the operator lists them in {HOSTS_SETTING}")
