"""/v1/triggers: made, edited, paused, fired and removed over HTTP, each app within its own."""

import asyncio
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from prometheus_client import CollectorRegistry

from tests.integration.triggers.api.conftest import ApiClient
from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.gateway_server import Gateway, sign_as_standard
from triggers.schedule.schedule_metrics import ScheduleMetrics
from triggers.schedule.scheduler import Scheduler

pytestmark = pytest.mark.integration

FORM: dict[str, Any] = {"name": "ask", "type": "form_submit", "inputs": {"question": {"required": True}}}
HOURLY: dict[str, Any] = {"name": "hourly", "type": "schedule", "cron": "0 * * * *"}
ASK = "/v1/triggers/Sales/ask"
PAID = "/v1/triggers/Sales/paid"


async def create_trigger(client: ApiClient, spec: dict[str, Any] = FORM, **body: Any) -> httpx.Response:
    answer = await client.post("/v1/triggers", {"workflow": "Sales", "spec": spec, **body})
    assert answer.status_code == 201, answer.text
    return answer


async def list_triggers(client: ApiClient, **query: Any) -> list[str]:
    """All pages."""
    ids: list[str] = []
    while True:
        page = (await client.get("/v1/triggers", params=query)).json()
        ids += [each["trigger_id"] for each in page["items"]]
        if page["next"] is None:
            return ids
        query["cursor"] = page["next"]


def errors(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return dict(answer.json()["errors"])


async def test_a_trigger_is_made_read_edited_and_removed(acme: ApiClient) -> None:
    made = await create_trigger(acme)
    read = await acme.get(made.headers["location"])
    edited = await acme.call(
        "PUT", ASK, json={"spec": {**FORM, "title": "Ask us"}}, headers={"if-match": read.headers["etag"]}
    )
    again = await acme.call("PUT", ASK, json={"spec": FORM, "revision": 2})
    removed = await acme.call("DELETE", ASK)

    assert made.headers["location"] == f"{ASK}?app_id=acme"
    assert (made.headers["etag"], read.headers["etag"], edited.headers["etag"]) == ('"1"', '"1"', '"2"')
    assert made.json() == read.json()
    assert (made.json()["app_id"], made.json()["origin"], made.json()["state"]) == ("acme", "api", "active")
    assert (edited.json()["spec"]["title"], again.json()["revision"]) == ("Ask us", 3)
    assert "title" not in again.json()["spec"]
    assert (removed.status_code, removed.content) == (204, b"")
    assert (await acme.get(ASK)).status_code == 404
    assert (await acme.call("DELETE", ASK)).status_code == 404


async def test_no_edit_is_undone_unseen(acme: ApiClient) -> None:
    await create_trigger(acme)

    async def edit(number: int) -> int:
        body = {"spec": {**FORM, "title": str(number)}}
        return (await acme.call("PUT", ASK, json=body, headers={"if-match": '"1"'})).status_code

    statuses = await asyncio.gather(*(edit(number) for number in range(10)))
    unsaid = await acme.call("PUT", ASK, json={"spec": FORM})
    unreadable = await acme.call("PUT", ASK, json={"spec": FORM}, headers={"if-match": "W/x"})
    both = await acme.call("PUT", ASK, json={"spec": FORM, "revision": 1}, headers={"if-match": '"2"'})
    whatever = await acme.call("PUT", ASK, json={"spec": FORM}, headers={"if-match": "*"})
    stale = await acme.call("DELETE", ASK, headers={"if-match": '"2"'})

    assert sorted(statuses) == [200] + [412] * 9
    assert (unsaid.status_code, whatever.status_code) == (428, 200)
    assert (unreadable.status_code, both.status_code) == (412, 412)
    assert (stale.status_code, "revision 3 now" in stale.json()["detail"]) == (412, True)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"workflow", "spec"}),
        ({"workflow": "Sales", "spec": []}, {"spec"}),
        ({"workflow": "Sales", "spec": {}}, {"type"}),
        ({"workflow": "Sales", "spec": {"type": "schedule"}}, {"name"}),
        ({"workflow": "Sales", "spec": {**HOURLY, "cron": "61 * * * *"}}, {"cron"}),
        ({"workflow": "Sales", "spec": {**HOURLY, "timezone": "Mars", "colour": "red"}}, {"timezone", "colour"}),
        ({"workflow": "Sales", "spec": {**HOURLY, "apps": ["globex"]}}, {"apps"}),
        ({"workflow": "Sales", "spec": {**HOURLY, "input": {"n": 2**70}}}, {"spec"}),
        (
            {
                "workflow": "Sales",
                "spec": {**HOURLY, "ui_responses": {"pay": [{"when": "amount < `5`", "answer": {}}]}},
            },
            {"ui_responses.pay[0].when"},
        ),
        ({"workflow": "Sales", "spec": HOURLY, "colour": "red"}, {"colour"}),
    ],
)
async def test_what_is_no_trigger_is_refused_with_its_fields(
    acme: ApiClient, body: dict[str, Any], fields: set[str]
) -> None:
    answer = await acme.post("/v1/triggers", body)

    assert set(errors(answer)) == fields
    assert await list_triggers(acme, type="schedule") == []


