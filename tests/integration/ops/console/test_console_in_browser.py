"""The console in a real browser: without scripts, by keyboard, on a narrow screen, in the dark, and under attack."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from accounting.budgets.budget import parse_budget
from accounting.budgets.budget_store import BudgetStore
from ops.console.console_context import COOKIE_NAME
from ops.console.sessions import Sessions
from tests.integration.ops.console.conftest import Console, accept_run
from tests.integration.ops.console.open_questions import FREE, LARGER, MESSAGE, REFUND, insert_asking_run
from tests.integration.triggers.chromium import FAINT_TEXTS, HARD_TO_USE, WIDTH, chromium, watch
from tests.integration.usage_rows import UsedCalls, insert_usage
from triggers.api_keys import hash_key
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import Pause
from workflows.package.trigger_specs.form_spec import FormInput, FormSpec

pytestmark = pytest.mark.integration

ATTACK = """"'></td></title><script>alert(1)</script><img src=x onerror=alert(2)><a href="javascript:alert(3)">x</a>"""
FOREIGN = (
    "script:not([src='/console/static/console.js']), img, iframe, object, [onerror], [onload], a[href^='javascript']"
)

LOOKS: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 1400), ("dark", 390))
WITHOUT_LABEL = """() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea")]
  .filter(each => !each.labels.length).map(each => each.outerHTML)"""


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as launched:
        yield launched


@asynccontextmanager
async def logged_in(console: Console, browser: Browser, key: str, **context: Any) -> AsyncIterator[Page]:
    """Open a page with a ready session; another test covers the login page."""
    session = await Sessions(console.gateway.ground.database).begin(hash_key(key))
    opened: BrowserContext = await browser.new_context(**context)
    await opened.add_cookies(
        [{"name": COOKIE_NAME, "value": session.token, "url": address(console), "sameSite": "Strict", "httpOnly": True}]
    )
    page = await opened.new_page()
    await page.goto(address(console))
    await expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    yield page
    await opened.close()


async def log_in(page: Page, key: str) -> None:
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("main").get_by_role("button", name="Log in").click()


def address(console: Console, path: str = "") -> str:
    return f"http://{console.gateway.address[0]}:{console.gateway.address[1]}/console{path}"


async def test_a_person_finds_a_run_and_reads_its_story_without_scripts(console: Console, browser: Browser) -> None:
    stage = console.stage
    await stage.start_worker()
    run_id = (await stage.accept("Digest", app_id="acme")).run_id
    await stage.wait_for_end(run_id)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    misdeeds = watch(page, console.gateway.address)

    await page.goto(address(console, "/runs?workflow=Digest"))
    await log_in(page, "ua_" + "x" * 43)
    await expect(page.get_by_role("alert")).to_contain_text("unknown, revoked or expired")
    await log_in(page, await console.key())
    await expect(page).to_have_url(address(console, "/runs?workflow=Digest"))
    await page.get_by_label("State", exact=True).select_option("failed")
    await page.get_by_role("button", name="Show").click()
    await expect(page.get_by_text("No run matches.")).to_be_visible()
    await page.get_by_label("State", exact=True).select_option("succeeded")
    await page.get_by_label("Since").fill("1h")
    await page.get_by_role("button", name="Show").click()
    assert "state=succeeded" in page.url
    assert "since=1h" in page.url
    await page.get_by_role("link", name=f"…{run_id[-6:]}").click()

    await assert_story_is_shown(page)
    await context.close()
    assert misdeeds == []


async def assert_story_is_shown(page: Page) -> None:
    await expect(page.get_by_role("heading", level=1)).to_have_text("Digest for acme")
    story = await page.get_by_role("main").inner_text()
    for expected in (
        "succeeded",
        "Collector",
        "→ Writer",
        'count_orders({"region": "eu"})',
        "128",
        "There are 128 orders. NEXT",
        "collected\ntrue",
        "900 in, 60 out",
        "USD 0.001020",
        "600 in, 50 out",
        "Orders rose to 128 today.",
        "3 model calls",
        "succeeded after turn 2",
    ):
        assert expected in story, f"{expected} is not in: {story}"
    bars = page.locator("svg.span.of-turn .fill")
    assert await bars.count() == 2
    starts = [float(str(await bars.nth(at).get_attribute("x")).rstrip("%")) for at in range(2)]
    assert 0 <= starts[0] < starts[1] < 100


