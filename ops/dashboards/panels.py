"""Panels that all dashboards share: their kinds, colours, thresholds, queries and links."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from workflows.outcome import OutcomeKind

GREEN, YELLOW, RED, BLUE = "green", "yellow", "red", "blue"
PER_SECOND = "suffix:/s"
COUNT = "locale"  # whole numbers, with separators
# An outcome has the same colour in every panel: red for operators, orange for package authors, yellow for limits.
OUTCOMES: Mapping[OutcomeKind, str] = {
    OutcomeKind.COMPLETED: GREEN,
    OutcomeKind.CANCELLED: "text",
    OutcomeKind.MAX_TURNS: "light-green",
    OutcomeKind.NO_TRANSITION: "light-blue",
    OutcomeKind.NEEDS_HUMAN: BLUE,
    OutcomeKind.HANDED_BACK: "light-blue",
    OutcomeKind.BUDGET_EXHAUSTED: YELLOW,
    OutcomeKind.TIMEOUT: YELLOW,
    OutcomeKind.LOOP_DETECTED: "orange",
    OutcomeKind.WORKFLOW_FAILED: "orange",
    OutcomeKind.PACKAGE_ERROR: "orange",
    OutcomeKind.TOOL_ERROR: "purple",
    OutcomeKind.MODEL_ERROR: RED,
    OutcomeKind.WORKER_LOST: "dark-red",
}
DATA_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
CONSOLE = "${gateway:raw}/console"
RUNBOOK = f"{CONSOLE}/runbook"

GRAPH_HEIGHT = 8
STAT_HEIGHT = 4

_TO_WORKFLOW = models.DynamicConfigValue(
    id_val="links",
    value=[
        {"title": "Workflow dashboard", "url": "/d/unattended-workflow?var-workflow=${__value.raw}&${__url_time_range}"}
    ],
)


def query(expression: str, legend: str = "", *, ref: str = "A", instant: bool = False) -> prometheus.Dataquery:
    builder = prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(ref).datasource(DATA_SOURCE)
    return builder.instant() if instant else builder.range()


def stat_panel(
    id_: int, title: str, description: str, expression: str, *, unit: str, width: int = 4, legend: str = ""
) -> stat.Panel:
    """Build a panel with one number; with a legend, one number per series."""
    return (
        stat.Panel()
        .id(id_)
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .height(STAT_HEIGHT)
        .span(width)
        .unit(unit)
        .with_target(query(expression, legend or title, instant=True))
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .color_mode(common_models.BigValueColorMode.VALUE)
        .graph_mode(common_models.BigValueGraphMode.NONE)
        .thresholds(neutral_thresholds())
    )


def graph_panel(id_: int, title: str, description: str, *, unit: str, width: int = 8) -> timeseries.Panel:
    return (
        timeseries.Panel()
        .id(id_)
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .height(GRAPH_HEIGHT)
        .span(width)
        .unit(unit)
        .min(0)
        .line_width(2)
        .fill_opacity(10)
        .show_points(common_models.VisibilityMode.NEVER)
        .color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC))
        .thresholds(neutral_thresholds())
        .legend(
            common.VizLegendOptions()
            .display_mode(common_models.LegendDisplayMode.TABLE)
            .placement(common_models.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI))
    )


def stack(panel: timeseries.Panel) -> timeseries.Panel:
    """Stack the series of a panel, as parts of a whole."""
    return panel.fill_opacity(40).stacking(common.StackingConfig().mode(common_models.StackingMode.NORMAL))


def colour_by_outcome(panel: timeseries.Panel) -> timeseries.Panel:
    for kind, color in OUTCOMES.items():
        fixed = {"mode": "fixed", "fixedColor": color}
        panel = panel.override_by_name(kind.value, [models.DynamicConfigValue(id_val="color", value=fixed)])
    return stack(panel)


def bar_panel(id_: int, title: str, description: str, *, unit: str) -> bargauge.Panel:
    """Build horizontal bars that compare series."""
    return (
        bargauge.Panel()
        .id(id_)
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .height(GRAPH_HEIGHT)
        .span(8)
        .unit(unit)
        .min(0)
        .orientation(common_models.VizOrientation.HORIZONTAL)
        .display_mode(common_models.BarGaugeDisplayMode.BASIC)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .thresholds(neutral_thresholds())
    )


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of numbers; the table's labels define its rows."""

    title: str
    expression: str
    unit: str = "short"
    decimals: int | None = None
    thresholds: dashboard.ThresholdsConfig | None = None
    value_texts: dict[str, models.ValueMappingResult] | None = None