async def test_a_name_is_given_once_and_an_operators_key_names_the_app(acme: ApiClient, operator: ApiClient) -> None:
    await create_trigger(acme)

    twice = await acme.post("/v1/triggers", {"workflow": "Sales", "spec": FORM})
    packages = await acme.post("/v1/triggers", {"workflow": "Sales", "spec": {**FORM, "name": "paid"}})
    nowhere = await acme.post("/v1/triggers", {"workflow": "Nowhere", "spec": FORM})
    nobodys = await operator.post("/v1/triggers", {"workflow": "Sales", "spec": FORM})
    elsewhere = await create_trigger(operator, {**FORM, "name": "paid"}, app_id="initech")
    two = await create_trigger(operator, app_id="initech")
    whose = await operator.get(ASK)

    assert (nowhere.status_code, list(nowhere.json()["errors"])) == (404, ["workflow"])
    assert (twice.status_code, packages.status_code, whose.status_code) == (409, 409, 409)
    assert "is needed" in errors(nobodys)["app_id"]
    assert elsewhere.json()["trigger_id"] == "Sales/paid@initech"
    assert (await operator.get(two.headers["location"])).json()["app_id"] == "initech"


async def test_the_id_in_a_listing_is_an_address_too(acme: ApiClient, operator: ApiClient) -> None:
    await create_trigger(acme)
    await create_trigger(operator, app_id="a/c me@店")
    await create_trigger(operator, {**FORM, "name": "paid"}, app_id="initech")

    for id_ in [each for each in await list_triggers(operator) if "@" in each]:
        for path in (quote(id_), quote(id_, safe="")):
            read = await operator.get(f"/v1/triggers/{path}")
            assert (read.status_code, read.json()["trigger_id"]) == (200, id_), path
        order = await operator.post(f"/v1/triggers/{quote(id_)}/pause", {})
        assert (order.json()["trigger_id"], order.json()["changed"]) == (id_, True)
    by_id, by_app = await acme.get(f"{ASK}@acme"), await acme.get(f"{ASK}?app_id=acme")
    assert by_id.json() == by_app.json() == (await operator.get(f"{ASK}@acme")).json()
    edited = await acme.call("PUT", f"{ASK}@acme", json={"spec": FORM, "revision": 1})
    assert (edited.status_code, edited.json()["revision"]) == (200, 2)
    assert (await acme.call("DELETE", f"{ASK}@acme")).status_code == 204


async def test_an_id_is_of_one_app_and_of_no_packages_trigger(acme: ApiClient, operator: ApiClient) -> None:
    await create_trigger(operator, app_id="globex")

    for client, path in (
        (acme, f"{ASK}@globex"),
        (operator, f"{ASK}@globex?app_id=acme"),
        (operator, f"{ASK}@never"),
        (operator, f"{ASK}@"),
        (operator, f"{PAID}@acme"),
    ):
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["detail"]) == (404, "there is no such trigger"), path
        assert (await client.call("DELETE", path)).status_code == 404
    assert (await operator.get(f"{ASK}@globex")).status_code == 200


async def test_what_is_the_operators_is_not_for_an_apps_key(acme: ApiClient, operator: ApiClient) -> None:
    secret = {"name": "h", "type": "webhook", "verify": {"scheme": "github", "secret": "env:GITHUB_SECRET"}}
    stream = {"name": "s", "type": "database_condition", "database": "shop"}
    for spec in (secret, stream):
        body = {"workflow": "Sales", "spec": spec, "app_id": "acme"}
        refused, made = await acme.post("/v1/triggers", body), await operator.post("/v1/triggers", body)
        assert (refused.status_code, made.status_code) == (403, 201)


