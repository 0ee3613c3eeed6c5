"""Budgets over HTTP: set by operators, read by the keys of their apps."""

from typing import Any

import pytest

from tests.integration.triggers.api.conftest import ApiClient
from tests.integration.triggers.api.test_pages import pages
from triggers.api_keys import ApiKeys

pytestmark = pytest.mark.integration

DAY = {"app_id": "acme", "window": "day", "unit": "usd", "limit": 10}
EACH = {"app_id": "*", "window": "month", "unit": "tokens", "limit": 5_000_000}
THEIRS = {**DAY, "app_id": "globex"}
SHARED = {"workflow": "Sales", "window": "hour", "unit": "usd", "limit": 0.5}
AMOUNTS = ("spent", "reserved", "left", "share", "rejections", "rejections_total")


async def put_budget(client: ApiClient, **fields: Any) -> Any:
    return await client.call("PUT", "/v1/budgets", json=fields)


async def ids(client: ApiClient, query: str = "") -> list[str]:
    return [row["budget_id"] for page in await pages(client, f"/v1/budgets{query}") for row in page]


async def test_a_budget_is_set_read_replaced_and_removed(operator: ApiClient) -> None:
    made = await put_budget(operator, **DAY, timezone="Europe/Berlin", note="trial")
    shown = await operator.get(made.headers["location"])
    replaced = await put_budget(operator, **{**DAY, "limit": 12.5})
    same = await put_budget(operator, **{**DAY, "limit": 12.5})
    removed = await operator.call("DELETE", "/v1/budgets/app:acme/day/usd")
    gone = [await operator.call(method, "/v1/budgets/app:acme/day/usd") for method in ("GET", "DELETE")]

    assert (made.status_code, made.headers["location"]) == (201, "/v1/budgets/app:acme/day/usd")
    assert shown.json() == made.json()
    told = made.json()
    assert {name: told[name] for name in DAY} == DAY
    assert (told["timezone"], told["note"], told["new_runs"], told["updated_by"]) == (
        *("Europe/Berlin", "trial", "hold"),
        "operator (api)",
    )
    assert [(each["for_app_id"], each["spent"], each["left"]) for each in told["standings"]] == [("acme", 0, 10)]
    assert (replaced.status_code, "location" in replaced.headers) == (200, False)
    assert (replaced.json()["limit"], replaced.json()["note"], replaced.json()["timezone"]) == (12.5, "", "UTC")
    assert (same.status_code, same.json()["updated_at"]) == (200, replaced.json()["updated_at"])
    assert removed.status_code == 204
    assert [each.status_code for each in gone] == [404, 404]


async def test_an_apps_key_reads_what_concerns_it_and_changes_nothing(
    acme: ApiClient, operator: ApiClient, keys: ApiKeys
) -> None:
    for each in (DAY, THEIRS, EACH, SHARED):
        assert (await put_budget(operator, **each)).status_code == 201

    assert {*await ids(acme)} <= {"app:acme/day/usd", "app:*/month/tokens", "workflow:Sales/hour/usd"}
    assert {*await ids(operator)} >= {"app:acme/day/usd", "app:globex/day/usd", "workflow:Sales/hour/usd"}
    assert "app:globex/day/usd" not in await ids(operator, "?app_id=acme")
    assert (await acme.get("/v1/budgets?app_id=globex")).status_code == 403
    assert (await acme.get("/v1/budgets/app:acme/day/usd")).status_code == 200
    assert (await acme.get("/v1/budgets/app:*/month/tokens")).status_code == 200
    unseen = [await acme.get(f"/v1/budgets/{name}") for name in ("app:globex/day/usd", "app:nobody/day/usd")]
    assert [each.status_code for each in unseen] == [404, 404]
    assert unseen[0].json() == unseen[1].json()
    reader = ApiClient(acme.gateway, await keys.create("auditor", None, access="read"))
    for client, said in ((acme, "for the app acme alone"), (reader, "may only read")):
        for answer in (await put_budget(client, **DAY), await client.call("DELETE", "/v1/budgets/app:acme/day/usd")):
            assert (answer.status_code, said in answer.json()["detail"]) == (403, True)
    assert (await reader.get("/v1/budgets/app:globex/day/usd")).status_code == 200


async def test_the_share_of_others_in_a_shared_budget_is_shown_to_no_app(acme: ApiClient, operator: ApiClient) -> None:
    await put_budget(operator, **SHARED)
    [shared] = (await acme.get("/v1/budgets")).json()["items"]
    [of_all] = (await operator.get("/v1/budgets")).json()["items"]
    one = (await acme.get("/v1/budgets/workflow:Sales/hour/usd")).json()["standings"][0]

    assert {name: shared[name] for name in AMOUNTS} == dict.fromkeys(AMOUNTS)
    assert {name: one[name] for name in AMOUNTS} == dict.fromkeys(AMOUNTS)
    assert (shared["exhausted"], shared["limit"], shared["window_end"]) == (False, 0.5, of_all["window_end"])
    assert (of_all["spent"], of_all["left"]) == (0, 0.5)


async def test_many_budgets_come_in_pages_in_the_order_of_their_ids(operator: ApiClient) -> None:
    for number in range(7):
        await put_budget(operator, **{**DAY, "app_id": f"app-{number}"})

    found = await pages(operator, "/v1/budgets?limit=3")

    assert [len(page) for page in found] == [3, 3, 1]
    assert [row["budget_id"] for page in found for row in page] == [f"app:app-{n}/day/usd" for n in range(7)]


async def test_names_of_all_sorts_have_an_address(operator: ApiClient) -> None:
    for name in ("a/b c", "日本", "50%", "../x", "acme/workflow:y", "?a=b#c"):
        made = await put_budget(operator, **{**DAY, "app_id": name})
        assert made.status_code == 201, made.text
        shown = await operator.get(made.headers["location"])
        assert (shown.status_code, shown.json()["app_id"]) == (200, name)
        assert (await operator.call("DELETE", made.headers["location"])).status_code == 204


async def test_an_invalid_budget_is_reported_field_by_field(operator: ApiClient) -> None:
    for fields, field, said in (
        ({"window": "fortnight"}, "window", "must be 'hour', 'day'"),
        ({"limit": -1}, "limit", "must be a number from 0 on"),
        ({"limit": "10"}, "limit", "must be a number from 0 on"),
        ({"unit": "tokens", "limit": 1.5}, "limit", "must be a whole number of tokens"),
        ({"app_id": None}, "app_id", "is required unless a workflow is given"),
        ({"timezone": "berlin"}, "timezone", "did you mean Europe/Berlin?"),
        ({"soft": True, "pause_triggers": True}, "pause_triggers", "a soft budget only warns"),
        ({"usd": 10}, "usd", "is not a field here"),
    ):
        answer = await put_budget(operator, **{**DAY, **fields})
        assert (answer.status_code, list(answer.json()["errors"])) == (422, [field]), answer.text
        assert said in answer.json()["errors"][field], answer.text
