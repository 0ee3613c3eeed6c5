"""External URLs: run facts enter path and query as encoded scalars, not the host."""

import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from workflows.context.documents.query_templates import PLACEHOLDER, find_placeholders, look_up_fact
from workflows.context.reads.missing_values import NoValueError

HOSTS_SETTING = "UNATTENDED_EXTERNAL_HOSTS"
MAX_URL = 8_000
_DEFAULT_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def fill_url(template: str, facts: Mapping[str, Any], *, allowed_hosts: Collection[str]) -> str:
    """Returns the URL to call. Raises NoValueError.

    The host is the template's own, and one that the operator allowed."""
    parts = _split_url(template)
    _check_host(parts, allowed_hosts)
    path, query = _fill_path(parts.path, facts), _fill(parts.query, facts)
    url = parts._replace(path=path or "/", query=query, fragment="").geturl()
    if len(url) > MAX_URL:
        raise NoValueError(f"its address is longer than {MAX_URL} characters")
    if urlsplit(url).netloc != parts.netloc:
        raise NoValueError("the filled address leads to another host")
    return url


def displayed_host(template: str) -> str:
    """Returns the host for messages.

    The rest of a URL may be confidential."""
    try:
        return urlsplit(template).netloc.rpartition("@")[2] or "an address without a host"
    except ValueError:
        return "an address that cannot be read"


def _split_url(template: str) -> SplitResult:
    try:
        parts = urlsplit(template)
        parts.port  # noqa: B018 -- raises for a port that is none
    except ValueError:
        raise NoValueError("its url is not a web address") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or _CONTROL.search(template):
        raise NoValueError("its url is not a web address; write https://host/path")
    if "@" in parts.netloc:
        raise NoValueError("its url holds a user or a password; name a secret under auth instead")
    if find_placeholders(parts.netloc) or not parts.netloc.isascii():
        raise NoValueError("the host of its url must be written out in ASCII; placeholders stand in path and query")
    return parts


def _check_host(parts: SplitResult, allowed_hosts: Collection[str]) -> None:
    """Checks the host. Without a port it is allowed on the default port only."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    default_port = _DEFAULT_PORTS[parts.scheme]
    port = default_port if parts.port is None else parts.port
    if f"{host}:{port}" not in allowed_hosts and not (port == default_port and host in allowed_hosts):
        shown = host if port == default_port else f"{host}:{port}"
        raise NoValueError(f"{shown} is not an allowed host; the operator lists it in {HOSTS_SETTING}")


def _fill_path(path: str, facts: Mapping[str, Any]) -> str:
    for name in (match[1] or match[2] for match in PLACEHOLDER.finditer(path)):
        # Servers and libraries resolve such parts, some of them after decoding: /users/${id}/x would lead elsewhere.
        if {".", "..", ""} & set(re.split(r"[/\\]", _fact_text(name, facts))):
            raise NoValueError(f"{name} is empty or holds a path of its own")
    return _fill(path, facts)


def _fill(part: str, facts: Mapping[str, Any]) -> str:
    return PLACEHOLDER.sub(lambda match: quote(_fact_text(match[1] or match[2], facts), safe=""), part)


def _fact_text(name: str, facts: Mapping[str, Any]) -> str:
    value = look_up_fact(name, facts)
    if value is None:
        raise NoValueError(f"{name} has no value in this run")
    if not isinstance(value, str | int | float | bool):
        raise NoValueError(f"{name} is not a scalar, and only scalars may enter an address")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if _CONTROL.search(text) or any("\ud800" <= character <= "\udfff" for character in text):
        raise NoValueError(f"{name} holds characters that have no place in an address")
    return text