async def test_another_apps_trigger_is_as_unknown_as_one_that_never_was(
    gateway: Gateway, acme: ApiClient, globex: ApiClient
) -> None:
    await create_trigger(globex)
    bodies = {"PUT": {"spec": FORM, "revision": 1}, "POST": {}}
    document = (await gateway.client.get("/openapi.json")).json()
    routes = [
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if path.startswith("/v1/triggers/{workflow}/{name}")
    ]

    for method, path in routes:
        body = bodies.get(method)
        if path.endswith("/backfill"):
            body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
        for name, query in (("ask", {}), ("never", {}), ("ask", {"app_id": "globex"})):
            answer = await acme.call(method, path.format(workflow="Sales", name=name), json=body, params=query)
            assert answer.status_code == (403 if query else 404), (method, path, answer.text)
    assert len(routes) == 7
    assert "Sales/ask@globex" not in await list_triggers(acme)
    assert (await globex.get(ASK)).json()["revision"] == 1


async def test_an_app_sees_nothing_of_others_in_what_they_share(acme: ApiClient, operator: ApiClient) -> None:
    await operator.post(f"{PAID}/pause", {"note": "theirs alone"}, params={"app_id": "globex"})

    told = [await acme.get("/v1/triggers"), await acme.get(PAID), await acme.get("/v1/triggers/Sales/locked")]

    for answer in told:
        assert answer.status_code == 200
        assert not {"globex", "theirs alone", "STANDARD_SECRET", "NOT_SET"} & set(answer.text.split('"'))
        assert "NOT_SET" not in answer.text
    assert (await operator.get(PAID)).json()["paused_apps"]["globex"]["note"] == "theirs alone"


async def test_a_pause_is_for_ones_own_app_alone(gateway: Gateway, acme: ApiClient, operator: ApiClient) -> None:
    async def deliver(app_id: str) -> int:
        return (await gateway.client.post(f"/hooks/{app_id}/Sales/paid", **sign_as_standard("{}"))).status_code

    paused = await acme.post(f"{PAID}/pause", {"note": "stocktaking"})
    await wait_until(lambda: _has_status(deliver("acme"), 503), "the pause begins")
    others = await deliver("globex")
    shown = (await acme.get(PAID)).json()
    everybody = await operator.post(f"{PAID}/pause")
    operators_pause = (await acme.get(PAID)).json()["paused"]
    refused = await acme.post(f"{PAID}/resume")
    resumed = await operator.post(f"{PAID}/resume")
    await wait_until(lambda: _has_status(deliver("acme"), 202), "the pause is over")

    assert (paused.json()["app_id"], paused.json()["changed"]) == ("acme", True)
    assert others == 202
    assert (shown["state"], shown["paused"]["by"], shown["paused"]["note"]) == (
        "paused",
        "acme shop (api)",
        "stocktaking",
    )
    assert (everybody.json()["app_id"], refused.status_code, resumed.json()["changed"]) == (None, 409, True)
    assert operators_pause["by"] == "operator"  # the name of the operator's key is hidden from apps
    assert (await acme.post(f"{PAID}/resume")).json()["changed"] is False


async def _has_status(answer: Any, status: int) -> bool:
    return bool(await answer == status)


async def test_an_app_fires_for_itself_and_an_operator_for_all(
    gateway: Gateway, acme: ApiClient, operator: ApiClient
) -> None:
    own = await acme.post(f"{PAID}/fire", {"event": {"order": {"id": 7}}})
    both = await operator.post(f"{PAID}/fire")
    unmapped = await acme.post("/v1/triggers/Sales/lead/fire", {"event": {"email": "nobody"}})
    unnamed = await operator.post("/v1/triggers/Sales/routed/fire")

    assert (own.status_code, [run["app_id"] for run in own.json()["runs"]]) == (202, ["acme"])
    assert sorted(run["app_id"] for run in both.json()["runs"]) == ["acme", "globex"]
    assert (list(errors(unmapped)), list(errors(unnamed))) == (["event"], ["app_id"])
    found = {run["_id"]: run for run in await gateway.runs()}
    assert len(found) == 3
    run = found[own.json()["runs"][0]["run_id"]]
    assert (run["trigger"]["type"], run["input"]["order"]) == ("webhook", 7)


