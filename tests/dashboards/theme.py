"""Colours and thresholds of Grafana's dark theme."""

from collections.abc import Mapping, Sequence
from typing import Any

COLORS = {
    "green": "#73bf69",
    "light-green": "#96d98d",
    "yellow": "#fade2a",
    "orange": "#ff9830",
    "red": "#f2495c",
    "dark-red": "#c4162a",
    "blue": "#5794f2",
    "light-blue": "#8ab8ff",
    "purple": "#b877d9",
    "text": "#8e8e99",
}
PALETTE = (
    *("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#705da0", "#37872d", "#fade2a"),
    *("#447ebc", "#c15c17", "#890f02", "#0a437c", "#6d1f62", "#584477"),
)


def hexadecimal(color: str) -> str:
    return COLORS[color]


def threshold_color(value: float, steps: Sequence[Mapping[str, Any]]) -> str:
    reached = [step for step in steps if step["value"] is None or value >= step["value"]]
    return hexadecimal(reached[-1]["color"])


def fixed_colors(panel: Mapping[str, Any]) -> dict[str, str]:
    """Return the colours of series, by name."""
    return {
        override["matcher"]["options"]: hexadecimal(each["value"]["fixedColor"])
        for override in panel["fieldConfig"]["overrides"]
        for each in override["properties"]
        if each["id"] == "color"
    }
