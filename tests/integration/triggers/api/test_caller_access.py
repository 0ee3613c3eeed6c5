"""Who may call /v1: keys of one app and of all, to read and to write, revoked, expired, and too busy ones."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.triggers.api.conftest import ApiClient
from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.gateway_server import Gateway, serving
from triggers.api_keys import ApiKeys, parse_rate
from triggers.gateway.gateway_app import GatewayOptions
from triggers.token_bucket import TokenRate

pytestmark = pytest.mark.integration


async def operations(gateway: Gateway) -> list[tuple[str, str]]:
    """All that the description names, with words in the place of names."""
    document = (await gateway.client.get("/openapi.json")).json()
    return [
        (method.upper(), path.replace("{", "").replace("}", ""))
        for path, methods in document["paths"].items()
        for method in methods
    ]


async def test_every_operation_refuses_a_call_without_a_key(gateway: Gateway) -> None:
    found = await operations(gateway)

    assert ("POST", "/v1/runs/run_id/cancel") in found
    for method, path in found:
        answer = await gateway.client.request(method, path)
        assert answer.status_code == 401, (method, path)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_body_without_a_valid_key_is_not_read(gateway: Gateway) -> None:
    answer = await gateway.client.post("/v1/runs", content=b"{" * 5_000)

    assert answer.status_code == 401


async def test_a_key_to_read_changes_nothing(gateway: Gateway, keys: ApiKeys, acme: ApiClient) -> None:
    reader = ApiClient(gateway, await keys.create("dashboard", "acme", access="read"))
    run_id = await acme.start()

    for method, path in await operations(gateway):
        answer = await reader.call(method, path)
        assert (answer.status_code == 403) == (method != "GET"), (method, path, answer.text)
    assert (await reader.get(f"/v1/runs/{run_id}")).json()["state"] == "queued"


@pytest.mark.design("D4-76")
async def test_another_apps_run_is_as_unknown_as_one_that_never_was(gateway: Gateway, keys: ApiKeys) -> None:
    acme, globex = [ApiClient(gateway, await keys.create(app, app, may=("approve",))) for app in ("acme", "globex")]
    theirs = await globex.start()
    document = (await gateway.client.get("/openapi.json")).json()
    routes = [
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if path.startswith("/v1/runs/{run_id}")
    ]

    assert len(routes) == 5
    for method, path in routes:
        body: Any = {"json": {"question": 1, "message": "yes"}} if path.endswith("/answer") else {}
        seen = await acme.call(method, path.format(run_id=theirs), **body)
        unseen = await acme.call(method, path.format(run_id="run_none"), **body)
        assert (seen.status_code, seen.json()) == (404, unseen.json()), (method, path)
        assert (await globex.call(method, path.format(run_id=theirs), **body)).status_code in (200, 409)


async def test_a_key_of_one_app_lists_and_starts_runs_of_that_app_alone(acme: ApiClient, globex: ApiClient) -> None:
    ours, _theirs = await acme.start(), await globex.start()

    assert [run["run_id"] for run in (await acme.get("/v1/runs")).json()["items"]] == [ours]
    assert [run["run_id"] for run in (await acme.get("/v1/runs?app_id=acme")).json()["items"]] == [ours]
    assert (await acme.get("/v1/runs?app_id=globex")).status_code == 403
    assert (await acme.post("/v1/runs", {"workflow": "Sales", "app_id": "globex"})).status_code == 403


async def test_a_key_of_all_apps_names_the_one_it_means(operator: ApiClient, acme: ApiClient) -> None:
    theirs = await acme.start()

    nameless = await operator.post("/v1/runs", {"workflow": "Sales"})
    assert (nameless.status_code, list(nameless.json()["errors"])) == (422, ["app_id"])
    ours = await operator.start(app_id="globex")
    assert [run["run_id"] for run in (await operator.get("/v1/runs")).json()["items"]] == [ours, theirs]
    assert [run["app_id"] for run in (await operator.get("/v1/runs?app_id=globex")).json()["items"]] == ["globex"]
    assert (await operator.get(f"/v1/runs/{theirs}")).status_code == 200


async def test_a_revoked_key_is_refused_within_two_seconds(keys: ApiKeys, acme: ApiClient) -> None:
    assert (await acme.get("/v1/runs")).status_code == 200
    [key] = await keys.list()
    await keys.revoke(key.id)

    async def is_refused() -> bool:
        return (await acme.get("/v1/runs")).status_code == 401

    await wait_until(is_refused, "the key to be refused", within_s=2)


async def test_a_key_is_good_until_it_expires(gateway: Gateway, keys: ApiKeys) -> None:
    soon, past = datetime.now(UTC) + timedelta(seconds=1.5), datetime.now(UTC) - timedelta(seconds=1)
    guest = ApiClient(gateway, await keys.create("guest", "acme", expires_at=soon))
    late = ApiClient(gateway, await keys.create("late", "acme", expires_at=past))

    assert (await guest.get("/v1/runs")).status_code == 200
    assert (await late.get("/v1/runs")).status_code == 401

    async def is_refused() -> bool:
        return (await guest.get("/v1/runs")).status_code == 401

    await wait_until(is_refused, "the key to expire", within_s=4)


async def test_a_key_that_calls_too_often_gets_a_retry_after(gateway: Gateway, keys: ApiKeys, acme: ApiClient) -> None:
    slow = ApiClient(gateway, await keys.create("slow", "acme", rate=parse_rate("3/m")))

    answers = [await slow.get("/v1/runs") for _ in range(5)]

    assert [each.status_code for each in answers] == [200, 200, 200, 429, 429]
    assert [each.headers["ratelimit-remaining"] for each in answers] == ["2", "1", "0", "0", "0"]
    assert answers[0].headers["ratelimit-limit"] == "3"
    assert 15 <= int(answers[3].headers["retry-after"]) <= 20
    assert int(answers[2].headers["ratelimit-reset"]) <= 60
    assert answers[3].json()["status"] == 429
    assert (await acme.get("/v1/runs")).status_code == 200


async def test_every_answer_to_a_key_carries_its_rate_limit(gateway: Gateway, keys: ApiKeys) -> None:
    client = ApiClient(gateway, await keys.create("shop", "acme", rate=parse_rate("50/h")))
    answers = [
        await client.get("/v1/triggers"),
        await client.post("/v1/runs", {"workflow": "Sales"}),
        await client.post("/v1/runs", {}),
        await client.get("/v1/nothing"),
        await client.call("POST", "/v1/runs", content=b"{"),
    ]

    assert [each.status_code for each in answers] == [200, 202, 422, 404, 415]
    assert [each.headers["ratelimit-limit"] for each in answers] == ["50"] * 5
    assert [each.headers["ratelimit-remaining"] for each in answers] == ["49", "48", "47", "46", "45"]
    assert 300 < int(answers[4].headers["ratelimit-reset"]) <= 360
    assert "ratelimit-limit" not in (await gateway.client.get("/v1/runs")).headers


async def test_guessing_callers_are_slowed_down_and_good_keys_are_not(
    fresh_gateway: Gateway,
) -> None:
    key = await ApiKeys(fresh_gateway.ground.database).create("acme shop", "acme")
    rate = TokenRate(per_s=0.01, burst=21)  # one of them is for the good key's first call
    async with serving(fresh_gateway.ground, options=GatewayOptions(unknown_keys=rate)) as gateway:
        acme = ApiClient(gateway, key)
        assert (await acme.get("/v1/runs")).status_code == 200

        guesses = (ApiClient(gateway, f"ua_{number:043}").get("/v1/runs") for number in range(30))
        answers = await asyncio.gather(*guesses)

        statuses = [each.status_code for each in answers]
        assert (statuses.count(401), statuses.count(429)) == (20, 10)
        assert {int(each.headers["retry-after"]) > 50 for each in answers if each.status_code == 429} == {True}
        assert (await acme.get("/v1/runs")).status_code == 200


async def test_when_a_key_was_last_used_is_kept_to_the_minute(keys: ApiKeys, acme: ApiClient) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    await asyncio.gather(*(acme.get("/v1/runs") for _ in range(5)))

    async def used_at() -> datetime | None:
        return (await keys.list())[0].last_used_at

    async def is_noted() -> bool:
        return await used_at() is not None

    await wait_until(is_noted, "the use to be noted", within_s=5)
    first = await used_at()
    assert first is not None
    assert before < first < datetime.now(UTC)
    await acme.get("/v1/runs")
    assert await used_at() == first
