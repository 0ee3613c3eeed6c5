"""The console over HTTP: login, scopes of apps, refusals, and security headers."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from ops.console import query_params
from ops.console.console_context import ConsoleOptions
from ops.console.page_renderer import HEADERS
from ops.console.sessions import COLLECTION
from tests.integration.ops.console.conftest import ORDER_ID, Console, Visit, accept_run
from tests.integration.stage import wait_until
from triggers.api_keys import ApiKeys
from triggers.register.trigger import Trigger
from triggers.token_bucket import TokenRate
from workflows.package.trigger_specs.form_spec import FormInput, FormSpec

pytestmark = pytest.mark.integration

LEAD = "/console/triggers/Sales/lead"


async def state_of(console: Console, run_id: str) -> str:
    return str((await console.stage.run(run_id))["state"])


async def form(visit: Visit, path: str) -> dict[str, Any]:
    """Return the hidden fields of a confirmation page."""
    page = (await visit.get(path)).text
    found = ORDER_ID.search(page)
    return {"form_token": await visit.token(), **({} if found is None else {"order_id": found[1]})}


async def test_every_answer_forbids_what_no_page_needs(console: Console) -> None:
    visit = await console.visit()
    paths = ("", "/login", "/runs", "/runs/run_x", "/nothing", "/static/console.css", "/runbook", "/runs?state=odd")

    for path in paths:
        answer = await visit.get(f"/console{path}")
        assert {name: answer.headers.get(name) for name in HEADERS} == dict(HEADERS), path
        assert "style=" not in answer.text, path
        assert "<style" not in answer.text, path
    policy = HEADERS["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'self'"} <= set(policy)
    stranger = await console.gateway.client.get("/console/runs?state=failed")
    assert stranger.headers["location"] == "/console/login?next=%2Fconsole%2Fruns%3Fstate%3Dfailed"
    assert stranger.headers["content-security-policy"] == HEADERS["content-security-policy"]
    assert (await console.gateway.client.post("/console")).status_code == 405


async def test_a_key_opens_a_session_with_a_protected_cookie(console: Console) -> None:
    visit = await console.visit()

    answer = await visit.log_in()
    secure = await visit.log_in(origin=f"https://{visit.origin.removeprefix('http://')}")
    [session, *_] = await console.gateway.ground.database[COLLECTION].find().sort("created_at", -1).to_list(1)

    cookie = answer.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/console", "Max-Age=43200"))
    assert "Secure" not in cookie
    assert "Secure" in secure.headers["set-cookie"]
    assert secure.cookies["unattended_console"] not in str(session)
    assert visit.key not in str(session)


@pytest.mark.parametrize("key", ["", "nonsense", "ua_" + "x" * 43])
async def test_a_wrong_key_is_reported_and_opens_nothing(console: Console, key: str) -> None:
    origin = f"http://127.0.0.1:{console.gateway.address[1]}"
    answer = await console.gateway.client.post("/console/login", data={"key": key}, headers={"origin": origin})

    assert answer.status_code == 401
    assert "unknown, revoked or expired" in answer.text
    assert "set-cookie" not in answer.headers


async def test_a_login_leads_to_where_one_was_and_never_to_another_site(console: Console) -> None:
    visit = await console.visit()
    places = {"/console/runs?state=failed": True, "//evil.example": False, "https://evil.example/console": False}

    for where, is_ours in places.items():
        answer = await visit.send("/console/login", key=visit.key, next=where)
        assert answer.headers["location"] == (where if is_ours else "/console")


async def test_a_revoked_key_ends_its_sessions_within_a_second_or_two(console: Console) -> None:
    visit = await console.visit("leaver")
    [key] = [each for each in await ApiKeys(console.gateway.ground.database).list() if each.name == "leaver"]
    assert (await visit.get("/console/runs")).status_code == 200

    await ApiKeys(console.gateway.ground.database).revoke(key.id)

    async def refused() -> httpx.Response | None:
        answer = await visit.get("/console/runs")
        return answer if answer.status_code == 303 else None

    answer: httpx.Response = await wait_until("the session is over", refused, within_s=3)
    assert answer.headers["location"].startswith("/console/login?next=")


async def test_a_key_that_opens_pages_too_fast_must_wait(console: Console) -> None:
    async with console.with_options(ConsoleOptions(view_rate=TokenRate(per_s=0.01, burst=3))) as strict:
        hasty, other = await strict.visit(), await strict.visit()

        answers = [await hasty.get("/console/runs/run_x") for _ in range(4)]

        assert [answer.status_code for answer in answers] == [404, 404, 404, 429]
        assert "opens too many pages" in answers[3].text
        assert int(answers[3].headers["retry-after"]) > 50
        assert (await other.get("/console/runs")).status_code == 200


async def test_a_session_ends_by_itself_and_by_logging_out(console: Console) -> None:
    sessions = console.gateway.ground.database[COLLECTION]
    visit, leaving = await console.visit(), await console.visit()
    before = await sessions.count_documents({})

    await leaving.send("/console/logout", form_token=await leaving.token())
    assert await sessions.count_documents({}) == before - 1
    assert (await leaving.get("/console")).status_code == 303
    await sessions.update_many({}, {"$set": {"expires_at": datetime.now(UTC) - timedelta(seconds=1)}})
    assert (await visit.get("/console")).status_code == 303
    indexes = await sessions.index_information()
    assert indexes["until_expired"]["expireAfterSeconds"] == 0


async def test_a_form_of_another_site_or_session_changes_nothing(console: Console) -> None:
    visit, other = await console.visit(), await console.visit()
    await visit.allow_actions()
    run_id = await accept_run(console.stage)
    path, token = f"/console/runs/{run_id}/cancel", await visit.token()

    refused = [
        await visit.send(path, form_token=token, headers={"origin": "https://evil.example"}),
        await visit.send(path, form_token=token, headers={"origin": "null"}),
        await visit.client.post(path, data={"form_token": token}),  # no origin at all
        await visit.send(path, form_token=""),
        await visit.send(path, form_token=await other.token()),
        await visit.client.post(path, json={"form_token": token}, headers={"origin": visit.origin}),
    ]

    assert [answer.status_code for answer in refused] == [403, 403, 403, 403, 403, 415]
    assert await state_of(console, run_id) == "queued"
    assert (await visit.send(path, form_token=token)).status_code == 303
    assert await state_of(console, run_id) == "cancelled"


async def test_nothing_is_done_by_a_session_that_may_not(console: Console) -> None:
    run_id = await accept_run(console.stage)
    reader, writer = await console.visit("reader", access="read"), await console.visit()
    path = f"/console/runs/{run_id}/cancel"

    assert path not in (await reader.get(f"/console/runs/{run_id}")).text
    for visit in (reader, writer):
        assert (await visit.get(path)).status_code == 403
        assert (await visit.send(path, form_token=await visit.token())).status_code == 403
    allowed = await reader.send("/console/actions", form_token=await reader.token(), allow="yes")
    assert allowed.status_code == 403
    await writer.allow_actions()
    await console.gateway.ground.database[COLLECTION].update_many(
        {"actions_until": {"$ne": None}}, {"$set": {"actions_until": datetime.now(UTC) - timedelta(seconds=1)}}
    )
    assert (await writer.send(path, form_token=await writer.token())).status_code == 403
    assert await state_of(console, run_id) == "queued"


async def test_actions_are_recorded_by_key_and_a_second_click_fires_nothing(console: Console) -> None:
    visit = await console.visit("Grace", may=("approve",))
    await visit.allow_actions()
    runs = console.gateway.ground.store.runs

    paused = await visit.send(f"{LEAD}/pause", **await form(visit, f"{LEAD}/pause"), note="the shop moves")
    assert paused.headers["location"] == LEAD
    page = (await visit.get(LEAD)).text
    assert "Sales/lead is paused." in page
    assert "Sales/lead is paused." not in (await visit.get(LEAD)).text  # shown once
    assert "Grace (console)" in page
    assert "the shop moves" in page
    assert "the shop moves" in (await visit.get("/console/triggers?state=paused")).text
    await visit.send(f"{LEAD}/resume", **await form(visit, f"{LEAD}/resume"))
    assert "is resumed" in (await visit.get(LEAD)).text

    filled = {**await form(visit, f"{LEAD}/fire"), "event": '{"email": "ada@example.com", "seats": 2}'}
    answers = [await visit.send(f"{LEAD}/fire", **filled) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [303, 409]
    started = await runs.find({"trigger.name": "lead"}).to_list(None)
    assert [run["input"] for run in started] == [{"email": "ada@example.com", "seats": 2}]
    assert answers[0].headers["location"] == f"/console/runs/{started[0]['_id']}"
    wrong = await visit.send(f"{LEAD}/fire", **await form(visit, f"{LEAD}/fire") | {"event": "[1]"})
    assert (wrong.status_code, "write a JSON object" in wrong.text) == (422, True)

    await visit.send(f"/console/runs/{started[0]['_id']}/cancel", form_token=await visit.token())
    again = await visit.send(f"/console/runs/{started[0]['_id']}/replay", form_token=await visit.token())
    assert (await console.stage.run(started[0]["_id"]))["outcome"]["reason"] == "cancelled by Grace (console)"
    replayed = await console.stage.run(again.headers["location"].rpartition("/")[2])
    assert replayed["replay_of"] == started[0]["_id"]
    refused = await visit.send(f"/console/runs/{started[0]['_id']}/discard", form_token=await visit.token())
    assert refused.status_code == 303  # it was cancelled already
    assert (await visit.get(f"/console/runs/{replayed['_id']}/answer")).status_code == 409
    assert (await visit.get(f"/console/runs/{replayed['_id']}/explode")).status_code == 404


async def test_what_a_replay_does_again_is_listed_before_it_is_made(console: Console) -> None:
    visit = await console.visit("Grace")
    await visit.allow_actions()
    run_id = await accept_run(console.stage)
    call = {"id": "1", "name": "refund", "arguments": '{"note": "<b>12</b>"}'}
    events = [{"text": None, "tool_calls": [call]}, {"tool_results": [{"id": "1", "name": "refund", "text": "ok"}]}]
    expected: dict[str, Any] = {
        "agent": "Payer",
        "text": "",
        "handoff": None,
        "context_changes": {},
        "tokens": {},
        "duration_s": 1.0,
    }
    turn = {"_id": f"{run_id}:1", "run_id": run_id, "number": 1, **expected, "events": events}
    await console.stage.store.turns.insert_one(turn)
    outcome = {"kind": "package_error", "reason": "not written", "error": None}
    counted = {"version": 1, "counters": {"model_calls": 1}, "ended": None}
    failed = {"state": "failed", "turn": 1, "outcome": outcome, "usage": {}, "progress": counted}
    row = {
        "_id": f"{run_id}:1:1",
        "run_id": run_id,
        "agent": "Payer",
        "model": "m",
        "at": datetime.now(UTC),
        "ok": True,
    }
    spent = {"input_tokens": 1, "output_tokens": 1, "cost_nano_usd": None}
    await console.stage.store.database["usage"].insert_one({**row, **spent})
    await console.stage.store.runs.update_one({"_id": run_id}, {"$set": failed})
    path, sentence = f"/console/runs/{run_id}/replay", "turn 1: refund(note=&#34;&lt;b&gt;12&lt;/b&gt;&#34;) was called"

    story, page = [(await visit.get(each)).text for each in (f"/console/runs/{run_id}", path)]
    unseen = await visit.send(path, form_token=await visit.token())
    made = await visit.send(path, form_token=await visit.token(), repeat_done="1")

    assert "A replay repeats these effects" in story
    assert "Repeated effects" in page
    assert sentence in story
    assert sentence in page
    assert "was not finished" not in story + page
    assert 'name="repeat_done" value="1"' in page
    assert (unseen.status_code, "was not replayed" in unseen.text) == (409, True)
    new = await console.stage.run(made.headers["location"].rpartition("/")[2])
    assert (new["replay_of"], new["keys_of"]) == (run_id, run_id)
    assert "idempotency keys of" in (await visit.get(f"/console/runs/{new['_id']}")).text


async def test_a_key_of_one_app_sees_that_app_alone(console: Console) -> None:
    mine, others = await accept_run(console.stage), await accept_run(console.stage, app_id="globex")
    visit = await console.visit("shop", "acme")
    await visit.allow_actions()

    listed = (await visit.get("/console/runs?workflow=Sales")).text
    assert (mine[-6:] in listed, others[-6:] in listed) == (True, False)
    assert others[-6:] not in (await visit.get("/console")).text
    assert (await visit.get(f"/console/runs?id={mine[-8:]}")).headers["location"] == f"/console/runs/{mine}"
    responses = [await visit.get(f"/console/runs/{each}") for each in (others, "run_never")]
    assert [answer.status_code for answer in responses] == [404, 404]
    assert responses[0].text.replace(others, "") == responses[1].text.replace("run_never", "")
    assert (await visit.get(f"/console/runs?id={others[-8:]}")).status_code == 404
    assert (await visit.get("/console/runs?app_id=globex")).status_code == 403
    assert (await visit.get("/console/usage?app_id=globex")).status_code == 403
    assert (await visit.get("/console/triggers/Sales/paid?app_id=globex")).status_code == 403
    assert "globex" not in (await visit.get("/console/triggers/Sales/paid")).text
    assert (await visit.send(f"/console/runs/{others}/cancel", form_token=await visit.token())).status_code == 404
    assert await state_of(console, others) == "queued"


async def test_a_trigger_is_reached_whatever_its_app_is_called(console: Console) -> None:
    """Names survive the login, the permission of actions, and the links back."""
    app_id = "shop/köln 50%"
    trigger = Trigger("Sales", FormSpec(name="far", inputs={"email": FormInput()}), app_id=app_id)
    await console.gateway.ground.triggers.create(trigger)
    page = query_params.trigger_path(trigger.id)
    visit = await console.visit()

    assert f'href="{page}"' in (await visit.get("/console/triggers")).text
    responses = (await visit.get(f"{page}/pause")).text
    assert f'name="next" value="{page}/pause"' in responses
    allowed = await visit.send("/console/actions", form_token=await visit.token(), allow="yes", next=f"{page}/pause")
    asking = await visit.get(allowed.headers["location"])
    for referer, leads_to in ((f"{page}?app=x", f"{page}?app=x"), ("/elsewhere", "/console"), ("", "/console")):
        came_from = {"referer": f"{visit.origin}{referer}"} if referer else {}
        again = await visit.send("/console/actions", headers=came_from, form_token=await visit.token(), allow="yes")
        assert again.headers["location"] == leads_to  # the button in each page's header
    assert (asking.status_code, f'href="{page}">No, go back' in asking.text) == (200, True)
    await visit.send("/console/logout", form_token=await visit.token())
    login = (await visit.get((await visit.get(page)).headers["location"])).text
    assert f'name="next" value="{page}"' in login
    await visit.log_in()
    missing = (await visit.get(f"{page}x")).text
    assert '<a href="/console/triggers">Back</a>' in missing
    await console.gateway.ground.triggers.remove(trigger.id)


async def test_a_page_stays_small_whatever_there_is(console: Console) -> None:
    run_id = await accept_run(console.stage, app_id="large")
    turn = {"run_id": run_id, "agent": "A", "text": "", "handoff": "A", "events": [], "context_changes": {}}
    expected = [
        {**turn, "_id": f"{run_id}:{number}", "number": number, "token": 1, "tokens": {}, "duration_s": 0.1}
        for number in range(1, 51)
    ]
    await console.gateway.ground.store.turns.insert_many(expected)
    await console.gateway.ground.store.runs.update_one({"_id": run_id}, {"$set": {"turn": len(expected)}})
    for name in ("one", "two"):
        spec = FormSpec(name=name, inputs={"email": FormInput()})
        await console.gateway.ground.triggers.create(Trigger("Gone", spec, app_id="large"))
    visit = await console.visit("large", "large")

    assert "more turns" not in (await visit.get(f"/console/runs/{run_id}")).text
    assert "inactive triggers" in (await visit.get("/console/")).text
    async with console.with_options(ConsoleOptions(max_turn_bytes=1_000, max_triggers_scanned=1)) as small:
        visit = await small.visit("large", "large")
        story = (await visit.get(f"/console/runs/{run_id}")).text
        assert (story.count('<li class="turn"'), "30 more turns" in story) == (20, True)
        assert "<strong>1</strong> <span>inactive of the first 1 triggers" in (await visit.get("/console")).text


async def test_a_run_with_a_failed_tool_is_marked_in_the_list_and_on_its_page(console: Console) -> None:
    quiet, loud = [await accept_run(console.stage, app_id="marked") for _ in range(2)]
    error = {
        "where": "after_chat end.py:end",
        "type": "KeyError",
        "message": "'SLACK_URL'",
        "traceback": "",
        "agent": None,
        "turn": None,
        "place": "tools/end.py:7, in end",
    }
    done = {"state": "succeeded", "outcome": {"kind": "completed", "reason": "done", "error": None}}
    await console.stage.store.runs.update_one({"_id": loud}, {"$set": {**done, "failed_tools": 1, "errors": [error]}})
    await console.stage.store.runs.update_one({"_id": quiet}, {"$set": done, "$unset": {"failed_tools": 1}})
    visit = await console.visit("shop", "marked")

    rows = (await visit.get("/console/runs")).text.partition("<tbody>")[2].split("</tr>")
    pages = {each: (await visit.get(f"/console/runs/{each}")).text for each in (quiet, loud)}

    assert ["1 failed call<" in row for row in rows if loud[-6:] in row] == [True]
    assert ["failed call" in row for row in rows if quiet[-6:] in row] == [False]
    assert "<strong>1</strong> failed tool call" in pages[loud]
    assert "&#39;SLACK_URL&#39; (<code>tools/end.py:7, in end</code>)" in pages[loud]
    assert "failed call" not in pages[quiet]


async def test_the_overview_lists_the_longest_waits_for_a_person(console: Console) -> None:
    runs = [await accept_run(console.stage, app_id="asking") for _ in range(3)]
    other = await accept_run(console.stage, app_id="globex")
    for hours, run_id in enumerate((*runs, other)):
        asks = {"agent": "Clerk", "text": f"Refund {hours} EUR?", "payload": "p" * 9000}
        since = datetime.now(UTC) - timedelta(hours=hours)
        waits = {"state": "needs_human", "finished_at": since, "question": asks}
        await console.stage.store.runs.update_one({"_id": run_id}, {"$set": waits, "$unset": {"lane": 1}})
    await console.stage.store.runs.update_one({"_id": runs[0]}, {"$set": {"question": None}})  # of an older version

    several = [{"number": number} for number in (1, 2, 3)]
    await console.stage.store.runs.update_one({"_id": runs[2]}, {"$set": {"questions": several}})

    page = (await (await console.visit("shop", "asking")).get("/console")).text

    assert page.count("more question") == 1
    assert 'Refund 2 EUR?</span> <span class="soft">and 2 more questions<' in page
    troubled = page.partition("Failed in the last 24 hours")[2].partition("</section>")[0]
    assert not [run_id for run_id in runs if run_id[-6:] in troubled]  # they are in the list of waiting runs
    table = page.partition("Runs that wait for a person</caption>")[2].partition("</table>")[0]
    order = sorted(runs, key=lambda run_id: table.index(run_id[-6:]))
    assert order == runs[::-1]
    assert "Refund 2 EUR?" in table
    assert "2 h 0 min" in table
    assert other[-6:] not in table
    assert "pppp" not in page


async def test_impossible_filters_are_explained_in_a_sentence(console: Console) -> None:
    visit = await console.visit()
    wrong = {
        "runs?state=odd": "state: must be one of queued",
        "runs?since=later": "since: write a date",
        "runs?id=xyz": "is no run id",
        "runs?cursor=abc": "cursor: leads to no page",
        f"runs?workflow={'x' * 300}": "workflow: is longer than 200 characters",
        "usage?by=colour": "by: must be one of app_id",
        "triggers?type=odd": "type: must be one of",
        f"triggers/Sales/{quote('nobody@acme')}": "there is no such trigger",
    }

    for path, expected in wrong.items():
        answer = await visit.get(f"/console/{path}")
        assert answer.status_code in {404, 409, 422}, path
        assert expected in answer.text, answer.text


async def test_pages_of_runs_hold_each_run_once_while_others_come(console: Console) -> None:
    for _ in range(52):
        await accept_run(console.stage, app_id="many")
    visit = await console.visit("many", "many")

    first = (await visit.get("/console/runs?state=queued")).text
    await accept_run(console.stage, app_id="many")
    link = first.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0].replace("&amp;", "&")
    second = (await visit.get(link)).text

    ids = [piece.partition('"')[0] for page in (first, second) for piece in page.split('<a class="id" href="')[1:]]
    assert "state=queued" in link
    assert (len(ids), len(set(ids))) == (52, 52)
