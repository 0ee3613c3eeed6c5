"""The form in Chromium: without scripts, by keyboard, narrow, dark, and under attack."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect
from playwright.async_api import Error as PlaywrightError

from tests.integration.triggers.chromium import FAINT_TEXTS, HARD_TO_USE, WIDTH, chromium, watch
from tests.integration.triggers.gateway_server import Gateway
from tests.integration.triggers.shared_gateway import delete_runs, shared_gateway
from workers.embedded_services import Services
from workflows.package.trigger_specs.form_spec import FormInput, FormSpec

pytestmark = pytest.mark.integration

DEMO = FormSpec(
    name="demo",
    title="Request a product demo",
    description="A person writes back within a working day.",
    inputs={
        "name": FormInput(label="Full name", required=True),
        "email": FormInput(label="Work email", format="email", required=True, description="We write nowhere else."),
        "seats": FormInput(label="Number of seats", type="integer", default=10),
        "plan": FormInput(label="Plan", enum=("Team", "Business"), required=True),
        "start": FormInput(label="Preferred date", format="date"),
        "note": FormInput(label="What would you like to see?", multiline=True, max_length=1000),
        "news": FormInput(type="boolean", label="Send me the newsletter", default=True),
        "terms": FormInput(type="boolean", label="I agree to the privacy notice", required=True),
    },
)
ATTACK = """"'></style></textarea></title></option><script>alert(1)</script><img src=x onerror=alert(2)>"""
ATTACKED = FormSpec(
    name="attacked",
    title=ATTACK,
    description=ATTACK,
    inputs={
        ATTACK: FormInput(label=ATTACK, description=ATTACK, default=ATTACK, required=True),
        "choice": FormInput(label=ATTACK, enum=(ATTACK, "other"), default=ATTACK),
        "lines": FormInput(label=ATTACK, multiline=True, default=ATTACK),
        "number": FormInput(label=ATTACK, type="integer", required=True),
    },
)


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
async def served(
    servers: Services, dropped: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    async with shared_gateway(servers, folder, DEMO, ATTACKED, dropped=dropped) as running:
        yield running


@pytest.fixture
async def gateway(served: Gateway) -> Gateway:
    return await delete_runs(served)


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """Without scripts, as the page is made."""
    context = await browser.new_context(java_script_enabled=False)
    yield await context.new_page()
    await context.close()


def address(gateway: Gateway, form: str = "demo") -> str:
    return f"http://{gateway.address[0]}:{gateway.address[1]}/forms/acme/Sales/{form}"


async def fill_in(page: Page) -> None:
    await page.get_by_label("Full name").fill("Ada Lovelace")
    await page.get_by_label("Work email").fill("ada@example.com")
    await page.get_by_label("Plan").select_option("Business")
    await page.get_by_label("Preferred date").fill("2026-12-03")
    await page.get_by_label("What would you like to see?").fill("one\ntwo")
    await page.get_by_label("I agree to the privacy notice").check()


async def send(page: Page) -> None:
    await page.get_by_role("button", name="Send").click()


async def test_a_form_is_filled_in_and_sent_without_scripts(gateway: Gateway, page: Page) -> None:
    misdeeds = watch(page, gateway.address)
    await page.goto(address(gateway))
    await fill_in(page)
    await page.get_by_label("Send me the newsletter").uncheck()

    await send(page)

    await expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")
    assert misdeeds == []
    [run] = await gateway.runs()
    assert run["input"] == {
        "name": "Ada Lovelace",
        "email": "ada@example.com",
        "seats": 10,
        "plan": "Business",
        "start": "2026-12-03",
        "note": "one\ntwo",
        "news": False,
        "terms": True,
    }
    await expect(page.locator(".number")).to_have_text(run["_id"])
    await page.get_by_role("link", name="Fill in the form again").click()
    await expect(page.get_by_label("Full name")).to_have_value("")


async def test_errors_are_beside_the_fields_and_reached_by_keyboard(gateway: Gateway, page: Page) -> None:
    misdeeds = watch(page, gateway.address)
    await page.goto(address(gateway))
    await page.get_by_label("Full name").fill("Ada Lovelace")
    await page.get_by_label("Work email").fill("ada@example")
    await page.get_by_label("Send me the newsletter").uncheck()
    await send(page)

    await expect(page).to_have_title("Error: Request a product demo")
    email = page.get_by_label("Work email")
    await expect(email).to_have_attribute("aria-invalid", "true")
    await expect(email).to_have_accessible_description(
        "We write nowhere else. Error: This must be an email address, such as ada@example.com."
    )
    await expect(page.get_by_role("alert")).to_be_focused()
    focused = [await tab_to(page) for _ in range(4)]
    assert focused == [
        "Work email – this must be an email address, such as ada@example.com",
        "Plan – this is required",
        "I agree to the privacy notice – this must be ticked",
        "name",
    ]
    for _ in range(3):
        await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Enter")
    await expect(email).to_be_focused()
    await expect(email).to_have_value("ada@example")
    await expect(page.get_by_label("Full name")).to_have_value("Ada Lovelace")
    await expect(page.get_by_label("Send me the newsletter")).not_to_be_checked()

    await page.keyboard.press("ControlOrMeta+a")
    await page.keyboard.type("ada@example.com")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    await page.keyboard.type("Team")
    await page.get_by_label("I agree to the privacy notice").press("Space")
    await page.get_by_label("Full name").press("Enter")

    await expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")
    assert misdeeds == []
    [run] = await gateway.runs()
    assert (run["input"]["email"], run["input"]["plan"], run["input"]["news"]) == ("ada@example.com", "Team", False)


async def tab_to(page: Page) -> str:
    await page.keyboard.press("Tab")
    name: str = await page.evaluate("document.activeElement.name || document.activeElement.textContent")
    return name


async def test_an_impatient_second_click_and_a_reload_make_one_run(gateway: Gateway, page: Page) -> None:
    taken: asyncio.Queue[int] = asyncio.Queue()
    clicked_again = asyncio.Event()

    async def slow_network(route: Route) -> None:
        answer = await route.fetch(max_redirects=0)
        taken.put_nowait(answer.status)
        await clicked_again.wait()
        with suppress(PlaywrightError):  # a second click gives the first one's answer up
            await route.fulfill(response=answer)

    await page.goto(address(gateway))
    await fill_in(page)
    await page.route(address(gateway), slow_network)
    await page.get_by_role("button", name="Send").scroll_into_view_if_needed()
    button = await page.get_by_role("button", name="Send").bounding_box()
    assert button is not None
    await page.mouse.click(button["x"] + 5, button["y"] + 5)  # a locator's click would wait for the first answer
    first = await taken.get()
    await page.mouse.click(button["x"] + 5, button["y"] + 5)
    second = await taken.get()
    clicked_again.set()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")
    await page.reload()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")

    assert (first, second) == (303, 303)
    assert len(await gateway.runs()) == 1


async def test_a_number_that_is_typed_by_half_is_not_sent_as_nothing(gateway: Gateway, page: Page) -> None:
    await page.goto(address(gateway))
    await fill_in(page)
    await page.get_by_label("Number of seats").press("ControlOrMeta+a")
    await page.keyboard.type("1e")

    await send(page)

    await expect(page.get_by_label("Number of seats")).to_be_focused()
    assert await gateway.runs() == []


async def test_a_narrow_screen_never_scrolls_sideways(gateway: Gateway, page: Page) -> None:
    await page.set_viewport_size({"width": 320, "height": 640})

    await page.goto(address(gateway, "attacked"))
    assert await page.evaluate(WIDTH) <= 320
    await page.goto(address(gateway))
    assert await page.evaluate(WIDTH) <= 320
    await page.get_by_label("Full name").fill("x" * 200)
    await send(page)
    assert await page.evaluate(WIDTH) <= 320
    await fill_in(page)
    await send(page)
    await expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")
    assert await page.evaluate(WIDTH) <= 320


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_can_be_read_and_every_control_be_hit(gateway: Gateway, page: Page, scheme: Any) -> None:
    await page.emulate_media(color_scheme=scheme)
    await page.goto(address(gateway))
    await page.get_by_label("Work email").fill("ada@example")
    await send(page)
    await expect(page.get_by_role("alert")).to_be_visible()

    assert await page.evaluate(FAINT_TEXTS) == []
    assert await page.evaluate(HARD_TO_USE) == []
    assert len(await page.get_by_role("heading", level=1).all()) == 1
    for each in await page.locator("input:not([type=hidden]), select, textarea").all():
        await expect(each).to_have_accessible_name(re.compile(r"\w"))


async def test_a_text_of_an_author_or_a_stranger_is_never_markup(gateway: Gateway, browser: Browser) -> None:
    """With scripts, so that one could run; and each place is looked at, since the policy would stop it anyway."""
    context = await browser.new_context()
    page = await context.new_page()
    misdeeds = watch(page, gateway.address)
    await page.goto(address(gateway, "attacked"))
    await expect(page.get_by_role("heading", level=1)).to_have_text(ATTACK)
    await expect(page.locator("#field-1")).to_have_value(ATTACK)
    await expect(page.locator("#field-2")).to_have_value(ATTACK)
    assert await foreign_elements(page) == 0
    await page.locator("#field-3").fill(ATTACK)
    await send(page)
    await expect(page.get_by_role("alert")).to_contain_text(ATTACK)
    await expect(page.locator("#field-3")).to_have_value(ATTACK)
    assert await foreign_elements(page) == 0

    fields = "".join(f"<input name='{name}'>" for name in ("number", "&lt;script&gt;alert(3)&lt;/script&gt;"))
    await page.goto("about:blank")
    await page.set_content(f"<form method=post action='{address(gateway, 'attacked')}'>{fields}<button>x</button>")
    await page.locator("input").nth(0).fill(ATTACK)
    await page.locator("input").nth(1).fill(ATTACK)
    await page.get_by_role("button").click()
    await expect(page.get_by_role("alert")).to_contain_text("<script>alert(3)</script> – this is not a field")
    assert await foreign_elements(page) == 0
    await context.close()
    assert misdeeds == []
    assert await gateway.runs() == []


async def foreign_elements(page: Page) -> int:
    return await page.locator("script, img, iframe, object, embed, svg, link, [onerror], [onload], [onclick]").count()


async def test_the_watch_would_see_a_script_and_a_breach_of_the_policy(gateway: Gateway, browser: Browser) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    misdeeds = watch(page, gateway.address)
    await page.goto(address(gateway))
    await page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=http://127.0.0.1:9/x.png>')")
    await page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'alert(1)'}))")
    await expect(page.locator("img")).to_have_count(1)
    await context.close()
    assert sum("Content Security Policy" in each for each in misdeeds) >= 2, misdeeds
