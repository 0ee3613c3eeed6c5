"""The system's Chromium, driven by tests."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

WIDTH = "document.documentElement.scrollWidth"
# Each text against the nearest ground behind it, as WCAG 2 defines contrast.
FAINT_TEXTS = """() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => {
    const linear = part => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4;
    const [r, g, b] = parts(colour).map(part => linear(part / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = element => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor, alpha = parts(colour)[3];
      if (alpha === undefined || alpha === 1) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  for (const each of document.querySelectorAll("body *")) {
    const own = [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own && !each.matches("input:not([type=hidden], [type=checkbox]), select, textarea")) continue;
    const [high, low] = [light(getComputedStyle(each).color), light(ground(each))].sort((a, b) => b - a);
    if ((high + .05) / (low + .05) < 4.5) faint.push(each.outerHTML);
  }
  return faint;
}"""
# Of what takes the focus: too small to hit, or without a ring while it has the focus.
HARD_TO_USE = """() => {
  const wrong = [];
  for (const each of document.querySelectorAll("a, button:enabled, select, textarea, input:not([type=hidden])")) {
    each.focus({focusVisible: true});
    const {width, height} = each.getBoundingClientRect(), style = getComputedStyle(each);
    if (!each.matches("li a, p a") && (width < 24 || height < 24)) wrong.push("small: " + each.outerHTML);
    if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) wrong.push("no ring: " + each.outerHTML);
  }
  return wrong;
}"""
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def require_chromium() -> str:
    """In CI its absence is a failure: .ci/run installs it."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None and os.environ.get("CI"):
        pytest.fail("Chromium is not installed; .ci/run should have done it")
    if found is None:
        pytest.skip("Chromium is not installed here: apt-get install chromium")
    return found


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    path = require_chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


def watch(page: Page, address: tuple[str, int]) -> list[str]:
    """What the page does from now on that no page of ours may do: complaints of the browser, scripts that run, and
    requests to anywhere else."""
    host = f"{address[0]}:{address[1]}"
    seen: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        # Chromium also reports a page with status 422 or 503 as an error.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            seen.append(f"console: {message.text}")

    def on_request(request: Request) -> None:
        if urlsplit(request.url).netloc != host:
            seen.append(f"request: {request.url}")

    page.on("console", on_console)
    page.on("request", on_request)
    page.on("dialog", lambda dialog: seen.append(f"dialog: {dialog.message}"))
    page.on("pageerror", lambda error: seen.append(f"script: {error}"))
    return seen
