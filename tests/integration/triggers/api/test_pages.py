"""Pages of runs and turns: each entry once, though new ones arrive meanwhile."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.triggers.api.conftest import ApiClient
from tests.integration.triggers.gateway_server import Gateway
from triggers.api.paging import Paging, make_cursor

pytestmark = pytest.mark.integration


async def pages(client: ApiClient, path: str) -> list[list[dict[str, Any]]]:
    """Followed by the `Link` header."""
    found, address = [], path
    while address:
        answer = await client.get(address)
        assert answer.status_code == 200, answer.text
        found.append(answer.json()["items"])
        link = answer.links.get("next", {}).get("url")
        assert (link is None) == (answer.json()["next"] is None)
        address = link or ""
    return found


async def test_runs_added_between_two_pages_move_nothing(acme: ApiClient) -> None:
    there = [await acme.start() for _ in range(25)]
    reading = True

    async def add() -> None:
        while reading:
            await acme.start()

    adding = asyncio.create_task(add())
    read = [run["run_id"] for page in await pages(acme, "/v1/runs?limit=4") for run in page]
    reading = False
    await adding

    assert len(read) == len(set(read))
    assert set(there) <= set(read)
    assert read == sorted(read, reverse=True)


async def test_runs_of_one_moment_have_a_stable_order(gateway: Gateway, acme: ApiClient) -> None:
    there = {await acme.start() for _ in range(7)}
    await gateway.ground.store.runs.update_many({}, {"$set": {"created_at": datetime(2026, 1, 1, tzinfo=UTC)}})

    found = await pages(acme, "/v1/runs?limit=2&state=queued&trigger=api")

    assert [len(page) for page in found] == [2, 2, 2, 1]
    assert {run["run_id"] for page in found for run in page} == there


async def test_the_last_page_that_is_full_has_no_next_one(acme: ApiClient) -> None:
    for _ in range(4):
        await acme.start()

    assert [len(page) for page in await pages(acme, "/v1/runs?limit=2")] == [2, 2]
    assert [len(page) for page in await pages(acme, "/v1/runs")] == [4]


async def test_a_cursor_is_of_one_listing_with_one_filter(acme: ApiClient, globex: ApiClient) -> None:
    for _ in range(2):
        await acme.start()
    theirs = await globex.start()
    cursor = (await acme.get("/v1/runs?limit=1&state=queued")).json()["next"]

    assert (await acme.get(f"/v1/runs?limit=9&state=queued&cursor={cursor}")).status_code == 200
    wrong = [
        f"cursor={cursor}",
        f"state=failed&cursor={cursor}",
        "cursor=",
        "cursor=x",
        f"state=queued&cursor={cursor[:-3]}",
    ]
    for query in wrong:
        answer = await acme.get(f"/v1/runs?{query}")
        assert (answer.status_code, list(answer.json()["errors"])) == (404, ["cursor"]), query
    seen = (await globex.get(f"/v1/runs?state=queued&cursor={cursor}")).json()["items"]
    assert {run["run_id"] for run in seen} <= {theirs}


async def test_a_forged_cursor_is_no_error_of_ours(acme: ApiClient) -> None:
    """Its digest is no secret."""
    odd: list[Any] = [[], [1], ["x", 1], [1, 2], [1, {"$gt": ""}], [2**52, "x"], [-(2**52), "x"], {"a": 1}, 5, None]
    for position in [*odd, [1e5, "x"], [True, "x"], [2**70, "x"]]:
        answer = await acme.get(f"/v1/runs?cursor={forge_cursor(position)}")
        assert (answer.status_code, list(answer.json()["errors"])) == (404, ["cursor"]), position
    assert (await acme.get(f"/v1/runs?cursor={forge_cursor([1, 'x'])}")).json() == {"items": [], "next": None}


def forge_cursor(position: Any) -> str:
    return make_cursor(Paging(100, None, "/v1/runs", ()), position)


async def test_turns_come_in_their_order_and_only_those_that_count(gateway: Gateway, acme: ApiClient) -> None:
    run_id = await acme.start()
    turn = {"run_id": run_id, "app_id": "acme", "token": 1, "agent": "Clerk", "text": "hello"}
    await gateway.ground.store.turns.insert_many(
        [{"_id": f"{run_id}:{number}", "number": number, **turn} for number in range(1, 8)]
    )
    await gateway.ground.store.runs.update_one({"_id": run_id}, {"$set": {"turn": 6}})

    found = await pages(acme, f"/v1/runs/{run_id}/turns?limit=4")

    assert [[each["number"] for each in page] for page in found] == [[1, 2, 3, 4], [5, 6]]
    assert found[0][0] == {"run_id": run_id, "app_id": "acme", "number": 1, "agent": "Clerk", "text": "hello"}
    assert [len(page) for page in await pages(acme, f"/v1/runs/{run_id}/turns")] == [6]


async def test_a_page_of_large_turns_ends_early(gateway: Gateway, acme: ApiClient) -> None:
    run_id = await acme.start()
    turn = {"run_id": run_id, "app_id": "acme", "token": 1, "agent": "Clerk", "text": "x" * 5_000_000}
    for number in range(1, 6):
        await gateway.ground.store.turns.insert_one({"_id": f"{run_id}:{number}", "number": number, **turn})
    await gateway.ground.store.runs.update_one({"_id": run_id}, {"$set": {"turn": 5}})

    found = await pages(acme, f"/v1/runs/{run_id}/turns")

    assert [[each["number"] for each in page] for page in found] == [[1, 2], [3, 4], [5]]
