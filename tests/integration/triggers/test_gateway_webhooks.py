"""Webhooks through a real server into a real store."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.triggers.gateway_server import (
    BODY_LIMIT,
    Gateway,
    running_gateway,
    sign_as_github,
    sign_as_standard,
)
from workers.settings import Settings

pytestmark = pytest.mark.integration

PAID = "/hooks/acme/Sales/paid"
OPENED = "/hooks/acme/Sales/opened"
ROUTED = "/hooks/acme/Sales/routed"


@pytest.fixture
async def gateway(settings: Settings, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(settings, tmp_path) as running:
        yield running


def is_problem(answer: Any, status: int) -> bool:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    return True


@pytest.mark.design("D4-88")
async def test_an_accepted_call_is_a_durable_run(gateway: Gateway) -> None:
    answer = await gateway.client.post(PAID, **sign_as_standard('{"order": {"id": 7}}', delivery="msg_7"))

    assert answer.status_code == 202
    run_id = answer.json()["run_id"]
    assert answer.json() == {"run_id": run_id, "status_url": f"/v1/runs/{run_id}"}
    assert "server" not in answer.headers
    [run] = await gateway.runs()
    assert (run["_id"], run["app_id"], run["workflow"], run["state"]) == (run_id, "acme", "Sales", "queued")
    assert (run["trigger"]["type"], run["trigger"]["name"], run["trigger"]["id"]) == ("webhook", "paid", "msg_7")
    assert run["input"]["order"] == 7
    assert run["input"]["agent"].startswith("python-httpx")
    assert run["input"]["signed"] is None


async def test_fifty_identical_deliveries_are_one_run_and_one_answer(gateway: Gateway) -> None:
    call = sign_as_standard('{"order": {"id": 7}}')

    answers = await asyncio.gather(*(gateway.client.post(PAID, **call) for _ in range(50)))

    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [202]
    [run] = await gateway.runs()
    assert {json.dumps(answer.json()) for answer in answers} == {
        json.dumps({"run_id": run["_id"], "status_url": f"/v1/runs/{run['_id']}"})
    }
    metrics = (await gateway.client.get("/metrics")).text
    assert 'unattended_duplicates_dropped_total{trigger="Sales/paid"} 49.0' in metrics
    assert 'unattended_webhook_requests_total{endpoint="webhook",result="duplicate"} 49.0' in metrics
    assert 'unattended_webhook_seconds_count{endpoint="webhook"} 50.0' in metrics


async def test_one_delivery_to_two_apps_is_two_runs(gateway: Gateway) -> None:
    call = sign_as_standard("{}")

    await gateway.client.post(PAID, **call)
    await gateway.client.post(PAID.replace("acme", "globex"), **call)

    assert {run["app_id"] for run in await gateway.runs()} == {"acme", "globex"}


async def test_the_signature_is_over_the_raw_bytes(gateway: Gateway) -> None:
    raw = '{ "order":{"id":1.0},\n"x":"\\u00e9é" }\n'
    again = json.dumps(json.loads(raw)).encode()

    assert (await gateway.client.post(PAID, **sign_as_standard(raw))).status_code == 202
    assert is_problem(await gateway.client.post(PAID, **(sign_as_standard(raw) | {"content": again})), 401)


@pytest.mark.parametrize("age_s", [-400, 400])
async def test_a_call_outside_the_tolerance_is_refused(gateway: Gateway, age_s: int) -> None:
    assert is_problem(await gateway.client.post(PAID, **sign_as_standard("{}", age_s=age_s)), 401)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-hub-signature-256": "sha256=00"},
        {"x-hub-signature-256": "sha256=\xfc\xff"},
        {"x-hub-signature-256": "ü" * 1000},
    ],
)
async def test_a_call_that_is_not_signed_is_refused_without_detail(gateway: Gateway, headers: dict[str, str]) -> None:
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]

    answer = await gateway.client.post(OPENED, json={"action": "opened"}, headers=encoded)

    assert is_problem(answer, 401)
    assert answer.json()["detail"] == "the signature does not verify"
    assert await gateway.runs() == []


@pytest.mark.parametrize(
    "path",
    [
        "/hooks/acme/Sales/unknown",
        "/hooks/acme/Unknown/paid",
        "/hooks/unknown/Sales/paid",
        "/hooks/globex/Sales/opened",
        "/hooks/acme/Sales/lead",
        "/hooks/acme/Sales/locked",
        "/hooks/acme/Sales/nobody",
        "/hooks/acme/Sales",
        "/hooks/acme/Sales/paid/",
        "/hooks/%2e%2e/Sales/paid",
    ],
)
async def test_what_is_not_there_is_not_found(gateway: Gateway, path: str) -> None:
    assert is_problem(await gateway.client.post(path, **sign_as_github({"action": "opened"})), 404)


async def test_the_app_in_the_body_must_be_the_one_in_the_address(gateway: Gateway) -> None:
    ours, theirs = ({"tenant": tenant, "numbers": [1, 2]} for tenant in ("acme", "globex"))

    assert (await gateway.client.post(ROUTED, **sign_as_github(ours))).status_code == 202
    assert is_problem(await gateway.client.post(ROUTED, **sign_as_github(theirs)), 404)

    [run] = await gateway.runs()
    assert (run["app_id"], run["input"]) == ("acme", {"sum": 3})


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
async def test_other_content_types_are_refused(gateway: Gateway, kind: str) -> None:
    call = sign_as_github({"action": "opened"})
    call["headers"]["content-type"] = kind
    assert is_problem(await gateway.client.post(OPENED, **call), 415)


async def test_json_suffixes_and_parameters_are_taken(gateway: Gateway) -> None:
    for kind in ("application/vnd.shop+json", "Application/JSON; charset=utf-8"):
        call = sign_as_github({"action": "closed"})
        call["headers"]["content-type"] = kind
        assert (await gateway.client.post(OPENED, **call)).status_code == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"NaN", b'{"a": "\xff"}', b"[" * 5000, b'{"tenant": "acme", "numbers": 1}']
)
async def test_signed_nonsense_is_a_bad_request(gateway: Gateway, body: bytes) -> None:
    assert is_problem(await gateway.client.post(ROUTED, **sign_as_github(body)), 400)


async def test_what_cannot_be_kept_is_a_bad_request(gateway: Gateway) -> None:
    body = {"action": "opened", "title": "x", "number": {"$where": "1"}}
    assert is_problem(await gateway.client.post(OPENED, **sign_as_github(body, delivery="d")), 400)


async def test_a_condition_that_does_not_hold_skips(gateway: Gateway) -> None:
    answer = await gateway.client.post(OPENED, **sign_as_github({"action": "closed"}))

    assert (answer.status_code, answer.json()) == (200, {"skipped": True})
    assert await gateway.runs() == []
    metrics = (await gateway.client.get("/metrics")).text
    assert 'unattended_webhook_requests_total{endpoint="webhook",result="skipped"} 1.0' in metrics


async def test_without_a_delivery_id_the_dedupe_expression_names_the_event(gateway: Gateway) -> None:
    body = {"action": "opened", "number": 12, "title": "a bug"}

    first = await gateway.client.post(OPENED, **sign_as_github(body))
    second = await gateway.client.post(OPENED, **sign_as_github({**body, "title": "an edited bug"}))

    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json() == second.json()
    [run] = await gateway.runs()
    assert (run["trigger"]["id"], run["message"]) == ("12", "Look at a bug")


async def test_a_body_that_declares_too_much_is_refused_before_anything_else(gateway: Gateway) -> None:
    for path in (PAID, "/hooks/acme/Unknown/unknown", "/forms/acme/Sales/lead"):
        assert is_problem(await gateway.client.post(path, content=b"x" * (BODY_LIMIT + 1)), 413)


async def chunks(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * 10_000


async def test_a_chunked_body_is_counted_while_it_arrives(gateway: Gateway) -> None:
    answer = await gateway.client.post(PAID, content=chunks(1000), headers={"content-type": "application/json"})
    assert is_problem(answer, 413)


async def test_a_body_without_end_is_cut_off(gateway: Gateway) -> None:
    sending = gateway.client.post(PAID, content=chunks(10**9), headers={"content-type": "application/json"})

    # The client may be told, or find the connection closed under it; others are served meanwhile and after.
    outcome, health = await asyncio.gather(sending, gateway.client.get("/healthz"), return_exceptions=True)

    assert isinstance(outcome, httpx.TransportError) or is_problem(outcome, 413)
    assert isinstance(health, httpx.Response)
    assert health.status_code == 200


@pytest.mark.parametrize("expects", ["", "Expect: 100-continue\r\n"], ids=["would-send", "asks-first"])
@pytest.mark.parametrize("path", [PAID, "/hooks/acme/Unknown/unknown", "/forms/acme/Sales/lead"])
async def test_a_body_that_declares_too_much_is_refused_before_any_of_it_is_sent(
    gateway: Gateway, path: str, expects: str
) -> None:
    reader, writer = await asyncio.open_connection(*gateway.address)
    writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n{expects}\r\n".encode())

    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("split", [0, 30, 200], ids=["at-once", "in-the-head", "in-the-body"])
async def test_a_wish_for_another_protocol_costs_no_body(gateway: Gateway, split: int) -> None:
    """Java's client asks for HTTP/2 with its first request, and sends the body along."""
    call = sign_as_standard('{"order": {"id": 8}, "then": "GET /readyz HTTP/1.1"}')
    wish = {"host": "x", "connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAEAAEAA"}
    headers = {**wish, **call["headers"], "content-length": str(len(call["content"]))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"POST {PAID} HTTP/1.1\r\n{head}\r\n".encode() + call["content"]
    reader, writer = await asyncio.open_connection(*gateway.address)

    writer.write(request[:split])
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.write(request[split:] + b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answers = (await asyncio.wait_for(reader.read(), 5)).decode()

    writer.close()
    await writer.wait_closed()

    assert re.findall(r"HTTP/1.1 (\d+)", answers) == ["202", "200"]
    assert [run["input"]["order"] for run in await gateway.runs()] == [8]


async def test_a_wrong_method_is_a_problem(gateway: Gateway) -> None:
    answer = await gateway.client.get(PAID)
    assert is_problem(answer, 405)
    assert answer.headers["allow"] == "POST"
