"""The right to approve: answers name their question and their key; standing answers are made by keys that may."""

from typing import Any

import pytest

from tests.integration.triggers.api.conftest import ApiClient
from tests.integration.triggers.gateway_server import Gateway
from triggers.api_keys import ApiKeys
from triggers.register.trigger import Trigger
from workflows.package.trigger_specs.form_spec import FormInput, FormSpec

pytestmark = pytest.mark.integration

ASK: dict[str, Any] = {"name": "ask", "type": "form_submit", "inputs": {"question": {"required": True}}}
ANSWERING: dict[str, Any] = {**ASK, "ui_responses": {"Refund": {"verdict": "yes"}}}
HOURLY: dict[str, Any] = {"name": "hourly", "type": "schedule", "cron": "0 * * * *"}
HOW = "keys create NAME --may approve"
EVENT = {"event": {"question": "why?"}}
MESSAGE: dict[str, Any] = {"number": 1, "kind": "message", "agent": "A", "turn": 1, "text": "Which one?", "id": "q_1"}
REFUND: dict[str, Any] = {
    "number": 2,
    "id": "q_2",
    "kind": "tool",
    "agent": "A",
    "turn": 1,
    "text": "pay waits",
    "tool": "Refund",
    "function": "pay",
    "arguments": {"amount": 12},
    "keys": ["verdict"],
    "choices": ["yes", "no"],
    "position": "1.1",
    "digests": {"arguments": "a", "payload": "b"},
}


async def start_asking_run(gateway: Gateway, client: ApiClient, *questions: dict[str, Any]) -> str:
    run_id = await client.start()
    asked = {"state": "needs_human", "question": questions[0], "questions": list(questions)}
    await gateway.ground.store.runs.update_one({"_id": run_id}, {"$set": asked})
    return run_id


async def test_a_key_answers_only_if_it_was_made_to_approve(
    gateway: Gateway, keys: ApiKeys, acme: ApiClient, boss: ApiClient
) -> None:
    run_id = await start_asking_run(gateway, acme, MESSAGE)
    await keys.create("of an older version", "acme")
    old = ApiClient(gateway, await keys.create("older", "acme"))
    await gateway.ground.database["api_keys"].update_one({"name": "older"}, {"$unset": {"may": ""}})

    for client in (acme, old):
        answer = await client.post(f"/v1/runs/{run_id}/answer", {"question": 1, "message": "yes"})
        assert (answer.status_code, answer.headers["content-type"]) == (403, "application/problem+json")
        assert HOW in answer.json()["detail"]
    shown = (await acme.get(f"/v1/runs/{run_id}")).json()
    assert (shown["state"], shown["answers"], shown["questions"]) == ("needs_human", [], [MESSAGE])
    given = await boss.post(f"/v1/runs/{run_id}/answer", {"question": 1, "message": "yes"})
    assert given.status_code == 200, given.text


async def test_an_answer_names_its_question_and_key_and_lists_what_still_waits(
    gateway: Gateway, boss: ApiClient
) -> None:
    run_id = await start_asking_run(gateway, boss, MESSAGE, REFUND)
    path = f"/v1/runs/{run_id}/answer"
    refund = {"question": "q_2", "responses": {"Refund": {"verdict": "yes"}}, "by": "the head of finance"}

    first = await boss.post(path, refund)
    again = await boss.post(path, refund)
    last = await boss.post(path, {"question": 1, "message": "the blue one"})

    assert (first.status_code, first.json()) == (
        200,
        {"run_id": run_id, "answer": 2, "repeated": False, "waiting": [1]},
    )
    assert (again.json()["repeated"], again.json()["waiting"]) == (True, [1])
    assert last.json()["waiting"] == []
    run = (await boss.get(f"/v1/runs/{run_id}")).json()
    assert (run["state"], run["question"], run["questions"]) == ("queued", None, [])
    assert [(each["number"], each["by"], each.get("name")) for each in run["answers"]] == [
        (2, "boss (api)", "the head of finance"),
        (1, "boss (api)", None),
    ]
    assert run["answers"][0]["question"]["arguments"] == {"amount": 12}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"message": "yes"}, 422, "question"),
        ({"question": None, "message": "yes"}, 422, "question"),
        ({"question": 0, "message": "yes"}, 422, "question"),
        ({"question": "9" * 5_000, "message": "yes"}, 422, "question"),
        ({"question": "first", "message": "yes"}, 422, "question"),
        ({"question": True, "message": "yes"}, 422, "question"),
        ({"question": 1, "message": "yes", "by": ""}, 422, "by"),
        ({"question": 1}, 422, "body"),
        ({"question": 7, "message": "yes"}, 409, "7"),
        ({"question": "q_7", "message": "yes"}, 409, "q_7"),
        ({"question": 1, "responses": {"Refund": {"verdict": "yes"}}}, 409, "message"),
        ({"question": 2, "responses": {"Other": {"verdict": "yes"}}}, 409, "Refund"),
        ({"question": 2, "responses": {"Refund": {"verdict": "maybe"}}}, 409, "yes"),
    ],
)
async def test_an_answer_that_fits_no_question_changes_nothing(
    gateway: Gateway, boss: ApiClient, body: dict[str, Any], status: int, said: str
) -> None:
    run_id = await start_asking_run(gateway, boss, MESSAGE, REFUND)

    answer = await boss.post(f"/v1/runs/{run_id}/answer", body)

    assert answer.status_code == status, answer.text
    assert said in (answer.json()["errors"] if status == 422 else answer.json()["detail"])
    run = (await boss.get(f"/v1/runs/{run_id}")).json()
    assert (run["state"], run["answers"], len(run["questions"])) == ("needs_human", [], 2)