async def test_a_backfill_is_tried_dry_and_repeated_for_nothing(gateway: Gateway, acme: ApiClient) -> None:
    await create_trigger(acme, HOURLY)
    path = "/v1/triggers/Sales/hourly/backfill"
    day = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-01T23:30:00Z"}

    dry = (await acme.post(path, {**day, "dry_run": True})).json()
    before = await gateway.runs()
    first, second = (await acme.post(path, day)).json(), (await acme.post(path, day)).json()
    too_much = await acme.post(path, {**day, "from": "2020-01-01T00:00:00Z"})
    too_early = await acme.post(path, {**day, "from": "0001-01-01T00:00:00Z"})
    no_clock = await acme.post("/v1/triggers/Sales/lead/backfill", day)

    assert (dry["dry_run"], dry["runs"], dry["created"], len(dry["times"])) == (True, 24, None, 24)
    assert before == []
    assert (first["created"], first["there_already"]) == (24, 0)
    assert (second["created"], second["there_already"]) == (0, 24)
    assert [list(errors(each)) for each in (too_much, too_early)] == [["from"], ["from"]]
    assert no_clock.status_code == 409
    assert {run["app_id"] for run in await gateway.runs()} == {"acme"}


async def test_pages_hold_each_trigger_once_though_others_are_made_meanwhile(acme: ApiClient) -> None:
    for number in range(5):
        await create_trigger(acme, {**FORM, "name": f"b{number}"})
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    for number in range(20):
        answer = await acme.get("/v1/triggers", params=query)
        page = answer.json()
        seen += [each["trigger_id"] for each in page["items"]]
        await create_trigger(acme, {**FORM, "name": f"a{number}"})
        if page["next"] is None:
            break
        query["cursor"] = page["next"]

    assert len(seen) == len(set(seen))
    assert {f"Sales/b{number}@acme" for number in range(5)} <= set(seen)
    assert [each for each in seen if "@" not in each] == sorted(each for each in seen if "@" not in each)
    assert (await acme.get("/v1/triggers", params={"app_id": "globex"})).status_code == 403


async def test_a_schedule_that_was_made_over_http_fires_by_itself(gateway: Gateway, acme: ApiClient) -> None:
    await create_trigger(
        acme, {"name": "tick", "type": "schedule", "every": "1s", "overlap": "allow", "input": {"at": "=nominal_at"}}
    )
    scheduler = Scheduler(gateway.ground, metrics=ScheduleMetrics(CollectorRegistry()))
    await scheduler.ensure_indexes()

    async def has_fired() -> bool:
        await scheduler.tick()
        return len(await gateway.runs()) >= 2

    await wait_until(has_fired, "two ticks have fired")
    await acme.post("/v1/triggers/Sales/tick/pause")
    await scheduler.tick()
    paused_at = len(await gateway.runs())
    await acme.call("DELETE", "/v1/triggers/Sales/tick")
    await scheduler.tick()

    runs = await gateway.runs()
    assert len(runs) == paused_at
    assert {(run["app_id"], run["workflow"], run["trigger"]["name"]) for run in runs} == {("acme", "Sales", "tick")}
    assert len({run["input"]["at"] for run in runs}) == len(runs)


async def test_a_webhook_that_was_made_over_http_takes_calls_until_it_is_removed(
    gateway: Gateway, acme: ApiClient
) -> None:
    async def call() -> int:
        return (await gateway.client.post("/hooks/acme/Sales/open", json={"n": 1})).status_code

    assert await call() == 404
    made = await create_trigger(
        acme, {"name": "open", "type": "webhook", "verify": {"scheme": "none"}, "input": {"n": "=n"}}
    )
    await wait_until(lambda: _has_status(call(), 202), "it takes calls")
    await acme.call("DELETE", "/v1/triggers/Sales/open")
    await wait_until(lambda: _has_status(call(), 404), "it takes none")

    assert made.json()["outlook"]["addresses"] == {"acme": "/hooks/acme/Sales/open"}
    assert {(run["app_id"], run["input"]["n"]) for run in await gateway.runs()} == {("acme", 1)}
