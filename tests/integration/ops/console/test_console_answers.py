"""Approvals in the console: questions and arguments, keys that may answer, and forms."""

import re
from typing import Any

import pytest

from tests.integration.ops.console.conftest import Console, Visit
from tests.integration.ops.console.open_questions import FREE, LARGER, MESSAGE, OLD, REFUND, insert_asking_run
from triggers.register.trigger import Trigger
from workflows.package.trigger_specs.form_spec import FormInput, FormSpec

pytestmark = pytest.mark.integration

APPROVE = ("approve",)


async def approver(console: Console, **options: Any) -> Visit:
    visit = await console.visit("Grace", may=APPROVE, **options)
    await visit.allow_actions()
    return visit


async def test_pending_questions_are_shown_once_and_each_form_answers_its_own(console: Console) -> None:
    run_id = await insert_asking_run(console, MESSAGE, REFUND, LARGER, FREE)
    visit, page = await approver(console), f"/console/runs/{run_id}"

    html = (await visit.get(page)).text
    assert [html.count(each["title"]) for each in (REFUND, LARGER)] == [1, 1]
    assert "NeedsHuman" not in html
    assert 'class="outcome' not in html  # the question shows it; nothing has failed
    assert '"badge warn">needs human' in html
    assert "5000" in html
    assert re.findall(r'name="question" value="(\w+)"', html) == ["q_1", "q_2", "q_3", "q_4"]
    token = await visit.token()

    async def answered(**fields: str) -> str:
        done = await visit.send(f"{page}/answer", form_token=token, **fields)
        assert (done.status_code, done.headers["location"]) == (303, page), done.text
        return (await visit.get(page)).text

    last_response = await answered(question="q_3", **{"key.verdict": "no", "key.why": "too much"})
    assert "has answer 3; questions 1, 2 and 4 wait for an answer." in last_response
    assert re.findall(r'name="question" value="(\w+)"', last_response) == ["q_1", "q_2", "q_4"]
    await answered(question="q_2", choice="ask the shop first")
    await answered(question="q_2", choice="ask the shop first")  # a second click repeats the answer
    await answered(question="q_4", responses='{"sum": 7}')
    last = await answered(question="q_1", message="The shop's.")

    assert "has answer 1, and continues." in last
    assert last.count("Grace (console)") == 4
    assert "Question 3, answered by Grace (console)" in last
    assert "Refund 5,000 EUR to Ada Lovelace?" in last  # the answered question
    run = await console.stage.run(run_id)
    assert (run["state"], [each["number"] for each in run["answers"]]) == ("queued", [3, 2, 4, 1])
    assert [each.get("responses") for each in run["answers"]] == [
        {"Refund": {"verdict": "no", "why": "too much"}},
        {"Refund": {"verdict": "ask the shop first"}},
        {"Refund": {"sum": 7}},
        None,
    ]


async def test_two_calls_of_one_reply_are_two_approvals(console: Console) -> None:
    """With a worker, the paid amount is the one shown beside the pressed button."""
    stage = console.stage
    if not stage.workers:
        await stage.start_worker()
    run_id = (await stage.accept("Till")).run_id
    run = await stage.wait_for_end(run_id)
    visit, page = await approver(console), f"/console/runs/{run_id}"

    html = (await visit.get(page)).text
    assert [html.count(f"Refund {amount} EUR?") for amount in (10, 5000)] == [1, 1]
    assert [f"<dd>{amount}</dd>" in html for amount in (10, 5000)] == [True, True]
    assert re.findall(r'name="question" value="([^"]+)"', html) == [each["id"] for each in run["questions"]]
    for question, choice in zip(run["questions"], ("yes", "no"), strict=True):
        assert (await stage.run(run_id))["state"] == "needs_human"
        sent = await visit.send(
            f"{page}/answer", form_token=await visit.token(), question=question["id"], choice=choice
        )
        assert sent.status_code == 303, sent.text

    assert (await stage.reconcile_until_end(run_id))["state"] == "succeeded"
    story = (await visit.get(page)).text
    assert "&#34;paid&#34;: 10" in story
    assert "&#34;paid&#34;: 0" in story
    assert "&#34;paid&#34;: 5000" not in story


async def test_a_key_without_the_right_sees_the_question_and_why_no_form(console: Console) -> None:
    run_id = await insert_asking_run(console, REFUND)
    parked = await insert_asking_run(console, REFUND, state="parked", question=None, questions=None)
    visits = [await console.visit("shop", "acme"), await console.visit("reader", access="read", may=APPROVE)]
    await visits[0].allow_actions()

    for visit in visits:
        html = (await visit.get(f"/console/runs/{run_id}")).text
        assert REFUND["title"] in html
        assert 'name="question"' not in html
        assert "This key is read-only" in html or "This key may not approve" in html
        for path in (f"{run_id}/answer", f"{run_id}/discard", f"{parked}/discard"):
            assert f'href="/console/runs/{path}"' not in html
            shown = await visit.get(f"/console/runs/{path}")
            sent = await visit.send(
                f"/console/runs/{path}", form_token=await visit.token(), question="q_2", choice="yes"
            )
            assert (shown.status_code, sent.status_code) == (403, 403), path
    assert "keys create NAME --may approve" in (await visits[0].get(f"/console/runs/{run_id}/answer")).text
    assert [(await console.stage.run(each))["state"] for each in (run_id, parked)] == ["needs_human", "parked"]
    visit = await approver(console)
    assert (await visit.send(f"/console/runs/{parked}/discard", form_token=await visit.token())).status_code == 303
    assert (await console.stage.run(parked))["state"] == "cancelled"