async def test_standing_answers_are_made_and_changed_by_keys_that_may_approve(acme: ApiClient, boss: ApiClient) -> None:
    body = {"workflow": "Sales", "spec": ANSWERING}
    path = "/v1/triggers/Sales/ask"

    refused = await acme.post("/v1/triggers", body)
    assert (refused.status_code, HOW in refused.json()["detail"]) == (403, True)
    assert (await acme.get(path)).status_code == 404
    assert (await acme.post("/v1/triggers", {**body, "spec": ASK})).status_code == 201
    for spec in (ANSWERING, {**ANSWERING, "title": "Other"}):
        edit = await acme.call("PUT", path, json={"spec": spec}, headers={"if-match": "*"})
        assert (edit.status_code, HOW in edit.json()["detail"]) == (403, True)

    approved = await boss.call("PUT", path, json={"spec": ANSWERING}, headers={"if-match": "*"})
    assert approved.status_code == 200, approved.text
    changed = await acme.call("PUT", path, json={"spec": {**ANSWERING, "input": {}}}, headers={"if-match": "*"})
    assert changed.status_code == 403
    assert approved.json()["answers_approved_by"] == "boss (api)"
    fired = await acme.post(f"{path}/fire", EVENT)
    assert fired.status_code == 202, fired.text  # its answers were approved
    assert (await acme.call("PUT", path, json={"spec": ASK}, headers={"if-match": "*"})).status_code == 200
    assert (await acme.post(f"{path}/fire", EVENT)).status_code == 202  # nothing is answered in advance any more


async def test_unapproved_standing_answers_are_not_fired_by_every_key(
    gateway: Gateway, acme: ApiClient, boss: ApiClient
) -> None:
    """An older version took them from each key that could write."""
    spec = FormSpec(name="ask", inputs={"question": FormInput()}, ui_responses={"Refund": {"verdict": "yes"}})
    await gateway.ground.triggers.create(Trigger("Sales", spec, app_id="acme"))
    path = "/v1/triggers/Sales/ask"

    assert (await acme.get(path)).json()["answers_approved_by"] is None
    refused = await acme.post(f"{path}/fire", EVENT)
    assert (refused.status_code, HOW in refused.json()["detail"]) == (403, True)
    assert await gateway.ground.store.runs.count_documents({}) == 0
    assert (await boss.post(f"{path}/fire", EVENT)).status_code == 202
    hourly = {**HOURLY, "ui_responses": ANSWERING["ui_responses"]}
    assert (await boss.post("/v1/triggers", {"workflow": "Sales", "spec": hourly})).status_code == 201
    await gateway.ground.database["triggers"].update_many({}, {"$unset": {"answers_approved_by": ""}})
    times = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T02:00:00Z"}
    assert (await acme.post("/v1/triggers/Sales/hourly/backfill", times)).status_code == 403


async def test_revoked_standing_answers_are_not_replayed_by_every_key(
    gateway: Gateway, acme: ApiClient, boss: ApiClient
) -> None:
    """A run carries the answers of its trigger along, and its replay is given them again."""
    path, store = "/v1/triggers/Sales/ask", gateway.ground.store
    assert (await boss.post("/v1/triggers", {"workflow": "Sales", "spec": ANSWERING})).status_code == 201
    run_id = (await acme.post(f"{path}/fire", EVENT)).json()["runs"][0]["run_id"]
    await store.runs.update_one({"_id": run_id}, {"$set": {"state": "failed"}})

    assert (await acme.post(f"/v1/runs/{run_id}/replay")).status_code == 200  # they hold, as for the next event
    for other in (ASK, {**ANSWERING, "ui_responses": {"Refund": {"verdict": "no"}}}, None):
        if other is None:
            assert (await boss.call("DELETE", path, headers={"if-match": "*"})).status_code == 204
        else:
            edited = await boss.call("PUT", path, json={"spec": other}, headers={"if-match": "*"})
            assert edited.status_code == 200, edited.text
        refused = await acme.post(f"/v1/runs/{run_id}/replay", {"again": True})
        assert (refused.status_code, HOW in refused.json()["detail"]) == (403, True)
    assert await store.runs.count_documents({}) == 2
    assert (await boss.post(f"/v1/runs/{run_id}/replay", {"again": True})).status_code == 200
