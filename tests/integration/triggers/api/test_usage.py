"""Usage over HTTP: summed by what a caller asks for, page by page, and never another app's."""

import csv
import io
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounting.ledger.ledger_rows import COLLECTION
from accounting.totals.roll_up import RollUp
from accounting.totals.usage_query import UsageFilter, usage_totals
from accounting.usage import UsageTotals
from tests.integration.triggers.api.conftest import ApiClient
from tests.integration.triggers.api.test_pages import pages
from tests.integration.triggers.gateway_server import Gateway
from tests.integration.usage_rows import UsedCalls, days, insert_usage
from triggers.api import usage_rows
from triggers.api.paging import Paging, make_cursor

pytestmark = pytest.mark.integration


async def rows(client: ApiClient, query: str = "") -> list[dict[str, Any]]:
    return [row for page in await pages(client, f"/v1/usage{query}") for row in page]


async def test_a_row_has_all_that_the_command_shows(gateway: Gateway, operator: ApiClient) -> None:
    await insert_usage(
        gateway.ground.database,
        [
            UsedCalls(),
            UsedCalls(status="estimated"),
            UsedCalls(status="missing"),
            UsedCalls(model="local"),
            UsedCalls("globex", model="local"),
        ],
    )

    acme, globex = await rows(operator)

    assert acme == {
        "app_id": "acme",
        "calls": 4,
        "input_tokens": 300,
        "cached_input_tokens": 150,
        "cache_write_tokens": 0,
        "output_tokens": 30,
        "reasoning_tokens": 0,
        "cost_usd": 0.00024,
        "missing": 1,
        "estimated": 1,
        "unpriced": 1,
    }
    assert (globex["app_id"], globex["cost_usd"], globex["unpriced"]) == ("globex", None, 1)


async def test_filters_and_keys_narrow_and_split_the_sums(gateway: Gateway, operator: ApiClient) -> None:
    at = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
    await insert_usage(
        gateway.ground.database,
        [
            UsedCalls(),
            UsedCalls(agent="Clerk", trigger_type="webhook"),
            UsedCalls(model="local", at=at),
            UsedCalls(workflow="Orders", at=at + timedelta(hours=1)),
            UsedCalls("globex"),
        ],
    )

    for query, expected in {
        "by=model&app_id=acme": [("gpt", 3), ("local", 1)],
        "by=agent": [("Clerk", 1), ("Writer", 4)],
        "by=trigger_type&workflow=Digest": [("schedule", 3), ("webhook", 1)],
        "by=day": [("2026-03-01", 4), ("2026-03-02", 1)],
        "by=hour&since=2026-03-01T23:00:00Z": [("2026-03-01T23:00Z", 1), ("2026-03-02T00:00Z", 1)],
        "by=hour&since=2026-03-01T23:31:00Z": [("2026-03-02T00:00Z", 1)],
        "by=provider&until=2026-03-01T23:30:00Z&agent=Writer&provider=openai": [("openai", 2)],
        "by=app_id&by=day&by=model&model=local": [("acme", 1)],
        "by=workflow&app_id=nobody": [],
        "by=day&since=2027-01-01T00:00:00Z": [],
    }.items():
        key = query.partition("=")[2].partition("&")[0]
        assert [(row[key], row["calls"]) for row in await rows(operator, f"?{query}")] == expected, query


async def test_an_apps_key_sees_the_usage_of_its_app_alone(gateway: Gateway, acme: ApiClient) -> None:
    await insert_usage(gateway.ground.database, [UsedCalls(), UsedCalls("globex", model="secret")])

    assert [row["app_id"] for row in await rows(acme)] == ["acme"]
    assert [row["model"] for row in await rows(acme, "?by=model&app_id=acme")] == ["gpt"]
    assert (await acme.get("/v1/usage?app_id=globex")).status_code == 403


@pytest.mark.parametrize("rolled_up", [False, True])
async def test_every_row_is_on_one_page_whatever_is_added_meanwhile(
    gateway: Gateway, operator: ApiClient, rolled_up: bool
) -> None:
    database = gateway.ground.database
    apps = ["acme", "globex", "日本"]
    await insert_usage(database, [used for app in apps for used in days(28, app_id=app)])
    if rolled_up:
        await RollUp(database).run_pass(Counter())

    found = await pages(operator, "/v1/usage?by=app_id&by=day&limit=11")

    assert [len(page) for page in found] == [11] * 7 + [7]
    read = [(row["day"], row["app_id"]) for page in found for row in page]
    assert read == sorted(read)
    assert len({*read}) == 28 * 3
    by_hour = await rows(operator, "?by=hour&limit=10")
    assert [row["calls"] for row in by_hour] == [3] * 28
    assert await rows(operator, "?since=9999-12-31T23:30:00Z") == []


