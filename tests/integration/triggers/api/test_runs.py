"""Runs over HTTP: started, looked at, cancelled, replayed and answered as the commands do."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.triggers.api.conftest import ApiClient
from tests.integration.triggers.gateway_server import BODY_LIMIT, Gateway
from triggers.api_keys import ApiKeys
from workers.store.run_document import as_json

pytestmark = pytest.mark.integration

LATER = "2031-01-31T09:00:00+01:00"


async def document_of(gateway: Gateway, run_id: str) -> dict[str, Any]:
    found = await gateway.ground.store.find(run_id)
    assert found is not None
    return found


async def update_run(gateway: Gateway, run_id: str, **changes: Any) -> None:
    await gateway.ground.store.runs.update_one({"_id": run_id}, {"$set": changes})


async def test_a_run_is_durable_before_it_is_accepted(gateway: Gateway, acme: ApiClient) -> None:
    order = {"input": {"a": [1, {"b": None}]}, "message": "Go", "user_id": "u1", "chat_id": "c1", "priority": 8}

    answer = await acme.post("/v1/runs", {"workflow": "Sales", **order})

    assert answer.status_code == 202
    run_id = answer.json()["run_id"]
    assert answer.json() == {"run_id": run_id, "status_url": f"/v1/runs/{run_id}"}
    assert answer.headers["location"] == f"/v1/runs/{run_id}"
    assert answer.headers["cache-control"] == "no-store"
    document = await document_of(gateway, run_id)
    assert {name: document[name] for name in order} == order
    assert (document["app_id"], document["state"], document["trigger"]["type"]) == ("acme", "queued", "api")


async def test_failed_calls_of_tools_are_a_number_of_each_run(gateway: Gateway, acme: ApiClient) -> None:
    """Of a list too, which reads no turns; 0 of what an older version accepted."""
    old, failing = await acme.start(), await acme.start()
    await update_run(gateway, failing, failed_tools=3)
    await gateway.ground.store.runs.update_one({"_id": old}, {"$unset": {"failed_tools": 1}})

    listed = {run["run_id"]: run["failed_tools"] for run in (await acme.get("/v1/runs")).json()["items"]}
    single = [(await acme.get(f"/v1/runs/{run_id}")).json()["failed_tools"] for run_id in (old, failing)]

    assert (listed[old], listed[failing]) == (0, 3)
    assert single == [0, 3]


async def test_a_run_of_later_waits_for_its_time(gateway: Gateway, acme: ApiClient) -> None:
    run_id = await acme.start(not_before=LATER)

    assert (await document_of(gateway, run_id))["not_before"] == datetime(2031, 1, 31, 8, tzinfo=UTC)
    assert (await acme.get(f"/v1/runs/{run_id}")).json()["not_before"] == "2031-01-31T08:00:00+00:00"


async def test_without_a_key_of_its_own_each_call_is_a_new_run(acme: ApiClient) -> None:
    assert await acme.start() != await acme.start()


async def test_fifty_identical_calls_at_once_are_one_run(gateway: Gateway, acme: ApiClient) -> None:
    async def call() -> Any:
        return await acme.post(
            "/v1/runs", {"workflow": "Sales", "input": {"n": 1}}, headers={"idempotency-key": "order-7"}
        )

    answers = await asyncio.gather(*(call() for _ in range(50)))

    assert sorted(each.status_code for each in answers) == [200] * 49 + [202]
    assert len({each.text for each in answers}) == 1
    assert len(await gateway.runs()) == 1


async def test_a_key_with_another_body_is_refused_whatever_differs(gateway: Gateway, acme: ApiClient) -> None:
    headers = {"idempotency-key": '"order-7"'}
    first = await acme.post("/v1/runs", {"workflow": "Sales", "input": {"n": 1, "m": 2}}, headers=headers)
    same = await acme.post(
        "/v1/runs",
        {"priority": 5, "app_id": "acme", "input": {"m": 2, "n": 1}, "workflow": "Sales"},
        headers={"idempotency-key": "order-7"},
    )

    assert (first.status_code, same.status_code, same.json()) == (202, 200, first.json())
    for other in ({"input": {"n": 2}}, {"input": {"n": 1, "m": 2}, "priority": 6}, {"message": "x"}):
        answer = await acme.post("/v1/runs", {"workflow": "Sales", **other}, headers=headers)
        assert answer.status_code == 409
        assert list(answer.json()["errors"]) == ["Idempotency-Key"]
    assert len(await gateway.runs()) == 1


async def test_of_many_bodies_with_one_key_at_once_one_is_a_run(gateway: Gateway, acme: ApiClient) -> None:
    async def call(number: int) -> Any:
        body = {"workflow": "Sales", "input": {"n": number % 5}}
        return await acme.post("/v1/runs", body, headers={"idempotency-key": "order-7"})

    answers = await asyncio.gather(*(call(number) for number in range(50)))

    statuses = [each.status_code for each in answers]
    assert (statuses.count(202), statuses.count(200), statuses.count(409)) == (1, 9, 40)
    assert len(await gateway.runs()) == 1


async def test_two_apps_may_use_one_idempotency_key(acme: ApiClient, globex: ApiClient, operator: ApiClient) -> None:
    headers = {"idempotency-key": "order-7"}

    ours = await acme.post("/v1/runs", {"workflow": "Sales"}, headers=headers)
    theirs = await globex.post("/v1/runs", {"workflow": "Sales"}, headers=headers)
    again = await operator.post("/v1/runs", {"workflow": "Sales", "app_id": "acme"}, headers=headers)

    assert (ours.status_code, theirs.status_code) == (202, 202)
    assert ours.json()["run_id"] != theirs.json()["run_id"]
    assert (again.status_code, again.json()) == (200, ours.json())


async def test_a_call_that_died_after_storing_its_key_starts_its_run_on_retry(
    gateway: Gateway, acme: ApiClient
) -> None:
    async def call() -> Any:
        return await acme.post("/v1/runs", {"workflow": "Sales"}, headers={"idempotency-key": "order-7"})

    first = await call()
    await gateway.ground.store.runs.delete_one({"_id": first.json()["run_id"]})

    again = await call()

    assert again.status_code == 202
    assert [run["_id"] for run in await gateway.runs()] == [again.json()["run_id"]]


async def test_an_unusable_idempotency_key_is_refused(acme: ApiClient) -> None:
    for key in ("", "a\tb", "ü", "x" * 300):
        headers = [(b"authorization", f"Bearer {acme.key}".encode()), (b"idempotency-key", key.encode())]
        answer = await acme.gateway.client.post("/v1/runs", json={"workflow": "Sales"}, headers=headers)
        assert (answer.status_code, list(answer.json()["errors"])) == (422, ["Idempotency-Key"]), key
        assert "printable ASCII" in answer.json()["detail"]


UNKNOWN = "is not a field here; check the spelling or leave it out"
BAD_BODIES: list[tuple[Any, str]] = [
    ({}, "workflow"),
    ({"workflow": 5}, "workflow"),
    ({"workflow": ""}, "workflow"),
    ({"workflow": "Sales", "priority": "5"}, "priority"),
    ({"workflow": "Sales", "priority": 10}, "priority"),
    ({"workflow": "Sales", "priority": True}, "priority"),
    ({"workflow": "Sales", "input": []}, "input"),
    ({"workflow": "Sales", "input": {"a": {"$where": 1}}}, "input.a"),
    ({"workflow": "Sales", "input": {"n": 2**70}}, "input.n"),
    ({"workflow": "Sales", "not_before": "tomorrow"}, "not_before"),
    ({"workflow": "Sales", "not_before": "2031-01-31T09:00:00"}, "not_before"),
    ({"workflow": "Sales", "not_before": 1_900_000_000}, "not_before"),
    ({"workflow": "Sales", "message": {"text": "x"}}, "message"),
    ({"workflow": "Sales", "user_id": "two\nlines"}, "user_id"),
    ({"workflow": "Sales", "piority": 7}, "piority"),
    ([], "body"),
    ("Sales", "body"),
]


async def test_fields_at_fault_are_named(gateway: Gateway, acme: ApiClient) -> None:
    for body, field in BAD_BODIES:
        answer = await acme.post("/v1/runs", body)
        assert answer.status_code == 422, (body, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert list(problem["errors"]) == [field]
        assert problem["detail"].startswith(f"{field}: ")
    assert await gateway.runs() == []


async def test_all_fields_at_fault_are_named_at_once(acme: ApiClient) -> None:
    answer = await acme.post("/v1/runs", {"priority": -1, "input": 1, "workfow": "Sales"})

    assert set(answer.json()["errors"]) == {"workflow", "priority", "input", "workfow"}


async def test_a_body_that_is_no_json_is_refused_as_such(acme: ApiClient) -> None:
    json = "application/json"
    bad = [
        (b"{", json, 400),
        (b'{"workflow": "Sales", "input": {"n": NaN}}', json, 400),
        (b'{"workflow": "Sales", "input": {"n": 1e999}}', json, 400),
        (b'{"workflow": "\xff"}', json, 400),
        (b"[" * 9_000, json, 400),
        (b"workflow=Sales", "application/x-www-form-urlencoded", 415),
        (b'{"workflow": "Sales"}', "text/plain", 415),
        (b" " * (BODY_LIMIT + 1), json, 413),
    ]
    for content, kind, status in bad:
        answer = await acme.call("POST", "/v1/runs", content=content, headers={"content-type": kind})
        assert answer.status_code == status, content[:50]
        assert answer.headers["content-type"] == "application/problem+json"


async def test_text_of_half_a_character_is_no_error_of_ours(acme: ApiClient) -> None:
    for body in (b'{"workflow": "\\ud800"}', b'{"workflow": "Sales", "input": {"a": "\\ud800"}}'):
        answer = await acme.call("POST", "/v1/runs", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422, answer.text


async def test_package_names_are_shown_only_to_keys_of_all_apps(acme: ApiClient, operator: ApiClient) -> None:
    ours = await acme.post("/v1/runs", {"workflow": "Nope"})
    theirs = await operator.post("/v1/runs", {"workflow": "Nope", "app_id": "acme"})

    assert (ours.status_code, theirs.status_code) == (404, 404)
    assert ours.json()["errors"] == {"workflow": "there is no workflow Nope"}
    assert "Sales" in theirs.json()["errors"]["workflow"]


async def test_wrong_addresses_and_methods_are_problems(acme: ApiClient) -> None:
    unknown, wrong = await acme.get("/v1/nothing"), await acme.call("DELETE", "/v1/runs")

    assert (unknown.status_code, unknown.json()["status"]) == (404, 404)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")
    assert wrong.headers["content-type"] == "application/problem+json"


async def test_a_run_is_shown_as_the_command_shows_it_and_with_its_cost(gateway: Gateway, acme: ApiClient) -> None:
    run_id = await acme.start(input={"a": 1})
    await update_run(gateway, run_id, context={"odd": [float("nan"), float("inf")], "half": "😀"})

    shown = (await acme.get(f"/v1/runs/{run_id}")).json()

    told = as_json(await document_of(gateway, run_id))
    assert set(shown) == set(told) | {"replays", "questions"}
    assert shown["context"] == {"odd": [None, None], "half": "😀"}
    assert (shown["usage"]["calls"], shown["replays"], shown["input"]) == (0, [], {"a": 1})
    assert datetime.fromisoformat(shown["created_at"]) == told["created_at"]


async def test_runs_are_listed_by_what_they_are_like(gateway: Gateway, acme: ApiClient) -> None:
    failed, other, queued = [await acme.start() for _ in range(3)]
    outcome = {"kind": "tool_error", "reason": "no", "error": None}
    old = datetime.now(UTC) - timedelta(days=3)
    await update_run(gateway, failed, state="failed", outcome=outcome, created_at=old)
    await update_run(gateway, other, workflow="Other", hold="rate")

    async def list_run_ids(query: str) -> list[str]:
        answer = await acme.get(f"/v1/runs?{query}")
        assert answer.status_code == 200, answer.text
        return [run["run_id"] for run in answer.json()["items"]]

    assert await list_run_ids("") == [queued, other, failed]
    assert await list_run_ids("state=failed") == [failed]
    assert await list_run_ids("state=failed&state=queued&workflow=Sales") == [queued, failed]
    assert await list_run_ids("workflow=Other") == [other]
    assert await list_run_ids("outcome=tool_error") == [failed]
    assert await list_run_ids("hold=rate") == [other]
    assert await list_run_ids("trigger=api") == [queued, other, failed]
    assert await list_run_ids("trigger=webhook") == []
    day_ago = (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert await list_run_ids(f"since={day_ago}") == [queued, other]
    assert await list_run_ids(f"until={day_ago}") == [failed]
    [run] = (await acme.get("/v1/runs?state=failed")).json()["items"]
    assert run["outcome"] == outcome
    assert not {"input", "context", "history"} & set(run)


async def test_a_filter_at_fault_is_named(acme: ApiClient) -> None:
    bad = {
        "limit=": "limit",
        "state=lost": "state",
        "state=failed&state=lost": "state",
        "outcome=fine": "outcome",
        "hold=breath": "hold",
        "since=yesterday": "since",
        "since=2026-01-01T00:00:00+01:00": "since",
        "workflow=": "workflow",
    }
    for query, field in bad.items():
        answer = await acme.get(f"/v1/runs?{query}")
        assert (answer.status_code, list(answer.json()["errors"])) == (422, [field]), query


async def test_an_invalid_value_is_reported_with_what_to_write(acme: ApiClient, boss: ApiClient) -> None:
    number, name = "must be a whole number from 1 to 1000", "is longer than 200 characters"
    filters = {"limit=0": number, "limit=1001": number, "limit=many": number, f"workflow={'x' * 201}": name}
    for query, said in {**filters, f"cursor={'x' * 4_001}": "is longer than 4000 characters"}.items():
        assert list((await acme.get(f"/v1/runs?{query}")).json()["errors"].values()) == [said], query
    priority = "must be a whole number from 0 to 9"
    for body, told in (
        ({}, {"workflow": "is needed"}),
        ({"workflow": "Sales", "priority": 10}, {"priority": priority}),
        ({"workflow": "Sales", "priority": "5"}, {"priority": priority}),
        ({"workflow": 5, "piority": 7}, {"workflow": "must be text", "piority": UNKNOWN}),
    ):
        assert (await acme.post("/v1/runs", body)).json()["errors"] == told, body
    assert (await acme.post("/v1/runs")).json()["errors"] == {"body": "is needed; send a JSON object"}
    answer = {"message": " ", "question": 0, "by": ""}
    assert (await boss.post("/v1/runs/run_1/answer", answer)).json()["errors"] == {
        "message": "must be text, and not empty",
        "question": "must be the number of a question that the run asks, such as 1, or its id",
        "by": "must be text of up to 200 characters, and not empty",
    }


async def test_a_queued_run_is_cancelled_once(acme: ApiClient) -> None:
    run_id = await acme.start()

    first, again = await acme.post(f"/v1/runs/{run_id}/cancel"), await acme.post(f"/v1/runs/{run_id}/cancel")

    assert (first.status_code, first.json()["state"], first.json()["changed"]) == (200, "cancelled", True)
    assert (again.status_code, again.json()["changed"]) == (200, False)
    assert (await acme.get(f"/v1/runs/{run_id}")).json()["outcome"]["reason"] == "cancelled by acme shop (api)"


async def test_what_has_ended_is_not_cancelled(gateway: Gateway, acme: ApiClient) -> None:
    run_id = await acme.start()
    await update_run(gateway, run_id, state="succeeded")

    answer = await acme.post(f"/v1/runs/{run_id}/cancel")

    assert answer.status_code == 409
    assert "succeeded already" in answer.json()["detail"]


async def test_a_replay_is_a_new_run_and_repeating_it_is_none(gateway: Gateway, acme: ApiClient) -> None:
    run_id = await acme.start(input={"n": 4})
    assert (await acme.post(f"/v1/runs/{run_id}/replay")).status_code == 409
    await update_run(gateway, run_id, state="failed")

    first, again = [await acme.post(f"/v1/runs/{run_id}/replay") for _ in range(2)]
    more = await acme.post(f"/v1/runs/{run_id}/replay", {"again": True})

    assert (first.status_code, again.status_code, more.status_code) == (200, 200, 200)
    new_run_id = first.json()["new_run_id"]
    assert first.headers["location"] == f"/v1/runs/{new_run_id}"
    assert (again.json()["new_run_id"], again.json()["changed"]) == (new_run_id, False)
    replayed = (await acme.get(f"/v1/runs/{new_run_id}")).json()
    assert (replayed["replay_of"], replayed["input"]) == (run_id, {"n": 4})
    assert (await acme.get(f"/v1/runs/{run_id}")).json()["replays"] == [new_run_id, more.json()["new_run_id"]]
    assert (await acme.post(f"/v1/runs/{run_id}/replay", {"again": "yes"})).json()["errors"] == {
        "again": "must be true or false"
    }


async def test_a_replay_that_would_repeat_what_was_done_is_refused_with_a_list(
    gateway: Gateway, boss: ApiClient
) -> None:
    run_id = await boss.start()
    call = {"id": "1", "name": "refund", "arguments": '{"amount": 12}'}
    write = {"variable": "order", "database": "shop", "collection": "orders", "key": "_id", "key_value": "o-7"}
    events = [{"text": None, "tool_calls": [call]}, {"tool_results": [{"id": "1", "name": "refund", "text": "ok"}]}]
    turn = {"_id": f"{run_id}:1", "run_id": run_id, "number": 1, "agent": "Payer", "events": events, "writes": [write]}
    await gateway.ground.store.turns.insert_one(turn)
    await update_run(gateway, run_id, state="failed", turn=1, ui_responses={"Card": {"verdict": "yes"}})
    path = f"/v1/runs/{run_id}/replay"

    refused = await boss.post(path)
    unsure = await boss.post(path, {"repeat_done": False, "new_keys": True})
    made = await boss.post(path, {"repeat_done": True})
    again = await boss.post(path)
    anew = await boss.post(path, {"again": True, "repeat_done": True, "new_keys": True})

    assert [each.status_code for each in (refused, unsure, made, again, anew)] == [409, 409, 200, 200, 200]
    assert refused.headers["content-type"] == "application/problem+json"
    done = refused.json()["done"]
    [tool] = done["calls"]
    assert tool == {"turn": 1, "agent": "Payer", "tool": "refund", "arguments": "amount=12", "outcome": "done"}
    assert done["writes"] == [
        {"turn": 1, "variable": "order", "place": "shop.orders", "key": "_id", "key_value": "o-7"}
    ]
    assert (done["keys"], done["unknown_turn"], done["more"]) == ("same", None, 0)
    assert "turn 1: refund(amount=12) was called" in refused.json()["detail"]
    assert '"repeat_done": true' in refused.json()["detail"]
    assert "the same turn_idempotency_key" in refused.json()["detail"]
    assert "new idempotency keys, as you ask" in unsure.json()["detail"]
    assert again.json()["new_run_id"] == made.json()["new_run_id"]  # there is nothing to be made: nothing to refuse
    keys_of = [(await boss.get(f"/v1/runs/{each.json()['new_run_id']}")).json().get("keys_of") for each in (made, anew)]
    assert keys_of == [run_id, None]
    replayed = await gateway.ground.store.find(made.json()["new_run_id"])
    assert replayed is not None
    assert replayed["ui_responses"] == {"Card": {"verdict": "yes"}}


async def test_an_answer_continues_a_run_of_an_older_version(gateway: Gateway, boss: ApiClient) -> None:
    run_id = await boss.start()
    path, yes = f"/v1/runs/{run_id}/answer", {"question": 1, "message": "yes", "by": "Ada"}
    unasked = await boss.post(path, yes)
    assert unasked.status_code == 409
    await update_run(gateway, run_id, state="needs_human", question={"kind": "message", "number": 1})

    empty = await boss.post(path, {"question": 1, "message": " "})
    nothing = await boss.post(path, {"question": 1})
    first, again = [await boss.post(path, yes) for _ in range(2)]

    assert (empty.status_code, list(empty.json()["errors"])) == (422, ["message"])
    assert (nothing.status_code, list(nothing.json()["errors"])) == (422, ["body"])
    assert (first.status_code, first.json()) == (200, {"run_id": run_id, "answer": 1, "repeated": False, "waiting": []})
    assert again.json() == {"run_id": run_id, "answer": 1, "repeated": True, "waiting": []}
    run = (await boss.get(f"/v1/runs/{run_id}")).json()
    assert (run["state"], run["answers"][0]["by"], run["answers"][0]["name"]) == ("queued", "boss (api)", "Ada")


async def test_api_calls_are_counted(fresh_gateway: Gateway) -> None:
    gateway = fresh_gateway
    acme = ApiClient(gateway, await ApiKeys(gateway.ground.database).create("acme shop", "acme"))
    await acme.start()
    await acme.get("/v1/runs")
    await acme.get("/v1/runs/run_none")
    await gateway.client.get("/v1/runs")

    metrics = (await gateway.client.get("/metrics")).text
    for result in ("accepted", "answered", "not_found", "unauthorized"):
        assert f'unattended_webhook_requests_total{{endpoint="api",result="{result}"}} 1.0' in metrics
