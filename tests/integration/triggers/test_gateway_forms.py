"""Forms through a real server into a real store."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.triggers.gateway_server import Gateway, running_gateway
from workers.settings import Settings

pytestmark = pytest.mark.integration

LEAD = "/forms/acme/Sales/lead"
ADA = {"email": "ada@example.com", "seats": 3, "newsletter": True}
ADA_TEXT = {"email": "ada@example.com", "seats": "3", "newsletter": "on"}
BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture
async def gateway(settings: Settings, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(settings, tmp_path) as running:
        yield running


def multipart(**fields: str) -> dict[str, tuple[None, str]]:
    return {name: (None, value) for name, value in fields.items()}


@pytest.mark.design("D4-85")
async def test_three_ways_to_send_a_form_are_one(gateway: Gateway) -> None:
    answers = [
        await gateway.client.post(LEAD, json=ADA),
        await gateway.client.post(LEAD, data=ADA_TEXT),
        await gateway.client.post(LEAD, files=multipart(**ADA_TEXT)),
    ]

    assert [answer.status_code for answer in answers] == [202, 202, 202]
    runs = await gateway.runs()
    assert [run["input"] for run in runs] == [ADA, ADA, ADA]
    assert {run["_id"] for run in runs} == {answer.json()["run_id"] for answer in answers}
    assert {run["trigger"]["type"] for run in runs} == {"form_submit"}


async def test_all_errors_are_reported_at_once(gateway: Gateway) -> None:
    for sent in ({"data": {"seats": "many", "admin": "1"}}, {"json": {"seats": "many", "admin": 1}}):
        answer = await gateway.client.post(LEAD, **sent)

        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["errors"] == {
            "email": "is required",
            "seats": "must be a whole number",
            "admin": "is not a field of this form",
        }
    assert await gateway.runs() == []


async def test_files_are_refused_by_name(gateway: Gateway) -> None:
    answer = await gateway.client.post(LEAD, files={**multipart(**ADA_TEXT), "cv": ("cv.pdf", b"%PDF")})
    assert (answer.status_code, answer.json()["errors"]) == (422, {"cv": "is a file; this form takes text only"})


async def test_a_field_given_twice_is_refused(gateway: Gateway) -> None:
    answer = await gateway.client.post(LEAD, data={"email": ["a@example.com", "b@example.com"]})
    assert (answer.status_code, answer.json()["errors"]) == (422, {"email": "is given more than once"})


@pytest.mark.parametrize(
    ("kind", "content", "status"),
    [
        ("application/json", b"[]", 400),
        ("application/json", b"{", 400),
        ("application/x-www-form-urlencoded", b"email=%ff", 400),
        ("application/x-www-form-urlencoded", b"a=&" * 1001, 400),
        ("multipart/form-data", b"--x--", 400),
        ("multipart/form-data; boundary=x", b"nonsense", 400),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\nno name\r\n--x--\r\n", 400),
        ("multipart/form-data; boundary=x; charset=punycode", b"--x--\r\n", 415),
        ("text/plain", b"email=a@example.com", 415),
        ("", b"email=a@example.com", 415),
    ],
)
async def test_a_body_that_cannot_be_read_is_a_problem(
    gateway: Gateway, kind: str, content: bytes, status: int
) -> None:
    answer = await gateway.client.post(LEAD, content=content, headers={"content-type": kind})

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


async def test_an_idempotency_key_makes_one_run_of_many_calls(gateway: Gateway) -> None:
    headers = {"idempotency-key": "order 66"}

    answers = await asyncio.gather(*(gateway.client.post(LEAD, json=ADA, headers=headers) for _ in range(10)))

    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [202]
    [run] = await gateway.runs()
    assert {answer.json()["run_id"] for answer in answers} == {run["_id"]}
    assert run["trigger"]["id"] == "order 66"


@pytest.mark.parametrize("key", ["", "x" * 201, "ü"])
async def test_an_idempotency_key_that_cannot_be_one_is_refused(gateway: Gateway, key: str) -> None:
    answer = await gateway.client.post(LEAD, json=ADA, headers=[(b"idempotency-key", key.encode())])
    assert answer.status_code == 400


async def test_a_browser_is_redirected_to_a_thank_you_page(gateway: Gateway) -> None:
    sent = await gateway.client.post(LEAD, data=ADA_TEXT, headers=BROWSER)

    [run] = await gateway.runs()
    assert (sent.status_code, sent.headers["location"]) == (303, f"{LEAD}/accepted?run={run['_id']}")
    page = await gateway.client.get(sent.headers["location"])
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "Thank you" in page.text
    assert run["_id"] in page.text
    assert "queued" not in page.text


@pytest.mark.parametrize("run", ["", "run_1", "<script>alert(1)</script>", "run_" + "I" * 26, "run_" + "0" * 26 + "\n"])
async def test_the_page_shows_nothing_but_a_run_id(gateway: Gateway, run: str) -> None:
    page = await gateway.client.get(f"{LEAD}/accepted", params={"run": run})

    assert page.status_code == 404
    assert page.headers["content-type"] == "application/problem+json"


async def test_a_form_of_another_app_is_not_found(gateway: Gateway) -> None:
    for path in ("/forms/globex/Sales/lead", "/forms/acme/Sales/paid", "/forms/acme/Sales/none"):
        assert (await gateway.client.post(path, json=ADA)).status_code == 404
    assert (await gateway.client.get("/forms/globex/Sales/lead/accepted?run=run_" + "0" * 26)).status_code == 404