async def test_an_action_is_allowed_confirmed_and_done(console: Console, browser: Browser) -> None:
    stage = console.stage
    if not stage.workers:
        await stage.start_worker()
    run_id = (await stage.accept("Desk", app_id="acme")).run_id
    await stage.wait_for_end(run_id)
    key = await console.key("Grace", may=("approve",))
    async with logged_in(console, browser, key, java_script_enabled=False) as page:
        misdeeds = watch(page, console.gateway.address)
        await page.goto(address(console, f"/runs/{run_id}"))
        await expect(page.locator(".question")).to_contain_text("May I refund 120 EUR to Ada?")

        await page.get_by_role("link", name="Answer …").click()
        await expect(page.get_by_role("main")).to_contain_text("This session is read-only")
        await page.get_by_role("button", name="Allow actions for 15 minutes").click()
        await expect(page.get_by_role("main")).to_contain_text("continues from its checkpoint")
        await page.get_by_label("Your answer").fill("Yes, refund it.")
        assert (await stage.run(run_id))["state"] == "needs_human"  # nothing has changed yet
        await page.get_by_role("button", name="Send answer").click()

        await expect(page.get_by_role("status")).to_have_text(f"{run_id} has answer 1, and continues.")
        assert (await stage.reconcile_until_end(run_id))["state"] == "succeeded"
        await page.reload()
        await expect(page.get_by_role("main")).to_contain_text("Grace (console)")
        await expect(page.get_by_role("main")).to_contain_text("Yes, refund it.")
        await expect(page.get_by_role("status")).to_have_count(0)
        await page.get_by_role("button", name="End").click()
        await expect(page.get_by_role("button", name="Allow actions")).to_be_visible()
        assert misdeeds == []


async def test_a_choice_is_a_button_that_works_without_scripts(console: Console, browser: Browser) -> None:
    """What is shown is what is approved, and Enter in a field presses no choice."""
    run_id = await insert_asking_run(console, {**REFUND, "keys": ["verdict", "why"]}, LARGER)
    key = await console.key("Grace", may=("approve",))
    async with logged_in(console, browser, key, java_script_enabled=False) as page:
        misdeeds = watch(page, console.gateway.address)
        await page.get_by_role("button", name="Allow actions").click()
        await page.goto(address(console, f"/runs/{run_id}"))
        question = page.get_by_role("region", name="Refund 12 EUR to Ada Lovelace?")
        for shown in ("pay", "amount", "12", "EUR", "o-7", "arrived broken"):
            await expect(question).to_contain_text(shown)
        await question.get_by_label("Refund: why").fill("it was broken")
        await question.get_by_label("Refund: why").press("Enter")
        await expect(page.get_by_role("status")).to_have_count(0)
        assert (await console.stage.run(run_id))["answers"] == []

        await question.get_by_role("button", name="yes", exact=True).click()

        await expect(page.get_by_role("status")).to_have_text(f"{run_id} has answer 2; question 3 waits for an answer.")
        await expect(question).to_have_count(0)
        await expect(page.get_by_role("region", name="Answers")).to_contain_text("Refund 12 EUR to Ada Lovelace?")
        [hostile_answer] = (await console.stage.run(run_id))["answers"]
        assert hostile_answer["responses"] == {"Refund": {"verdict": "yes", "why": "it was broken"}}
        assert misdeeds == []


async def test_all_of_it_is_reached_by_keyboard(console: Console, browser: Browser) -> None:
    run_id = await accept_run(console.stage, app_id="keys")
    async with logged_in(console, browser, await console.key("keys", "keys")) as page:
        await page.keyboard.press("Tab")
        assert await focused_element(page) == "Skip to the content"
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        assert "running" in await focused_element(page)
        await page.goto(address(console, "/runs"))
        await page.keyboard.press("/")
        assert await page.evaluate("document.activeElement.name") == "workflow"
        await page.keyboard.type("Sales/")
        await page.keyboard.press("Backspace")
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Workflow")).to_have_value("Sales")
        await page.get_by_role("link", name=f"…{run_id[-6:]}").press("Enter")
        await page.get_by_role("link", name="Cancel …").press("Enter")
        await page.get_by_role("button", name="Allow actions for 15 minutes").press("Enter")
        await page.get_by_role("button", name="Yes, cancel it").press("Space")
        await expect(page.get_by_role("status")).to_have_text(f"{run_id}: cancelled.")