def count_column(title: str, expression: str, thresholds: dashboard.ThresholdsConfig | None = None) -> TableColumn:
    """Build a column without decimals: Prometheus extrapolates a range, which gives fractions of whole counts."""
    return TableColumn(title, expression, COUNT, decimals=0, thresholds=thresholds)


def table_panel(
    id_: int, title: str, description: str, labels: dict[str, str], columns: Sequence[TableColumn]
) -> table.Panel:
    """Build a table of instant values: a row per combination of labels, a column per expression."""
    panel = table.Panel().id(id_).title(title).description(description).datasource(DATA_SOURCE)
    panel = panel.height(GRAPH_HEIGHT).span(24).unit("short").thresholds(neutral_thresholds())
    names = ["Value"] if len(columns) == 1 else [f"Value #{ref}" for ref in _refs(columns)]
    for ref, column in zip(_refs(columns), columns, strict=True):
        target = query(column.expression, ref=ref, instant=True).format(PromQueryFormat.TABLE)
        panel = panel.with_target(target).override_by_name(column.title, _column_properties(column))
    if "workflow" in labels:
        panel = panel.override_by_name(labels["workflow"], [_TO_WORKFLOW])
    renamed = {**labels, **dict(zip(names, [column.title for column in columns], strict=True))}
    organized = {
        "excludeByName": {"Time": True},
        "indexByName": {name: index for index, name in enumerate(renamed)},
        "renameByName": renamed,
    }
    return panel.with_transformation(models.DataTransformerConfig(id_val="merge", options={})).with_transformation(
        models.DataTransformerConfig(id_val="organize", options=organized)
    )


def _refs(columns: Sequence[TableColumn]) -> str:
    return "ABCDEFGHIJ"[: len(columns)]


def _column_properties(column: TableColumn) -> list[models.DynamicConfigValue]:
    properties: list[models.DynamicConfigValue] = [models.DynamicConfigValue(id_val="unit", value=column.unit)]
    if column.decimals is not None:
        properties.append(models.DynamicConfigValue(id_val="decimals", value=column.decimals))
    if column.thresholds is not None:
        properties.append(models.DynamicConfigValue(id_val="thresholds", value=column.thresholds.build()))
    if column.value_texts is not None:
        properties.append(
            models.DynamicConfigValue(id_val="mappings", value=[models.ValueMap(options=column.value_texts)])
        )
    if column.thresholds is not None or column.value_texts is not None:
        properties.append(models.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}))
    return properties


def neutral_thresholds() -> dashboard.ThresholdsConfig:
    return _threshold_steps(models.Threshold(value=None, color=BLUE))


def rising_thresholds(warning: float, critical: float | None = None) -> dashboard.ThresholdsConfig:
    steps = [models.Threshold(value=None, color=GREEN), models.Threshold(value=warning, color=YELLOW)]
    return _threshold_steps(*steps, *([models.Threshold(value=critical, color=RED)] if critical is not None else []))


def critical_threshold(critical: float) -> dashboard.ThresholdsConfig:
    return _threshold_steps(models.Threshold(value=None, color=GREEN), models.Threshold(value=critical, color=RED))


def falling_thresholds(warning: float, good: float) -> dashboard.ThresholdsConfig:
    return _threshold_steps(
        models.Threshold(value=None, color=RED),
        models.Threshold(value=warning, color=YELLOW),
        models.Threshold(value=good, color=GREEN),
    )


def _threshold_steps(*steps: models.Threshold) -> dashboard.ThresholdsConfig:
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(list(steps))


def add_threshold_lines(panel: timeseries.Panel, thresholds: dashboard.ThresholdsConfig) -> timeseries.Panel:
    """Draw the thresholds as dashed lines."""
    style = common.GraphThresholdsStyleConfig().mode(common_models.GraphTresholdsStyleMode.DASHED)
    return panel.thresholds(thresholds).thresholds_style(style)


def value_text(text: str, color: str, index: int) -> models.ValueMappingResult:
    return models.ValueMappingResult(text=text, color=color, index=index)


def runbook_link(heading: str) -> dashboard.DashboardLink:
    """Link to a section of the runbook page that the gateway serves."""
    anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    return dashboard.DashboardLink(f"Runbook: {heading}").url(f"{RUNBOOK}#{anchor}").target_blank(True)
