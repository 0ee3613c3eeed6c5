"""A picture of a dashboard, drawn from its JSON and the answers of a real Prometheus, in the style of Grafana.

It is no screenshot of Grafana: lines, numbers, tables, units, thresholds and positions follow the JSON, and the
surroundings are simplified.
"""

import time
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from tests.dashboards.graph import Line, draw_graph
from tests.dashboards.numbers import draw_bars, draw_stat, draw_table, series_name
from tests.dashboards.panel_queries import DashboardQuery, interpolate
from tests.dashboards.small_png import small_screenshot
from tests.integration.triggers.chromium import chromium

WIDTH, MARGIN, HEADER = 1400, 8, 54
COLUMN, LINE = (WIDTH - 2 * MARGIN) / 24, 38
TITLE_HEIGHT, PADDING = 30, 8
STYLE = Path(__file__).with_name("picture.css")


async def picture_of(dashboard: Mapping[str, Any], asking: DashboardQuery, *, rows: int | None = None) -> bytes:
    """Draw the dashboard, or the first `rows` of its grid."""
    page_text = _page(dashboard, asking)
    rows = rows or max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in dashboard["panels"])
    height = HEADER + rows * LINE
    async with chromium() as browser:
        page = await browser.new_page(viewport={"width": WIDTH, "height": height})
        await page.set_content(page_text)
        return await small_screenshot(page)


def _page(dashboard: Mapping[str, Any], asking: DashboardQuery) -> str:
    parts = [_header(dashboard, asking), *(_place_panel(panel, asking) for panel in dashboard["panels"])]
    return f"<!doctype html><meta charset=utf-8><style>{STYLE.read_text()}</style><body>{''.join(parts)}"


def _header(dashboard: Mapping[str, Any], asking: DashboardQuery) -> str:
    chosen = {each["name"]: each for each in dashboard["templating"]["list"]}
    values = {name: asking.chosen.get(name, "") for name in chosen if name not in ("datasource", "gateway")}
    chips = "".join(
        f"<span><b>{escape(chosen[name]['label'])}</b>{escape('All' if value == '.*' else str(value))}</span>"
        for name, value in values.items()
    )
    links = "".join(f"<span>{escape(each['title'])} ↗</span>" for each in dashboard["links"])
    start, end = (time.strftime("%H:%M", time.gmtime(at)) for at in (asking.window.start, asking.window.end))
    range_ = f'<span class="last">{start} to {end} UTC</span>'
    return f"<header><h1>{escape(dashboard['title'])}</h1>{chips}{range_}{links}</header>"


def _place_panel(panel: Mapping[str, Any], asking: DashboardQuery) -> str:
    place = panel["gridPos"]
    left, top = MARGIN + place["x"] * COLUMN, HEADER + place["y"] * LINE
    title = escape(interpolate(panel["title"], {**asking.chosen, "app": "all apps", "workflow": _workflow(asking)}))
    if panel["type"] == "row":
        return f'<div class="row" style="left:{left + 4}px;top:{top}px">⌄ {title}</div>'
    width, height = round(place["w"] * COLUMN - MARGIN), place["h"] * LINE - MARGIN
    inner = (width - 2 * PADDING, height - TITLE_HEIGHT - PADDING)
    kind = "side" if panel["type"] == "stat" else ""
    where = f"left:{left:.0f}px;top:{top}px;width:{width}px;height:{height}px"
    return (
        f'<section style="{where}"><h2>{title}<small>i</small></h2>'
        f'<div class="{kind}" style="--tall:{inner[1]}px">{_draw_panel(panel, asking, inner)}</div></section>'
    )


def _workflow(asking: DashboardQuery) -> str:
    chosen = asking.chosen.get("workflow", "")
    return "all workflows" if chosen == ".*" else str(chosen)


def _draw_panel(panel: Mapping[str, Any], asking: DashboardQuery, size: tuple[int, int]) -> str:
    answers = [asking.answer(target) for target in panel["targets"]]
    if panel["type"] == "stat":
        return draw_stat(panel, answers[0], size[0])
    if panel["type"] == "bargauge":
        return draw_bars(panel, answers[0], size[1])
    if panel["type"] == "table":
        return draw_table(panel, answers, now=asking.window.end, height=size[1])
    lines = [
        Line(series_name(target["legendFormat"], series.labels), series.points)
        for target, found in zip(panel["targets"], answers, strict=True)
        for series in found
    ]
    return draw_graph(panel, lines, (asking.window.start, asking.window.end), size)
