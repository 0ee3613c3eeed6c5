"""A graph panel and its legend, as SVG."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from tests.dashboards.theme import PALETTE, fixed_colors, hexadecimal
from tests.dashboards.units import format_value

LEFT, RIGHT, TOP, BOTTOM = 58, 8, 6, 20
_SPANS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
LEGEND_LINE, MOST_IN_LEGEND = 19, 5


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]

    @property
    def finite(self) -> list[tuple[float, float]]:
        return [(at, value) for at, value in self.points if not math.isnan(value)]


@dataclass(frozen=True, slots=True)
class Scale:
    start: float
    end: float
    top: float
    width: int
    height: int

    def x(self, at: float) -> float:
        return LEFT + (at - self.start) / (self.end - self.start) * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return TOP + (1 - value / self.top) * (self.height - TOP - BOTTOM)


def draw_graph(
    panel: Mapping[str, Any], lines: Sequence[Line], span: tuple[float, float], size: tuple[int, int]
) -> str:
    lines = sorted((line for line in lines if line.finite), key=lambda line: line.name)
    if not lines:
        return '<p class="nothing">No data</p>'
    colors = _colors(panel, lines)
    legend = min(len(lines), MOST_IN_LEGEND) * LEGEND_LINE + LEGEND_LINE
    drawn = (
        _stack(lines)
        if _custom_options(panel).get("stacking", {}).get("mode") == "normal"
        else [(each, None) for each in lines]
    )
    scale = Scale(*span, _top(panel, [line for line, _ in drawn]), size[0], size[1] - legend)
    shapes = [_grid(panel, scale), *_thresholds(panel, scale)]
    for line, below in drawn:
        shapes.append(_shape(line, below, scale, colors[line.name], _custom_options(panel).get("fillOpacity", 0)))
    svg = f'<svg width="{scale.width}" height="{scale.height}">{"".join(shapes)}</svg>'
    return svg + _legend(panel, lines, colors)


def _custom_options(panel: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = panel["fieldConfig"]["defaults"].get("custom", {})
    return found


def _colors(panel: Mapping[str, Any], lines: Sequence[Line]) -> dict[str, str]:
    fixed = fixed_colors(panel)
    return {line.name: fixed.get(line.name, PALETTE[place % len(PALETTE)]) for place, line in enumerate(lines)}


def _stack(lines: Sequence[Line]) -> list[tuple[Line, Line | None]]:
    found: list[tuple[Line, Line | None]] = []
    sums: dict[float, float] = {at: 0.0 for line in lines for at, _ in line.finite}
    below = Line("", [(at, 0.0) for at in sorted(sums)])
    for line in lines:
        for at, value in line.finite:
            sums[at] += value
        above = Line(line.name, [(at, sums[at]) for at in sorted(sums)])
        found.append((above, below))
        below = above
    return found[::-1]


def _top(panel: Mapping[str, Any], lines: Sequence[Line]) -> float:
    top_value = max(value for line in lines for _, value in line.finite)
    limits = [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1:]]
    if _custom_options(panel).get("thresholdsStyle") and limits and top_value > min(limits) / 4:
        top_value = max(top_value, min(limits))
    return top_value * 1.05 or 1.0


def _grid(panel: Mapping[str, Any], scale: Scale) -> str:
    unit, parts = panel["fieldConfig"]["defaults"].get("unit", "short"), []
    step = _round_step(scale.top / max(2, (scale.height - TOP - BOTTOM) // 38), unit)
    value = 0.0
    while value <= scale.top:
        y = scale.y(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{scale.width - RIGHT}"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escape(format_value(round(value, 9), unit))}</text>"
        )
        value += step
    every = next(each for each in _SPANS_S[2:] if (scale.end - scale.start) / each <= scale.width / 90)
    at = math.ceil(scale.start / every) * every
    while at < scale.end:
        label = time.strftime("%H:%M:%S" if every < 60 else "%H:%M", time.gmtime(at))
        parts.append(f'<path class="grid" d="M{scale.x(at):.1f} {TOP}V{scale.height - BOTTOM}"/>')
        parts.append(f'<text x="{scale.x(at):.1f}" y="{scale.height - 5}" text-anchor="middle">{label}</text>')
        at += every
    return "".join(parts)


def _round_step(minimum: float, unit: str) -> float:
    if unit == "s" and minimum > 1:
        return next(each for each in _SPANS_S if each >= minimum)
    if unit == "bytes":
        return 2**20 * _round_step(minimum / 2**20, "")
    size = float(10 ** math.floor(math.log10(minimum)))
    return next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= minimum * 0.999)


def _thresholds(panel: Mapping[str, Any], scale: Scale) -> list[str]:
    if not _custom_options(panel).get("thresholdsStyle"):
        return []
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1:]
    return [
        f'<path d="M{LEFT} {scale.y(step["value"]):.1f}H{scale.width - RIGHT}" stroke="{hexadecimal(step["color"])}" '
        'stroke-dasharray="8 6" opacity=".8"/>'
        for step in steps
        if step["value"] <= scale.top
    ]


def _shape(line: Line, below: Line | None, scale: Scale, color: str, opacity: float) -> str:
    upper = [f"{scale.x(at):.1f} {scale.y(value):.1f}" for at, value in line.finite]
    floor = below.finite if below else [(at, 0.0) for at, _ in line.finite]
    lower = [f"{scale.x(at):.1f} {scale.y(value):.1f}" for at, value in reversed(floor)]
    area = f'<path d="M{"L".join([*upper, *lower])}Z" fill="{color}" opacity="{opacity / 100}"/>'
    return area + f'<path d="M{"L".join(upper)}" fill="none" stroke="{color}" stroke-width="1.6"/>'


def _legend(panel: Mapping[str, Any], lines: Sequence[Line], colors: Mapping[str, str]) -> str:
    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    head = '<tr><th>Name</th><th class="n">Last *</th><th class="n">Max</th></tr>'
    body = "".join(
        f'<tr><td><i style="background:{colors[line.name]}"></i>{escape(line.name)}</td>'
        f'<td class="n">{escape(format_value(line.finite[-1][1], unit))}</td>'
        f'<td class="n">{escape(format_value(max(value for _, value in line.finite), unit))}</td></tr>'
        for line in lines[:MOST_IN_LEGEND]
    )
    return f'<table class="legend">{head}{body}</table>'