async def test_a_page_is_read_without_the_pieces_before_it(gateway: Gateway, operator: ApiClient) -> None:
    await insert_usage(gateway.ground.database, days(28))
    first = (await operator.get("/v1/usage?by=hour&limit=20")).json()
    await gateway.ground.database[COLLECTION].delete_many({"at": {"$lt": datetime(2026, 1, 20, tzinfo=UTC)}})

    rest = (await operator.get(f"/v1/usage?by=hour&limit=20&cursor={first['next']}")).json()

    assert [row["hour"][8:10] for row in rest["items"]] == [str(day) for day in range(21, 29)]
    assert rest["next"] is None


async def test_years_without_a_call_are_not_asked_about_one_by_one(
    gateway: Gateway, operator: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_ago = datetime(2016, 1, 1, 5, 30, tzinfo=UTC)
    await insert_usage(
        gateway.ground.database,
        [UsedCalls(at=long_ago), UsedCalls("globex"), UsedCalls(at=long_ago + timedelta(days=3000))],
    )
    await RollUp(gateway.ground.database).run_pass(Counter())
    asked: list[UsageFilter] = []

    async def noted_usage_totals(database: Any, keys: Any, wanted: UsageFilter) -> list[UsageTotals]:
        asked.append(wanted)
        return await usage_totals(database, keys, wanted)

    monkeypatch.setattr(usage_rows, "usage_totals", noted_usage_totals)

    found = await rows(operator, "?by=hour&app_id=acme&since=2016-01-01T05:15:00Z")

    assert [row["hour"] for row in found] == ["2016-01-01T05:00Z", "2024-03-19T05:00Z"]
    assert len(asked) == 2


async def test_a_page_may_be_csv_that_no_spreadsheet_calculates(gateway: Gateway, operator: ApiClient) -> None:
    await insert_usage(
        gateway.ground.database, [UsedCalls("=cmd|' /C calc'!A0"), UsedCalls("acme,inc"), UsedCalls("x", model="local")]
    )

    answer = await operator.get("/v1/usage?limit=2", headers={"accept": "text/csv"})
    after = await operator.get(answer.links["next"]["url"], headers={"accept": "text/csv;q=0.9, */*;q=0.1"})

    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    found = [*csv.DictReader(io.StringIO(answer.text))]
    assert [row["app_id"] for row in found] == ["'=cmd|' /C calc'!A0", "acme,inc"]
    assert (found[0]["calls"], found[0]["input_tokens"]) == ("1", "100")
    [last] = csv.DictReader(io.StringIO(after.text))
    assert (last["app_id"], last["cost_usd"], "next" in after.links) == ("x", "", False)


async def test_an_impossible_query_is_reported_field_by_field(acme: ApiClient) -> None:
    for query, field, said in (
        ("by=fortnight", "by", "must be one to 3 of app_id, workflow"),
        ("by=run_id", "by", "must be one to 3 of app_id"),
        ("by=day&by=app_id&by=model&by=agent", "by", "must be one to 3 of app_id"),
        ("since=yesterday", "since", "a time with an offset"),
        ("limit=0", "limit", "whole number from 1"),
    ):
        answer = await acme.get(f"/v1/usage?{query}")
        assert (answer.status_code, list(answer.json()["errors"])) == (422, [field]), answer.text
        assert said in answer.json()["errors"][field], answer.text


async def test_a_cursor_of_other_keys_or_of_ones_own_making_is_none(gateway: Gateway, acme: ApiClient) -> None:
    await insert_usage(gateway.ground.database, [UsedCalls(agent="A"), UsedCalls(agent="B")])
    cursor = (await acme.get("/v1/usage?by=agent&by=model&limit=1")).json()["next"]

    assert (await acme.get(f"/v1/usage?by=agent&by=model&cursor={cursor}")).status_code == 200
    assert (await acme.get(f"/v1/usage?by=model&by=agent&cursor={cursor}")).status_code == 404
    for position in ([], ["day"], ["day", 1], ["hour", "2026-01-01"], {"day": 1}):
        assert (await acme.get(f"/v1/usage?by=day&cursor={forge_cursor(position)}")).status_code == 404, position
    for time in ("x", "9999-12-31", "0001-01-01", "2026-01-01T00:00+23:59"):
        answer = await acme.get(f"/v1/usage?by=day&cursor={forge_cursor(['day', time])}")
        assert answer.status_code == 200, answer.text


def forge_cursor(position: Any) -> str:
    return make_cursor(Paging(100, None, "/v1/usage", (("by", "day"),)), position)
