"""Panels with numbers: single ones, bars, tables."""

import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tests.dashboards.theme import hexadecimal, threshold_color
from tests.dashboards.units import format_value
from tests.prometheus_server import Series

Panel = Mapping[str, Any]
Row = dict[str, float]


def series_name(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), legend).strip()


def draw_stat(panel: Panel, series: Sequence[Series], width: int) -> str:
    defaults = panel["fieldConfig"]["defaults"]
    numbers = [each for each in series if not math.isnan(each.value)]
    if not numbers:
        return f'<div class="stat"><b>{escape(defaults.get("noValue", "No data"))}</b></div>'
    legend = panel["targets"][0]["legendFormat"]
    texts = [format_value(each.value, defaults["unit"], decimals=defaults.get("decimals")) for each in numbers]
    size = min(34, 1.5 * width / len(numbers) / max(map(len, texts)))
    tiles = [
        f'<div class="stat">{_caption(legend, each) if len(numbers) > 1 else ""}'
        f'<b style="font-size:{size:.0f}px;color:{threshold_color(each.value, defaults["thresholds"]["steps"])}">'
        f"{escape(text)}</b></div>"
        for each, text in zip(numbers, texts, strict=True)
    ]
    return "".join(tiles)


def _caption(legend: str, series: Series) -> str:
    return f"<span>{escape(series_name(legend, series.labels))}</span>"


def draw_bars(panel: Panel, series: Sequence[Series], height: int) -> str:
    defaults, legend = panel["fieldConfig"]["defaults"], panel["targets"][0]["legendFormat"]
    if not series:
        return f'<p class="nothing">{escape(defaults.get("noValue", "No data"))}</p>'
    limit = defaults.get("max") or max(each.value for each in series) or 1.0
    tall = min(38, (height - 8) // len(series) - 6)
    return "".join(_bar(each, series_name(legend, each.labels), limit, tall, defaults) for each in series)


def _bar(series: Series, name: str, maximum: float, tall: int, defaults: Panel) -> str:
    color = threshold_color(series.value, defaults["thresholds"]["steps"])
    share = min(100.0, max(0.5, series.value / maximum * 100))
    return (
        f'<div class="bar" style="height:{tall}px"><span>{escape(name)}</span><div><i style="width:{share:.1f}%;'
        f'background:{color}55;border-right:2px solid {color}"></i></div>'
        f'<b style="color:{color}">{escape(format_value(series.value, defaults["unit"]))}</b></div>'
    )


def draw_table(panel: Panel, results: Sequence[Sequence[Series]], *, now: float, height: int) -> str:
    """Merge by labels, then order and rename, as the panel's transformations do."""
    organized = panel["transformations"][1]["options"]
    names = sorted(organized["indexByName"], key=organized["indexByName"].__getitem__)
    labels = [name for name in names if not name.startswith("Value")]
    columns = [name for name in names if name.startswith("Value")]
    rows: dict[tuple[str, ...], Row] = {}
    for column, series in zip(columns, results, strict=True):
        for each in series:
            rows.setdefault(tuple(each.labels.get(label, "") for label in labels), {})[column] = each.value
    if not rows:
        return f'<p class="nothing">{escape(panel["fieldConfig"]["defaults"].get("noValue", "No data"))}</p>'
    title = organized["renameByName"]
    head = "".join(f"<th>{escape(title[name])}</th>" for name in labels)
    head += "".join(f'<th class="n">{escape(title[name])}</th>' for name in columns)
    body = ""
    for key, values in list(rows.items())[: (height - 30) // 29]:
        cells = "".join(f"<td>{escape(each)}</td>" for each in key)
        cells += "".join(_cell(panel, title[name], values.get(name), now) for name in columns)
        body += f"<tr>{cells}</tr>"
    return f'<table class="rows"><tr>{head}</tr>{body}</table>'


def _cell(panel: Panel, column: str, value: float | None, now: float) -> str:
    if value is None or math.isnan(value):
        return '<td class="n"></td>'
    overrides = panel["fieldConfig"]["overrides"]
    column_properties = next(each["properties"] for each in overrides if each["matcher"]["options"] == column)
    properties = {each["id"]: each["value"] for each in column_properties}
    for mapping in properties.get("mappings", ()):
        word = mapping["options"].get(f"{value:g}")
        if word:
            return f'<td class="n" style="color:{hexadecimal(word["color"])}">{escape(word["text"])}</td>'
    steps = properties.get("thresholds", {}).get("steps")
    style = f' style="color:{threshold_color(value, steps)}"' if steps else ""
    text = format_value(value, properties["unit"], decimals=properties.get("decimals"), now=now)
    return f'<td class="n"{style}>{escape(text)}</td>'
