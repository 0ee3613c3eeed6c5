"""The API reference in a real browser: whole in itself, and to be read on any screen."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from tests.integration.triggers.chromium import FAINT_TEXTS, HARD_TO_USE, WIDTH, chromium, watch
from tests.integration.triggers.gateway_server import Gateway, running_gateway
from workers.settings import Settings

pytestmark = pytest.mark.integration

# A table or an example that is cut off.
CUT_OFF = """() => [...document.querySelectorAll(".wide, pre")]
  .filter(each => each.scrollWidth > each.clientWidth).map(each => each.outerHTML)"""
LOOKS: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 1280), ("dark", 320))


@pytest.fixture
async def gateway(settings: Settings, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(settings, tmp_path) as running:
        yield running


async def test_the_reference_loads_nothing_and_can_be_read(gateway: Gateway) -> None:
    async with chromium() as browser:
        for scheme, width in LOOKS:
            page = await browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            misdeeds = watch(page, gateway.address)

            answer = await page.goto(f"http://{gateway.address[0]}:{gateway.address[1]}/docs")

            assert answer is not None
            assert answer.status == 200
            assert await page.evaluate(WIDTH) <= width
            await page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
            assert await page.evaluate(CUT_OFF) == []
            assert await page.evaluate(FAINT_TEXTS) == []
            assert await page.evaluate(HARD_TO_USE) == []
            assert len(await page.get_by_role("heading", level=1).all()) == 1
            assert "POST" in await page.inner_text("main")
            assert misdeeds == []
