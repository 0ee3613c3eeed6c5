"""Form pages through a real server into a real store: what a browser without scripts sees and sends."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo import AsyncMongoClient

from ops.embedded.embedded_servers import embedded_servers
from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.gateway_server import Gateway, serving, settings_with_package
from tests.integration.triggers.shared_gateway import delete_runs, shared_gateway
from tests.unit.triggers.form.parsed_page import ParsedPage, parse_html
from triggers.acceptance import Acceptance
from triggers.gateway.gateway_app import GatewayOptions
from triggers.gateway.trigger_lookup import CACHE_TTL_S
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import Pause
from triggers.role_context import build_role_context
from workers.broker.wakeups import Wakeups
from workers.embedded_services import Services
from workers.settings import Settings
from workers.store.run import Accepted, RunRequest
from workflows.package.catalog import Catalog, package_directories
from workflows.package.trigger_specs.form_spec import FormInput, FormSpec

pytestmark = pytest.mark.integration

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PROGRAM = {"accept": "*/*"}
LEAD = "/forms/acme/Sales/lead"
DEMO = "/forms/acme/Sales/demo"
DEMO_FORM = Trigger(
    "Sales",
    FormSpec(
        name="demo",
        title="Request a demo",
        inputs={
            "email": FormInput(format="email", required=True),
            "note": FormInput(multiline=True, max_length=20),
            "news": FormInput(type="boolean", default=True),
            "terms": FormInput(type="boolean", required=True),
        },
    ),
    app_id="acme",
)
ADA = {"email": "ada@example.com", "terms": "true"}


@pytest.fixture(scope="module")
async def served(
    servers: Services, dropped: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    async with shared_gateway(servers, folder, DEMO_FORM.spec, dropped=dropped) as running:
        running.client.headers.update(BROWSER)
        yield running


@pytest.fixture
async def gateway(served: Gateway) -> Gateway:
    return await delete_runs(served)


@pytest.fixture
async def fresh_gateway(servers: Services, dropped: Callable[[str], None], tmp_path: Path) -> AsyncIterator[Gateway]:
    """For tests that change what others stand on."""
    async with shared_gateway(servers, tmp_path, DEMO_FORM.spec, dropped=dropped) as running:
        running.client.headers.update(BROWSER)
        yield running


async def open_page(gateway: Gateway, path: str = DEMO) -> ParsedPage:
    answer = await gateway.client.get(path)
    assert answer.status_code == 200, answer.text
    return parse_html(answer.text)


def delivery_of(page: ParsedPage) -> dict[str, str]:
    [hidden] = [each.attributes for each in page.all("input") if each.attributes["type"] == "hidden"]
    return {hidden["name"]: hidden["value"]}


async def inputs(gateway: Gateway) -> list[dict[str, Any]]:
    return [run["input"] for run in reversed(await gateway.runs())]


async def test_a_form_is_a_page_at_its_own_address(gateway: Gateway) -> None:
    answers = [await gateway.client.get(path, headers=PROGRAM) for path in (LEAD, DEMO)]

    for answer in answers:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
        assert answer.headers["cache-control"] == "no-store"
    assert [parse_html(answer.text).one("h1").text for answer in answers] == ["Lead", "Request a demo"]
    assert delivery_of(await open_page(gateway)) != delivery_of(await open_page(gateway))
    assert await gateway.runs() == []


async def test_a_form_that_is_filled_in_becomes_a_run(gateway: Gateway) -> None:
    page = await open_page(gateway)

    sent = await gateway.client.post(DEMO, data={**ADA, "note": "one\r\ntwo", **delivery_of(page)})

    thanks = await gateway.client.get(sent.headers["location"])
    [run] = await gateway.runs()
    assert sent.status_code == 303
    assert run["_id"] in thanks.text
    assert (run["app_id"], run["trigger"]["type"]) == ("acme", "form_submit")
    # A box that is not ticked is not sent, and means no; a line's end is one character, as the page counted it.
    assert run["input"] == {"email": "ada@example.com", "note": "one\ntwo", "news": False, "terms": True}


async def test_errors_come_as_the_page_with_what_was_written(gateway: Gateway) -> None:
    page = await open_page(gateway)

    sent = await gateway.client.post(
        DEMO, data={"email": "ada", "note": "far " * 6, "news": "true", **delivery_of(page)}
    )

    shown = parse_html(sent.text)
    assert (sent.status_code, sent.headers["content-type"]) == (422, "text/html; charset=utf-8")
    assert [each.text for each in shown.all("a")] == [
        "Email – this must be an email address, such as ada@example.com",
        "Note – this is longer than 20 characters",
        "Terms – this must be ticked",
    ]
    assert shown.control("email").attributes["value"] == "ada"
    assert shown.control("note").text == "\n" + "far " * 6
    assert "checked" in shown.control("news").attributes
    assert "checked" not in shown.control("terms").attributes
    assert delivery_of(shown) == delivery_of(page)
    assert await gateway.runs() == []


async def test_a_program_gets_problems_where_a_browser_gets_pages(gateway: Gateway) -> None:
    for headers in (PROGRAM, {"accept": "application/json"}):
        answer = await gateway.client.post(DEMO, data={"email": "ada"}, headers=headers)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["errors"].keys() == {"email", "terms"}
    answer = await gateway.client.post(DEMO, json={"email": 5})
    assert (answer.status_code, answer.headers["content-type"]) == (422, "text/html; charset=utf-8")
    assert parse_html(answer.text).by_id("field-1-error").text == "Error: This must be text."


async def test_every_error_of_a_body_is_listed_with_those_of_its_fields(gateway: Gateway) -> None:
    answer = await gateway.client.post(
        DEMO, data={"note": ["a", "b"]}, files={"cv": ("cv.pdf", b"%PDF")}, headers=PROGRAM
    )

    assert answer.json()["errors"] == {
        "email": "is required",
        "terms": "is required",
        "note": "is given more than once",
        "cv": "is a file; this form takes text only",
    }


async def test_a_page_that_is_sent_twice_makes_one_run(gateway: Gateway) -> None:
    filled_in = {**ADA, **delivery_of(await open_page(gateway))}

    answers = await asyncio.gather(*(gateway.client.post(DEMO, data=filled_in) for _ in range(10)))

    assert {answer.status_code for answer in answers} == {303}
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert len(await gateway.runs()) == 1


async def test_going_back_and_correcting_an_answer_makes_another_run(gateway: Gateway) -> None:
    delivery = delivery_of(await open_page(gateway))

    await gateway.client.post(DEMO, data={**ADA, **delivery})
    await gateway.client.post(DEMO, data={**ADA, "email": "ada@example.org", **delivery})

    assert [each["email"] for each in await inputs(gateway)] == ["ada@example.com", "ada@example.org"]


async def test_two_people_with_the_same_answers_make_two_runs(gateway: Gateway) -> None:
    for delivery in (
        delivery_of(await open_page(gateway)),
        delivery_of(await open_page(gateway)),
        {},
        {"_delivery": "x"},
    ):
        assert (await gateway.client.post(DEMO, data={**ADA, **delivery})).status_code == 303

    assert len(await gateway.runs()) == 4


async def test_a_form_paused_while_being_filled_in_gives_the_answers_back(fresh_gateway: Gateway) -> None:
    client, triggers = fresh_gateway.client, fresh_gateway.ground.triggers
    filled_in = {**ADA, "note": "by noon", **delivery_of(await open_page(fresh_gateway))}
    await triggers.pause(DEMO_FORM, Pause(datetime.now(UTC), by="ops", note="secret reason"))

    async def is_closed() -> bool:
        return (await client.get(DEMO)).status_code == 503

    await wait_until(is_closed, "the pause is felt")
    looked = await client.get(DEMO)
    sent = await client.post(DEMO, data=filled_in)
    called = await client.post(DEMO, json=ADA, headers=PROGRAM)

    assert {each.status_code for each in (looked, sent, called)} == {503}
    assert {each.headers["retry-after"] for each in (looked, sent, called)} == {"60"}
    assert "closed at the moment" in parse_html(looked.text).one("h1").text
    assert called.headers["content-type"] == "application/problem+json"
    assert "secret reason" not in looked.text + sent.text + called.text
    shown = parse_html(sent.text)
    assert "closed at the moment" in shown.one("h2").text
    assert shown.control("email").attributes["value"] == ADA["email"]
    assert shown.control("note").text.strip() == "by noon"
    assert "checked" in shown.control("terms").attributes
    assert "checked" not in shown.control("news").attributes
    assert delivery_of(shown)["_delivery"] == filled_in["_delivery"]
    assert await fresh_gateway.runs() == []
    metrics = (await client.get("/metrics")).text
    assert 'unattended_webhook_requests_total{endpoint="form",result="paused"} 2.0' in metrics

    await triggers.resume(DEMO_FORM)

    async def is_accepted() -> bool:
        return (await client.post(DEMO, data=filled_in)).status_code == 303

    await wait_until(is_accepted, "it is open again")
    assert len(await fresh_gateway.runs()) == 1


@pytest.mark.parametrize("path", ["/forms/globex/Sales/lead", "/forms/acme/Sales/none", f"{LEAD}/accepted?run=run_1"])
async def test_an_unknown_form_is_a_small_page_for_a_browser(gateway: Gateway, path: str) -> None:
    looked = await gateway.client.get(path)
    called = await gateway.client.get(path, headers={"accept": "application/json"})

    assert looked.status_code == called.status_code == 404
    assert parse_html(looked.text).one("h1").text == "There is no such page"
    assert called.headers["content-type"] == "application/problem+json"


async def test_a_body_that_cannot_be_taken_is_a_page_for_a_browser(gateway: Gateway) -> None:
    answers = [
        await gateway.client.post(LEAD, data={"email": "x" * 20_000}),
        await gateway.client.post(LEAD, content=b"email=a", headers={"content-type": "text/plain"}),
        await gateway.client.post(
            LEAD, content=b"email=%ff", headers={"content-type": "application/x-www-form-urlencoded"}
        ),
    ]

    assert [answer.status_code for answer in answers] == [413, 415, 400]
    for answer in answers:
        assert "could not be sent" in parse_html(answer.text).one("h1").text


async def test_another_method_gets_the_list_of_allowed_ones(gateway: Gateway) -> None:
    answer = await gateway.client.put(DEMO, json=ADA)

    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


async def test_looking_at_a_form_is_no_call_and_a_refused_one_is_counted(fresh_gateway: Gateway) -> None:
    await open_page(fresh_gateway)
    await fresh_gateway.client.post(DEMO, data={"email": "ada"})
    await fresh_gateway.client.post(DEMO, data=ADA)

    metrics = (await fresh_gateway.client.get("/metrics")).text
    assert 'unattended_webhook_seconds_count{endpoint="form"} 2.0' in metrics
    assert 'unattended_webhook_requests_total{endpoint="form",result="invalid"} 1.0' in metrics
    assert 'unattended_webhook_requests_total{endpoint="form",result="accepted"} 1.0' in metrics
    await fresh_gateway.ground.stats.write()
    record = await fresh_gateway.ground.triggers.find(DEMO_FORM.id)
    assert record is not None
    assert record.counts == {"accepted": 1, "refused.invalid": 1}


class TurnableClock:
    """The real clock, which a test can turn forward."""

    ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


@pytest.fixture
def cache_clock() -> TurnableClock:
    return TurnableClock()


@pytest.fixture
async def short_of_patience(tmp_path: Path, cache_clock: TurnableClock) -> AsyncIterator[Gateway]:
    """A gateway on a MongoDB of its own, which gives up soon."""
    async with embedded_servers(tmp_path / "data", redis=False) as services:
        settings = settings_with_package(Settings(mongodb_url=services.mongodb_url), tmp_path)
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
            services.mongodb_url, tz_aware=True, serverSelectionTimeoutMS=200, serverMonitoringMode="poll"
        )
        catalog = Catalog(package_directories(settings.packages))
        ground = build_role_context(client["unattended"], settings, catalog=catalog, wakeups=Wakeups(lambda _: None))
        await ground.store.ensure_indexes()
        await ground.triggers.ensure_indexes()
        async with serving(ground, options=GatewayOptions(clock=cache_clock)) as running:
            yield running
        await client.close()


def kill_mongod(data_dir: Path) -> None:
    """The one that this test started."""
    for process in psutil.Process().children(recursive=True):
        if process.name().startswith("mongod") and any(str(data_dir) in part for part in process.cmdline()):
            process.kill()


async def test_while_the_store_is_away_a_browser_keeps_and_resends_its_answers(
    short_of_patience: Gateway, tmp_path: Path, cache_clock: TurnableClock
) -> None:
    client = short_of_patience.client
    client.headers.update(BROWSER)
    filled_in = {"email": "ada@example.com", "seats": "3", **delivery_of(await open_page(short_of_patience, LEAD))}
    kill_mongod(tmp_path)

    # Of the first form it is still remembered that it is not paused; the second one was never asked for.
    sent, looked = await asyncio.gather(
        client.post(LEAD, data=filled_in), client.get("/forms/acme/Sales/none", headers=BROWSER)
    )

    assert [sent.status_code, looked.status_code] == [503, 503]
    assert [sent.headers["retry-after"], looked.headers["retry-after"]] == ["5", "5"]
    assert parse_html(looked.text).one("h1").text == "We cannot answer just now"
    cache_clock.ahead_s = 2 * CACHE_TTL_S
    sent = await client.post(LEAD, data=filled_in)  # whether it is paused is not known by now
    assert (sent.status_code, sent.headers["retry-after"]) == (503, "5")
    shown = parse_html(sent.text)
    assert "send it again" in shown.one("main").text
    again = {each.attributes["name"]: each.attributes["value"] for each in shown.controls if each.tag == "input"}
    assert {**again, **delivery_of(shown)} == {**filled_in, "newsletter": "true"}
    del again["newsletter"]  # shown, and not ticked

    async def is_accepted() -> bool:
        return (await client.post(LEAD, data={**again, **delivery_of(shown)})).status_code == 303

    await wait_until(is_accepted, "the store is back")
    assert await inputs(short_of_patience) == [{"email": "ada@example.com", "seats": 3, "newsletter": False}]


async def test_while_the_store_is_frozen_a_browser_keeps_its_answers_too(
    served: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_acceptance: Acceptance, _request: RunRequest) -> Accepted:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(Acceptance, "accept", never)

    async with serving(served.ground, options=GatewayOptions(store_timeout_s=1.0)) as hurried:
        sent = await hurried.client.post(DEMO, data={**ADA, "note": "by noon"}, headers=BROWSER)

    assert (sent.status_code, sent.headers["retry-after"]) == (503, "5")
    assert "send it again" in parse_html(sent.text).one("main").text
    assert parse_html(sent.text).one("textarea").text.strip() == "by noon"


async def test_a_form_whose_answers_name_the_app_runs_for_that_app_alone(fresh_gateway: Gateway) -> None:
    _package_of(fresh_gateway).joinpath("triggers.yaml").write_text(
        "triggers: [{name: routed, type: form_submit, app_id: =tenant, inputs: {tenant: {required: true}}}]"
    )

    async def is_accepted() -> bool:
        answer = await fresh_gateway.client.post("/forms/acme/Sales/routed", data={"tenant": "acme"}, headers=PROGRAM)
        return answer.status_code == 202

    await wait_until(is_accepted, "the package is read again")
    elsewhere = "/forms/globex/Sales/routed"
    called = await fresh_gateway.client.post(elsewhere, data={"tenant": "acme"}, headers=PROGRAM)
    sent = await fresh_gateway.client.post(elsewhere, data={"tenant": "acme"})
    assert (called.status_code, sent.status_code) == (404, 404)
    assert parse_html(sent.text).control("tenant").attributes["value"] == "acme"
    assert [run["app_id"] for run in await fresh_gateway.runs()] == ["acme"]


def _package_of(gateway: Gateway) -> Path:
    return gateway.ground.settings.packages[0] / "Sales"