async def focused_element(page: Page) -> str:
    return str(await page.evaluate("document.activeElement.textContent"))


async def test_a_link_of_another_site_finds_the_session(console: Console, browser: Browser) -> None:
    """After a link in a mail browsers withhold a strict cookie, so the page reloads itself."""
    async with logged_in(console, browser, await console.key()) as page:
        target = address(console, "/runs?state=failed")
        await page.goto(address(console, "/runbook").replace("127.0.0.1", "localhost"))
        await page.evaluate("target => { location.href = target }", target)

        await expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
        assert page.url == target


async def test_the_runbook_is_read_without_login(console: Console, browser: Browser) -> None:
    page = await browser.new_page()
    misdeeds = watch(page, console.gateway.address)
    await page.goto(address(console, "/runbook"))
    link = page.get_by_role("navigation", name="Contents").get_by_role("link").first
    await link.click()
    anchor = page.url.partition("#")[2]
    await expect(page.locator(f"[id='{anchor}']")).to_have_text(str(await link.text_content()))
    await page.close()
    assert misdeeds == []


def attacked_turn() -> dict[str, object]:
    return {
        "agent": ATTACK,
        "text": ATTACK,
        "handoff": ATTACK,
        "events": [
            {"text": ATTACK, "tool_calls": [{"id": "1", "name": ATTACK, "arguments": ATTACK}]},
            {"tool_results": [{"id": "1", "name": ATTACK, "text": ATTACK, "failed": True}]},
        ],
        "context_changes": {ATTACK: ATTACK},
        "tokens": {"input": 1, "output": 1},
        "duration_s": 1.0,
        "errors": [{"where": ATTACK, "type": ATTACK, "message": ATTACK, "traceback": ""}],
    }


async def insert_attacked_run(console: Console) -> dict[str, str]:
    """Put hostile text into every field that a page shows; return the pages and its expected count on each."""
    database, store, now = console.gateway.ground.database, console.gateway.ground.store, datetime.now(UTC)
    spec = FormSpec(name="attacked", title=ATTACK, description=ATTACK, inputs={ATTACK: FormInput(label=ATTACK)})
    trigger = Trigger("Sales", spec, app_id=ATTACK)
    await console.gateway.ground.triggers.create(trigger)
    await console.gateway.ground.triggers.pause(trigger, Pause(now, ATTACK, ATTACK))
    note = {"at": now, "reason": ATTACK, "detail": ATTACK, "event_id": ATTACK}
    await database["triggers"].update_one({"_id": trigger.id}, {"$set": {"notes": [note]}})
    await insert_usage(database, [UsedCalls(app_id=ATTACK, workflow=ATTACK, agent=ATTACK, model=ATTACK, at=now)])
    await BudgetStore(database).set(parse_budget(app_id=ATTACK, window="day", unit="tokens", limit=1), by=ATTACK)
    run_id = await accept_run(console.stage, app_id=ATTACK, input={"x": ATTACK}, message=ATTACK, user_id=ATTACK)
    await store.turns.insert_one({**attacked_turn(), "_id": f"{run_id}:1", "run_id": run_id, "number": 1, "token": 1})
    ended = {"token": 1, "owner": ATTACK, "from": now, "until": now, "turn": 1, "ended": ATTACK, "reason": ATTACK}
    error = {"type": ATTACK, "message": ATTACK, "agent": ATTACK, "turn": 1}
    asked = {"kind": "tool", "tool": ATTACK, "agent": ATTACK, "turn": 1, "text": ATTACK, "payload": {"x": ATTACK}}
    bound = {"function": ATTACK, "arguments": {ATTACK: ATTACK}, "title": ATTACK}
    question = {**asked, **bound, "number": 2, "id": "q_1", "keys": [ATTACK, ATTACK * 2], "choices": [ATTACK]}
    hostile_answer = {"number": 1, "by": ATTACK, "name": ATTACK, "at": now, "turn": 1, "question": {**asked, **bound}}
    change = {
        "workflow": ATTACK,
        "trigger.name": ATTACK,
        "trigger.id": ATTACK,
        "state": "needs_human",
        "turn": 1,
        "started_at": now,
        "finished_at": now,
        "history": [ended],
        "outcome": {"kind": "needs_human", "reason": ATTACK, "error": error},
        "question": question,
        "questions": [question, {**asked, "number": 3, "keys": [ATTACK]}],
        "answers": [{**hostile_answer, "message": ATTACK, "responses": {ATTACK: ATTACK}}],
        "chain": [f"{ATTACK}/{ATTACK}"],
        "parent_run_id": ATTACK,
        "context": {"x": ATTACK},
    }
    await store.runs.update_one({"_id": run_id}, {"$set": change})
    return {"run": f"/runs/{run_id}", "answer": f"/runs/{run_id}/answer"}


