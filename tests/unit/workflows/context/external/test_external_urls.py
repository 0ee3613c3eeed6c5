"""URLs of external values: allowed hosts, and payloads that cannot change them."""

import re
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.context.external.external_urls import fill_url
from workflows.context.reads.missing_values import NoValueError

HOSTS = frozenset({"api.example.com", "127.0.0.1:8080", "[::1]:8080", "alt.example.com:443"})
FACTS = {"app_id": "acme", "id": "A 1/2", "n": 7, "flag": True, "empty": "", "none": None, "list": ["a"]}


def url(template: str, **facts: Any) -> str:
    return fill_url(template, {**FACTS, **facts}, allowed_hosts=HOSTS)


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("https://api.example.com", "https://api.example.com/"),
        ("https://api.example.com/a/{{runtime.app_id}}/${n}", "https://api.example.com/a/acme/7"),
        ("https://api.example.com/a?q={{ id }}&f=${flag}", "https://api.example.com/a?q=A%201%2F2&f=true"),
        ("https://api.example.com/a?q=${empty}", "https://api.example.com/a?q="),
        ("https://api.example.com/${id}#part", "https://api.example.com/A%201%2F2"),
        ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080/x"),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
        ("http://api.example.com:80/x", "http://api.example.com:80/x"),
        ("https://alt.example.com/x", "https://alt.example.com/x"),
        ("HTTPS://API.example.com/x", "https://API.example.com/x"),
    ],
)
def test_facts_go_into_path_and_query(template: str, filled: str) -> None:
    assert url(template) == filled


@pytest.mark.parametrize(
    "template",
    [
        "https://evil.com/x",
        "https://sub.api.example.com/x",
        "https://api.example.com.evil.com/x",
        "https://api.example.com:8443/x",
        "https://api.example.com:80/x",
        "https://127.0.0.1/x",
        "http://127.0.0.1:80/x",
        "http://[::1]/x",
        "https://api.example.com./x",
        "http://alt.example.com/x",
    ],
)
def test_a_host_that_is_not_listed_is_refused_and_the_setting_named(template: str) -> None:
    with pytest.raises(NoValueError, match=r"is not an allowed host; .* UNATTENDED_EXTERNAL_HOSTS"):
        url(template)


@pytest.mark.parametrize(
    "template",
    [
        "ftp://api.example.com/x",
        "file:///etc/passwd",
        "//api.example.com/x",
        "api.example.com/x",
        "https:///x",
        "https://user:canary@api.example.com/x",
        "https://api.example.com@evil.com/x",
        "https://evil.com\\@api.example.com/x",
        "https://{{app_id}}.example.com/x",
        "https://api.example.com:${n}/x",
        "https://[::1/x",
        "https://api.example.com:99999/x",
        "https://api.exämple.com/x",
        "https://api.example.com/x\r\nHost: evil",
        "",
    ],
)
def test_what_is_no_plain_web_address_is_refused(template: str) -> None:
    with pytest.raises(NoValueError) as caught:
        url(template)

    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    ["..", ".", "../admin", "a/../../admin", "..\\admin", "/admin", "a//b", "", "a\r\nX: y", "a\x00", "\ud800"],
)
def test_a_value_cannot_leave_its_place_in_the_path(value: str) -> None:
    with pytest.raises(NoValueError, match="x "):
        url("https://api.example.com/users/${x}/orders", x=value)


@pytest.mark.parametrize("value", [None, ["a"], {"$ne": None}])
def test_only_scalars_enter_an_address(value: Any) -> None:
    with pytest.raises(NoValueError, match=r"x (has no value|is not a scalar)"):
        url("https://api.example.com/a?x=${x}", x=value)


def test_an_address_is_bounded() -> None:
    with pytest.raises(NoValueError, match="longer than 8000"):
        url("https://api.example.com/a?x=${x}", x="x" * 8000)


@pytest.mark.parametrize(
    "value",
    ["@evil.com", "?x=1", "#x", "&admin=1", "{x.__class__}", "{{app_id}}", "${app_id}", "%2e%2e", "a b", "ü", "a;b=c"],
)
def test_a_value_is_data_wherever_it_stands(value: str) -> None:
    filled = urlsplit(url("https://api.example.com/u/${x}?q=${x}", x=value))

    assert filled.netloc == "api.example.com"
    assert unquote(filled.path.removeprefix("/u/")) == value
    assert parse_qs(filled.query) == {"q": [value]}


@given(st.text(max_size=40))
def test_no_text_changes_where_an_address_leads(value: str) -> None:
    try:
        filled = url("https://api.example.com/u/${x}/z?q=${x}", x=value)
    except NoValueError:
        return
    parts = urlsplit(filled)

    assert re.fullmatch(r"https://api\.example\.com/u/[^/?#&]+/z\?q=[^/?#&]+", filled)
    assert (unquote(parts.path[3:-2]), unquote(parts.query[2:])) == (value, value)
