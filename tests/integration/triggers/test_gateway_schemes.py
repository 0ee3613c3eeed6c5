"""Every webhook scheme through a real server into a real store, and its stats."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.gateway_server import Gateway, serving, settings_with_senders
from tests.integration.triggers.test_gateway_webhooks import is_problem
from tests.webhook_senders import BY_NAME, SENDERS, WORKFLOW
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import Pause, TriggerRecord
from triggers.role_context import open_role_context
from workers.settings import Settings
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

pytestmark = pytest.mark.integration

GITHUB = BY_NAME["github"]
EVENTS = f"/hooks/acme/{WORKFLOW}/events"
LIMITED = f"/hooks/acme/{WORKFLOW}/limited"
PICKY = f"/hooks/acme/{WORKFLOW}/picky"


@pytest.fixture
async def gateway(settings: Settings, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with open_role_context(settings_with_senders(settings, tmp_path)) as ground, serving(ground) as running:
        yield running


def github_call(content: bytes, delivery: str | None = "d-1", **headers: str) -> dict[str, Any]:
    signed = {"content-type": "application/json", **GITHUB.sign(content, delivery or "", 0), **headers}
    return {"content": content, "headers": {name: value for name, value in signed.items() if value}}


def packages_trigger(gateway: Gateway, name: str) -> Trigger:
    specs = gateway.ground.catalog.packages()[WORKFLOW].triggers
    return Trigger(WORKFLOW, next(spec for spec in specs if spec.name == name))


async def record_of(gateway: Gateway, trigger: Trigger) -> TriggerRecord:
    await gateway.ground.stats.write()
    record = await gateway.ground.triggers.find(trigger.id)
    assert record is not None
    return record


async def test_fifty_identical_deliveries_are_one_run_and_one_answer(gateway: Gateway) -> None:
    for sender in SENDERS:
        call = sender.call(delivery=f"evt {sender.name}")

        answers = await asyncio.gather(*(gateway.client.post(sender.path, **call) for _ in range(50)))

        assert sorted(answer.status_code for answer in answers) == [200] * 49 + [202], sender.name
        [run] = [run for run in await gateway.runs() if run["trigger"]["name"] == sender.name]
        answer = {"run_id": run["_id"], "status_url": f"/v1/runs/{run['_id']}"}
        assert {answer.text for answer in answers} == {json.dumps(answer)}
        assert run["trigger"]["id"] == f"evt {sender.name}"
        record = await record_of(gateway, packages_trigger(gateway, sender.name))
        assert record.counts == {"accepted": 1, "duplicate": 49}
        assert record.last_fired_at is not None


async def test_a_call_without_its_proof_is_refused_and_counted_by_reason(gateway: Gateway) -> None:
    for sender in SENDERS:
        call = sender.call()
        calls = {"missing_header": {**call, "headers": {"content-type": "application/json"}}}
        if sender.verify["scheme"] not in ("bearer", "basic"):  # those sign nothing
            calls["no_match"] = {**call, "content": call["content"] + b" "}

        for refused in calls.values():
            answer = await gateway.client.post(sender.path, **refused)
            assert is_problem(answer, 401)
            assert answer.json()["detail"] == "the signature does not verify"

        record = await record_of(gateway, packages_trigger(gateway, sender.name))
        assert record.counts == {f"refused.{reason}": 1 for reason in calls}, sender.name
        assert not record.notes
    assert await gateway.runs() == []


@pytest.mark.parametrize(
    ("sender", "asks"), [("bearer", "Bearer"), ("basic", 'Basic realm="webhook"'), ("github", None)]
)
async def test_a_sender_that_waits_to_be_asked_for_its_secret_is_asked(
    gateway: Gateway, sender: str, asks: str | None
) -> None:
    answer = await gateway.client.post(BY_NAME[sender].path, json={})
    assert answer.headers.get("www-authenticate") == asks


async def test_slack_gets_its_signed_challenge_back_and_nothing_runs(gateway: Gateway) -> None:
    slack = BY_NAME["slack"]
    call = slack.call({"type": "url_verification", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"})

    answer = await gateway.client.post(slack.path, **call)
    unsigned = await gateway.client.post(
        slack.path, content=call["content"], headers={"content-type": "application/json"}
    )

    assert (answer.status_code, answer.json()) == (200, {"challenge": json.loads(call["content"])["challenge"]})
    assert is_problem(unsigned, 401)
    assert await gateway.runs() == []


async def test_a_command_of_slack_comes_as_a_form(gateway: Gateway) -> None:
    slack, content = BY_NAME["slack"], b"command=%2Fask&text=how+many"
    headers = slack.sign(content, "", int(datetime.now(UTC).timestamp()))

    answer = await gateway.client.post(
        slack.path, content=content, headers={**headers, "content-type": "application/x-www-form-urlencoded"}
    )

    assert answer.status_code == 202


async def test_a_structured_cloud_event_is_one_run_by_its_source_and_id(gateway: Gateway) -> None:
    event = {"specversion": "1.0", "id": "A-1", "source": "/shop", "type": "order.paid", "data": {"order": 7}}
    kind = {"content-type": "application/cloudevents+json"}
    calls = [event, event, {**event, "id": "A-2"}, {**event, "source": "/outlet"}]

    answers = [
        await gateway.client.post(EVENTS, **github_call(json.dumps(each).encode(), None, **kind)) for each in calls
    ]

    assert [answer.status_code for answer in answers] == [202, 200, 202, 202]
    assert answers[0].json() == answers[1].json()
    runs = await gateway.runs()
    assert {run["trigger"]["id"] for run in runs} == {"/shop A-1", "/shop A-2", "/outlet A-1"}
    assert {run["input"]["order"] for run in runs} == {7}


async def test_a_binary_cloud_event_is_the_same_event(gateway: Gateway) -> None:
    attributes = {"ce-specversion": "1.0", "ce-id": "A-1", "ce-source": "/shop", "ce-type": "order.paid"}
    structured = {"specversion": "1.0", "id": "A-1", "source": "/shop", "type": "order.paid", "data": {"order": 7}}
    kind = {"content-type": "application/cloudevents+json"}

    binary = await gateway.client.post(EVENTS, **github_call(b'{"order": 7}', None, **attributes))
    again = await gateway.client.post(EVENTS, **github_call(json.dumps(structured).encode(), None, **kind))

    assert (binary.status_code, again.status_code) == (202, 200)
    [run] = await gateway.runs()
    assert run["input"] == {"order": 7, "text": None, "all": {"order": 7}}
    del attributes["ce-type"]
    broken = await gateway.client.post(EVENTS, **github_call(b'{"order": 7}', None, **attributes))
    assert is_problem(broken, 400)
    assert "type" in broken.json()["detail"]


async def test_a_form_and_a_text_are_events_too(gateway: Gateway) -> None:
    form, text = {"content-type": "application/x-www-form-urlencoded"}, {"content-type": "text/plain"}
    assert (await gateway.client.post(EVENTS, **github_call(b"order=8", "d-1", **form))).status_code == 202
    assert (await gateway.client.post(EVENTS, **github_call(b"hello", "d-2", **text))).status_code == 202
    assert [(run["input"]["order"], run["input"]["text"]) for run in await gateway.runs()] == [
        (None, "hello"),
        ("8", None),
    ]


async def test_a_skipped_or_unreadable_call_gets_the_reason(gateway: Gateway) -> None:
    assert is_problem(await gateway.client.post(PICKY, data={"n": "1"}), 415)
    for content, delivery in ((b'{"n": 1}', "d-1"), (b'{"n": "x"', "d-2"), (b'{"n": 2}', "d-3"), (b'{"n": 2}', "d-3")):
        await gateway.client.post(PICKY, **github_call(content, delivery))

    record = await record_of(gateway, packages_trigger(gateway, "picky"))

    refused = {"refused.unsupported_body": 1, "refused.invalid_body": 1}
    assert record.counts == {"skipped.when": 1, "accepted": 1, "duplicate": 1, **refused}
    told = [(note["reason"], note["app_id"], note.get("event_id")) for note in record.notes]
    assert told == [("when", "acme", "d-1"), ("invalid_body", "acme", None), ("duplicate", "acme", "d-3")]


async def test_calls_above_the_rate_of_an_app_get_a_retry_after(gateway: Gateway) -> None:
    answers = [await gateway.client.post(LIMITED, **github_call(b"{}", f"d-{number}")) for number in range(4)]
    other = await gateway.client.post(LIMITED.replace("acme", "globex"), **github_call(b"{}", "d-9"))

    assert [answer.status_code for answer in answers] == [202, 202, 202, 429]
    assert is_problem(answers[3], 429)
    assert 1_000 < int(answers[3].headers["retry-after"]) <= 1_200
    assert other.status_code == 202
    assert len(await gateway.runs()) == 4
    record = await record_of(gateway, packages_trigger(gateway, "limited"))
    assert record.counts["refused.rate"] == 1


async def test_a_paused_trigger_asks_its_sender_to_retry_and_hides_from_others(gateway: Gateway) -> None:
    trigger, call = packages_trigger(gateway, "github"), GITHUB.call()
    other_app = GITHUB.path.replace("acme", "globex")
    await gateway.ground.triggers.pause(trigger, Pause(datetime.now(UTC), "ada", "maintenance"), app_id="acme")

    answer = await gateway.client.post(GITHUB.path, **call)

    assert is_problem(answer, 503)
    assert answer.headers["retry-after"] == "60"
    assert "maintenance" not in answer.text
    assert is_problem(await gateway.client.post(GITHUB.path, json={}), 401)
    assert (await gateway.client.post(other_app, **call)).status_code == 202
    metrics = (await gateway.client.get("/metrics")).text
    assert 'unattended_webhook_requests_total{endpoint="webhook",result="paused"} 1.0' in metrics
    record = await record_of(gateway, trigger)
    assert record.counts == {"refused.paused": 1, "refused.missing_header": 1, "accepted": 1}

    async def is_accepted() -> bool:
        return (await gateway.client.post(GITHUB.path, **call)).status_code == 202

    await gateway.ground.triggers.resume(trigger, app_id="acme")
    await wait_until(is_accepted, "what was sent again is taken after the pause", within_s=2)
    assert len(await gateway.runs()) == 2


async def test_a_webhook_made_at_run_time_starts_and_stops_within_a_second(gateway: Gateway) -> None:
    spec = WebhookSpec.model_validate({"name": "made", "verify": GITHUB.verify, "input": {"n": "=n"}})
    trigger, path = Trigger(WORKFLOW, spec, "acme"), f"/hooks/acme/{WORKFLOW}/made"

    async def answers(status: int) -> bool:
        return (await gateway.client.post(path, **GITHUB.call())).status_code == status

    assert await answers(404)
    await gateway.ground.triggers.create(trigger)
    await wait_until(lambda: answers(202), "the new trigger takes a call", within_s=1.5)
    assert await answers(200)
    assert (await gateway.client.post(path.replace("acme", "globex"), **GITHUB.call())).status_code == 404
    await gateway.ground.triggers.remove(trigger.id)
    await wait_until(lambda: answers(404), "the removed trigger takes none", within_s=1.5)

    [run] = await gateway.runs()
    assert (run["app_id"], run["trigger"]["name"], run["input"]) == ("acme", "made", {"n": 1})