async def test_what_others_have_written_is_shown_and_never_run(console: Console, browser: Browser) -> None:
    places = await insert_attacked_run(console)
    async with logged_in(console, browser, await console.key(ATTACK, may=("approve",))) as page:
        misdeeds = watch(page, console.gateway.address)
        await page.get_by_role("button", name="Allow actions").click()
        most: dict[str, int] = {}
        for name, path in {
            "overview": "",
            "runs": "/runs?state=needs_human",
            **places,
            "triggers": "/triggers?state=paused",
            "usage": "/usage?by=agent",
            "models": "/usage?by=model",
        }.items():
            answer = await page.goto(address(console, path))
            assert answer is not None
            assert answer.status == 200, name
            await page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
            most[name] = (await page.locator("body").inner_text()).count("<script>alert(1)</script>")
            assert await page.locator(FOREIGN).count() == 0, name
        least = {"overview": 10, "runs": 4, "run": 44, "answer": 20, "triggers": 3, "usage": 4, "models": 4}
        assert {name: count for name, count in most.items() if count < least[name]} == {}
        await page.goto(address(console, "/triggers?state=paused"))
        await page.get_by_role("link", name=re.compile("attacked")).click()
        assert (await page.locator("body").inner_text()).count("<script>alert(1)</script>") >= 6
        assert await page.locator(FOREIGN).count() == 0
        for query in ("/runs?workflow=", "/runs?state=", "/runs?id=", "/usage?by=", "/login?next="):
            await page.goto(address(console, query) + "%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
            assert await page.locator(FOREIGN).count() == 0, query
        assert misdeeds == []


async def test_the_watch_would_see_a_script_and_a_style_of_a_pages_own(console: Console, browser: Browser) -> None:
    async with logged_in(console, browser, await console.key()) as page:
        misdeeds = watch(page, console.gateway.address)
        await page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'alert(1)'}))")
        await page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color:red\" onclick=\"x()\">x')")
        await page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=http://127.0.0.1:9/x.png>')")
        await expect(page.locator("img")).to_have_count(1)
        assert sum("Content Security Policy" in each for each in misdeeds) >= 3, misdeeds


async def test_each_page_is_read_on_any_screen_by_day_and_night(console: Console, browser: Browser) -> None:
    run_id = await accept_run(console.stage, app_id="looks")
    key = await console.key("looks", may=("approve",))
    asks = await insert_asking_run(console, MESSAGE, REFUND, LARGER, FREE, app_id="looks")
    answered = {"by": "Grace (console)", "name": "the head of finance", "number": 1, "question": REFUND}
    store = console.gateway.ground.store
    await store.runs.update_one({"_id": asks}, {"$set": {"answers": [{**answered, "message": "Yes."}]}})
    paths = [f"/runs/{asks}", f"/runs/{asks}/answer", f"/runs/{asks}/discard"]
    paths += ["", "/runs", f"/runs/{run_id}", f"/runs/{run_id}/cancel", "/triggers", "/triggers/Sales/paid"]
    paths += ["/triggers/Sales/paid/fire", "/usage", "/runs/run_none", "/runbook"]
    async with logged_in(console, browser, key) as page:
        misdeeds = watch(page, console.gateway.address)
        await page.get_by_role("button", name="Allow actions").click()
        for path in paths:
            await page.goto(address(console, path))
            assert await page.get_by_role("heading", level=1).count() == 1, path
            assert await page.evaluate(WITHOUT_LABEL) == [], path
            for scheme, width in LOOKS:
                await page.set_viewport_size({"width": width, "height": 800})
                await page.emulate_media(color_scheme=scheme)
                where = f"{path} {scheme} {width}"
                assert await page.evaluate(WIDTH) <= width, where
                assert await page.evaluate(FAINT_TEXTS) == [], where
                assert await page.evaluate(HARD_TO_USE) == [], where
        assert misdeeds == []
