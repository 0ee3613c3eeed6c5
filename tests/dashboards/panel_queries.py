"""The queries that Grafana sends for a dashboard: with variables filled in, instant or over a range."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.prometheus_server import PrometheusServer, Series

FOLDER = Path(__file__).parents[2] / "ops" / "dashboards"
ALL = ".*"
_VARIABLE = re.compile(r"\$(?:([a-z_]\w*)|\{(\w+)(?::\w+)?\})")
_SPECIAL, _ESCAPED = re.compile(r"[$^*{}\[\]+?.()|]"), r"\\\\\g<0>"  # as Grafana does for PromQL
Document = Mapping[str, Any]


def dashboards() -> dict[str, Document]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def panels(dashboard: Document) -> Iterator[Document]:
    return (each for each in dashboard["panels"] if each["type"] != "row")


@dataclass(frozen=True, slots=True)
class DashboardWindow:
    """The time range of a dashboard, and the step of its queries."""

    start: float
    end: float
    step_s: int
    scrape_s: int = 1

    def variables(self) -> dict[str, str]:
        """Return Grafana's built-in variables."""
        rate_s = max(self.step_s + self.scrape_s, 4 * self.scrape_s)
        spans = {"__range": round(self.end - self.start), "__interval": self.step_s, "__rate_interval": rate_s}
        return {name: f"{seconds}s" for name, seconds in spans.items()}


@dataclass(frozen=True, slots=True)
class DashboardQuery:
    """Fill in `chosen` values of variables; several values become one regular expression, as in Grafana."""

    server: PrometheusServer
    window: DashboardWindow
    chosen: Mapping[str, str | Sequence[str]] = field(default_factory=dict)

    def expression(self, text: str) -> str:
        return interpolate(text, {**self.window.variables(), **self.chosen})

    def answer(self, target: Document) -> list[Series]:
        expression = self.expression(target["expr"])
        if target.get("instant"):
            return self.server.query(expression, at=self.window.end)
        window = self.window
        return self.server.query_range(expression, start=window.start, end=window.end, step_s=window.step_s)

    def values(self, variable: Document) -> list[str]:
        """Parse `label_values(series, label)`."""
        series, _, label = variable["query"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
        return self.server.label_values(label, match=series)


def interpolate(text: str, values: Mapping[str, str | Sequence[str]]) -> str:
    def value(match: re.Match[str]) -> str:
        found = values[match[1] or match[2]]
        return found if isinstance(found, str) else f"({'|'.join(_SPECIAL.sub(_ESCAPED, each) for each in found)})"

    return _VARIABLE.sub(value, text)