OF_VERSIONS: dict[str, dict[str, Any]] = {
    "no keys": {"question": OLD, "questions": None},
    "keys and others": {"question": {**OLD, "keys": ["verdict"], "also": ["Form"]}, "questions": None},
    "answers without numbers": {
        "question": {**OLD, "number": 2},
        "questions": None,
        "answers": [{"by": "ann (cli)", "message": "yes", "turn": 1}, {"by": "x", "responses": {"Card": {}}}],
    },
    "no question": {"question": None, "questions": None},
    "a text for arguments": {
        "question": REFUND,
        "questions": [{**REFUND, "arguments": '{"amount": … (90000 characters)'}],
    },
}


@pytest.mark.parametrize("changes", OF_VERSIONS.values(), ids=list(OF_VERSIONS))
async def test_runs_of_every_version_have_their_pages(console: Console, changes: dict[str, Any]) -> None:
    run_id = await insert_asking_run(console, OLD, **changes)
    visit = await approver(console)

    for path in (f"/console/runs/{run_id}", f"/console/runs/{run_id}/answer", f"/console/runs/{run_id}/discard"):
        answer = await visit.get(path)
        assert answer.status_code == 200, path
        assert "built-in method" not in answer.text


async def test_a_question_of_an_older_version_is_answered_by_its_number(console: Console) -> None:
    run_id = await insert_asking_run(console, OLD, questions=None)
    visit = await approver(console)

    html = (await visit.get(f"/console/runs/{run_id}/answer")).text
    assert 'name="question" value="1"' in html
    sent = {"form_token": await visit.token(), "question": "1", "responses": '{"approved": true}'}
    assert (await visit.send(f"/console/runs/{run_id}/answer", **sent)).status_code == 303
    assert (await console.stage.run(run_id))["answers"][0]["responses"] == {"Card": {"approved": True}}


NONSENSE: tuple[dict[str, str], ...] = (
    {},
    {"question": "9" * 5_000, "message": "x"},
    {"question": "-1", "message": "x"},
    {"question": "0", "message": "x"},
    {"question": "1.5", "message": "x"},
    {"question": "٣", "message": "x"},
    {"question": "q_" + "x" * 5_000, "choice": "yes"},
    {"question": "q_9", "choice": "yes"},
    {"question": "\x00", "choice": "yes"},
    {"question": "$where", "choice": "yes"},
    {"question": "q_2"},
    {"question": "q_2", "choice": "maybe"},
    {"question": "q_2", "choice": ""},
    {"question": "q_2", "message": "yes"},
    {"question": "q_2", "key.": "yes"},
    {"question": "q_2", "key.verdict": "maybe"},
    {"question": "q_2", "key.verdict": "[" * 2_000},
    {"question": "q_2", "key.verdict": "9" * 5_000},
    {"question": "q_2", "responses": "[" * 2_000},
    {"question": "q_2", "responses": "null"},
    {"question": "q_1", "message": ""},
    {"question": "q_1", "choice": "yes"},
)


async def test_a_form_with_impossible_values_gets_an_error_and_answers_nothing(console: Console) -> None:
    run_id = await insert_asking_run(console, MESSAGE, REFUND)
    visit = await approver(console)
    token = await visit.token()

    for fields in NONSENSE:
        sent = await visit.send(f"/console/runs/{run_id}/answer", form_token=token, **fields)
        assert sent.status_code in {409, 422}, (fields, sent.status_code, sent.text)
    for query in (f"question={'9' * 5_000}", "question=%00", "key.x=1&choice=yes", "%ff=%ff"):
        assert (await visit.get(f"/console/runs/{run_id}/answer?{query}")).status_code == 200, query
    run = await console.stage.run(run_id)
    assert (run["state"], run["answers"], len(run["questions"])) == ("needs_human", [], 2)


async def test_unapproved_standing_answers_are_fired_by_no_other_key(console: Console) -> None:
    spec = FormSpec(name="standing", inputs={"email": FormInput()}, ui_responses={"Refund": {"verdict": "yes"}})
    trigger = Trigger("Sales", spec, app_id="acme")
    await console.gateway.ground.triggers.create(trigger)
    visit, path = await console.visit("shop", "acme"), "/console/triggers/Sales/standing%40acme/fire"
    await visit.allow_actions()
    order_id = re.search(r'name="order_id" value="([\w-]+)"', (await visit.get(path)).text)
    assert order_id is not None

    fields = {"form_token": await visit.token(), "order_id": order_id[1], "event": '{"email": "a@b.example"}'}
    refused = await visit.send(path, **fields)

    assert (refused.status_code, "keys create NAME --may approve" in refused.text) == (403, True)
    await console.gateway.ground.triggers.remove(trigger.id)


async def test_standing_answers_absent_from_the_trigger_need_their_own_key(console: Console) -> None:
    answers = {"Refund": {"verdict": "yes"}}
    run_id = await insert_asking_run(
        console, REFUND, state="failed", question=None, questions=None, ui_responses=answers
    )
    shop, grace = await console.visit("shop", "acme"), await approver(console)
    await shop.allow_actions()

    path = f"/console/runs/{run_id}/replay"
    refused = await shop.send(path, form_token=await shop.token())
    made = await grace.send(path, form_token=await grace.token())

    assert (refused.status_code, "keys create NAME --may approve" in refused.text) == (403, True)
    assert (await console.stage.run(made.headers["location"].rpartition("/")[2]))["ui_responses"] == answers
