"""External variables: one HTTP GET.

The package names the host, and refers to the secret.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from workflows.package.normal_form.variable_sources import Authorization, ExternalSource
from workflows.package.readers.durations import read_duration_s
from workflows.package.readers.jmespath_fields import read_expression
from workflows.package.readers.section import Section
from workflows.package.readers.variables.query_placeholders import check_placeholders

MAX_TIMEOUT_S = 60.0
MAX_WAIT_S = 15.0  # an upper limit for every package: runs must not wait longer for their context
MAX_ATTEMPTS = 5
_ADDRESS = re.compile(r"(https?)://([^/?#]*)", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\$\{")
_PLACEHOLDER_EXPRESSION = re.compile(r"\{\{[^{}]*\}\}|\$\{[^{}]*\}")
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:[^\0]+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET_NAME = re.compile(r"authorization|cookie|api[-_]?key|token|secret|password|signature", re.IGNORECASE)
_SCHEMES = {"bearer": "bearer", "basic": "basic", "header": "header", "api_key": "header", "apikey": "header"}
_REFERENCE_HINT = "write env:NAME or file:PATH, never the secret itself"


def read_external_source(source: Section) -> ExternalSource:
    source.get("service", "operation", "response_schema")  # for readers only
    method = source.text("method")
    if method is not None and method.strip().upper() != "GET":
        source.error("unsupported", "method", "must be GET; make calls with effects in a tool")
    return ExternalSource(
        url=_read_url(source),
        headers=_read_headers(source),
        authorization=_read_authorization(source),
        timeout_s=_read_timeout_s(source),
        attempts=_read_attempts(source),
        cache_ttl_s=_read_cache_ttl_s(source),
        select=read_expression(source, "select"),
    )


def _read_timeout_s(source: Section) -> float:
    timeout_s = read_duration_s(source, "timeout", "timeout_s", default=5.0, max_s=MAX_TIMEOUT_S)
    if timeout_s > MAX_WAIT_S:
        source.report_ignored("timeout", f"is cut: a run waits at most {MAX_WAIT_S:.0f}s; write no more than that")
    return timeout_s


def _read_url(source: Section) -> str:
    url = source.required_text("url")
    problem = _find_url_problem(url) if url else None
    if problem is not None:
        source.error("wrong_value", "url", problem)
    elif any(_SECRET_NAME.search(name) and not _PLACEHOLDER.search(value) for name, value in _query_parameters(url)):
        source.error("secret_in_clear", "url", f"has a secret in its query; use auth, and {_REFERENCE_HINT}")
    check_placeholders(source, "url", url)
    return url


def _query_parameters(url: str) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(url).query, max_num_fields=None) if url else []


def _find_url_problem(url: str) -> str | None:
    address = _ADDRESS.match(url)
    if address is None:
        return "must begin with https:// or http:// and a host"
    host = address[2]
    if _PLACEHOLDER.search(host):
        return "has a placeholder in its host; placeholders are allowed only in path and query"
    if "@" in host:
        return "has a user or a password; use auth"
    plain = _PLACEHOLDER_EXPRESSION.sub("", url)  # placeholders may contain spaces
    if any(character.isspace() or not character.isprintable() or character == "\\" for character in plain):
        return "has spaces or control characters"
    try:
        parts = urlsplit(plain)
        is_valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_valid = False
    return None if is_valid else "does not name a valid host"


def _read_headers(source: Section) -> Mapping[str, str]:
    headers: Mapping[Any, Any] = source.mapping("headers")
    section = source.child(headers, "headers")
    valid_headers: dict[str, str] = {}
    for name, value in headers.items():
        text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        if not isinstance(name, str) or not isinstance(text, str) or not _is_header(name, text):
            section.error(
                "wrong_value", str(name), "is not a valid HTTP header; write its name and one line of plain text"
            )
        elif _SECRET_NAME.search(name):
            section.error("secret_in_clear", name, f"is a secret; use auth, and {_REFERENCE_HINT}")
        elif _PLACEHOLDER.search(text):
            section.error(
                "wrong_value", name, "has a placeholder; placeholders are allowed only in path and query of the url"
            )
        else:
            valid_headers[name] = text
    return valid_headers


def _is_header(name: str, value: str) -> bool:
    return _HEADER_NAME.fullmatch(name) is not None and value.isascii() and value.isprintable()


def _read_authorization(source: Section) -> Authorization | None:
    raw = source.get("auth", "authorization")
    if raw is None:
        return None
    if isinstance(raw, str):
        return Authorization("bearer", raw) if _is_reference(source, "auth", raw) else None
    section = source.child(raw, "auth")
    word = (section.text("type", "scheme") or "bearer").lower()
    secret = section.text("secret", "secret_ref", "token", "key")
    name = section.text("header", "header_name")
    section.report_unread()
    if word == "none" or not section.body:
        return None
    if word not in _SCHEMES:
        section.error("wrong_value", "type", f"must be one of {', '.join(_SCHEMES)}, none")
    elif secret is None:
        section.error("missing_field", "secret", f"is required; {_REFERENCE_HINT}")
    elif _is_reference(section, "secret", secret):
        return _make_authorization(section, word, secret, name)
    return None


def _make_authorization(section: Section, word: str, secret: str, name: str | None) -> Authorization | None:
    default = "X-API-Key" if word in ("api_key", "apikey") else "Authorization"
    if name is not None and not _HEADER_NAME.fullmatch(name):
        section.error("wrong_value", "header", "is not the name of an HTTP header")
        return None
    match _SCHEMES[word]:
        case "bearer":
            return Authorization("bearer", secret, name or default)
        case "basic":
            return Authorization("basic", secret, name or default)
        case _:
            return Authorization("header", secret, name or default)


def _is_reference(section: Section, field: str, text: str) -> bool:
    """Returns whether a text refers to a secret.

    The finding does not quote it: it may be the secret itself.
    """
    if _REFERENCE.fullmatch(text):
        return True
    section.error("secret_in_clear", field, f"is not a reference to a secret; {_REFERENCE_HINT}")
    return False


def _read_attempts(source: Section) -> int:
    raw = source.get("retry", "attempts")
    if raw is None:
        return 2
    section = source.child(raw if isinstance(raw, Mapping) else {"attempts": raw}, "retry")
    attempts = section.integer("attempts", "max_attempts", default=2)
    section.report_unread("is not executed: the worker decides the wait between attempts")
    if attempts > MAX_ATTEMPTS:
        section.error("wrong_value", "attempts", f"must be at most {MAX_ATTEMPTS}")
        return MAX_ATTEMPTS
    return attempts


def _read_cache_ttl_s(source: Section) -> float:
    raw = source.get("cache")
    if raw is None or raw is False or raw == 0:
        return 0.0
    section = source.child(raw if isinstance(raw, Mapping) else {"ttl": raw}, "cache")
    if section.body.get("enabled") is False:
        return 0.0
    section.get("enabled")
    ttl_s = read_duration_s(section, "ttl", "ttl_s", "ttl_seconds", default=0.0)
    section.report_unread()
    return ttl_s
