"""/docs and /openapi.json: public, true to the routes, and without other hosts."""

import base64
import hashlib
import json
import re
import shlex
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from typing_extensions import override

from tests.integration.triggers.chromium import chromium, watch
from tests.integration.triggers.gateway_server import Gateway

pytestmark = pytest.mark.integration

_NEVER = {"script", "iframe", "link", "img", "object", "embed", "form", "base"}
_VOID = {"meta"}


class Tags(HTMLParser):
    """What stands in a page, with every tag closed in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


async def description(gateway: Gateway) -> dict[str, Any]:
    document: dict[str, Any] = (await gateway.client.get("/openapi.json")).json()
    return document


async def test_the_page_has_every_operation_and_nothing_that_runs_or_is_loaded(gateway: Gateway) -> None:
    answer = await gateway.client.get("/docs")
    page = Tags()
    page.feed(answer.text)

    assert (answer.status_code, page.open) == (200, [])
    assert not _NEVER & {tag for tag, _ in page.seen}
    addresses = [value for _, attributes in page.seen for name, value in attributes.items() if name in ("href", "src")]
    assert addresses
    assert all(address is not None and address.startswith(("/", "#")) for address in addresses)
    ids = {attributes["id"] for _, attributes in page.seen if "id" in attributes}
    assert {address[1:] for address in addresses if address and address.startswith("#")} <= ids
    document = await description(gateway)
    operations = {each["operationId"] for path in document["paths"].values() for each in path.values()}
    assert {"start_run", "list_runs", "answer_run"} <= operations <= ids
    assert not [name for _, attributes in page.seen for name in attributes if name.startswith("on") or name == "style"]


async def test_the_page_allows_its_own_style_alone(gateway: Gateway) -> None:
    answer = await gateway.client.get("/docs")
    style = answer.text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


async def test_every_example_is_a_command_with_json_that_can_be_read(gateway: Gateway) -> None:
    page = (await gateway.client.get("/docs")).text
    commands = [unescape(found) for found in re.findall(r"<pre[^>]*>(curl.*?)</pre>", page, re.DOTALL)]
    document = await description(gateway)

    assert len(commands) == sum(len(methods) for methods in document["paths"].values())
    for command in commands:
        words = shlex.split(command.replace("\\\n", " "))
        assert words[0] == "curl"
        assert "{" not in next(word for word in words if word.startswith("http"))
        assert "Authorization: Bearer $KEY" in words
        if "-d" in words:
            assert isinstance(json.loads(words[words.index("-d") + 1]), dict)


async def test_each_operation_is_described_with_its_purpose_and_failures(gateway: Gateway) -> None:
    document = await description(gateway)
    schemas = document["components"]["schemas"]

    assert set(document["components"]["headers"]) == {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}
    assert document["components"]["securitySchemes"]["api_key"]["scheme"] == "bearer"
    assert not [name for name in schemas if "__" in name or name == "HTTPValidationError"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert operation["summary"], where
            assert operation["description"], where
            assert operation["security"] == [{"api_key": []}], where
            assert {"401", "422", "429", "503"} <= set(operation["responses"]), where
            for status, answer in operation["responses"].items():
                told = {name for name in answer.get("headers", {}) if name.startswith("RateLimit-")}
                assert told == (set() if status == "401" else set(document["components"]["headers"])), (where, status)
                kinds = set(answer.get("content", {}))
                assert kinds == ({"application/problem+json"} if status >= "4" else kinds), (where, status)
            assert not [each for each in operation["parameters"] if "null" in json.dumps(each["schema"])], where


async def test_a_browser_shows_the_page_and_calls_no_other_host(gateway: Gateway) -> None:
    async with chromium() as browser:
        for width in (1_280, 380):
            page = await browser.new_page(viewport={"width": width, "height": 900}, java_script_enabled=True)
            complaints = watch(page, gateway.address)
            host, port = gateway.address[:2]
            await page.goto(f"http://{host}:{port}/docs")
            await page.get_by_role("link", name="Start a run").click()

            heading = page.get_by_role("heading", name="Start a run")
            box = await heading.bounding_box()
            assert box is not None
            assert 0 <= box["y"] < 900
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            assert await page.evaluate("getComputedStyle(document.querySelector('.method')).fontWeight") == "700"
            await page.get_by_text("Fields of the answer").nth(1).click()
            await page.get_by_text("status_url").first.wait_for(state="visible")
            assert complaints == []
            await page.close()
