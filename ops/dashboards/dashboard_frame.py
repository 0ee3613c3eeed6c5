"""The frame of a dashboard: variables, links between dashboards, time range, refresh."""

from collections.abc import Iterator, Mapping, Sequence

from grafana_foundation_sdk.builders import bargauge, dashboard, stat, table, timeseries
from grafana_foundation_sdk.models import dashboard as models

from ops.dashboards.panels import CONSOLE, DATA_SOURCE, RUNBOOK

Panel = stat.Panel | timeseries.Panel | bargauge.Panel | table.Panel
Variable = dashboard.QueryVariable | dashboard.DatasourceVariable | dashboard.TextBoxVariable

TITLES: Mapping[str, str] = {
    "unattended-fleet": "Fleet",
    "unattended-usage": "Usage and cost",
    "unattended-triggers": "Triggers",
    "unattended-workflow": "Workflow",
}
TAG = "unattended"
GATEWAY = "http://127.0.0.1:8400"
# Runs and model calls together: a workflow may have one without the other.
_LABEL_SOURCE = '{__name__=~"unattended_(runs|model_calls)_total"}'


def make_dashboard(
    uid: str, description: str, variables: Sequence[Variable], *, since: str = "now-1h"
) -> dashboard.Dashboard:
    builder = (
        dashboard.Dashboard(f"Unattended / {TITLES[uid]}")
        .uid(uid)
        .description(description)
        .tags([TAG])
        .readonly()
        .timezone("browser")
        .time(since, "now")
        .refresh("30s")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
    )
    for variable in (_data_source_variable(), *variables, _gateway_variable()):
        builder = builder.with_variable(variable)
    for link in _dashboard_links(uid):
        builder = builder.link(link)
    return builder


def add_rows(builder: dashboard.Dashboard, rows: Mapping[str, Sequence[Panel]]) -> dashboard.Dashboard:
    """Add rows by title; Grafana places panels side by side until 24 columns are full."""
    for index, (title, panels) in enumerate(rows.items(), start=1):
        builder = builder.with_row(dashboard.Row(title).id(index))
        for panel in panels:
            builder = builder.with_panel(panel)
    return builder


def app_variable() -> Variable:
    return _label_variable("app", "App").multi(True).include_all(True).all_value(".*").current(_all_option())


def workflows_variable() -> Variable:
    return _label_variable("workflow", "Workflow").multi(True).include_all(True).all_value(".*").current(_all_option())


def workflow_variable() -> Variable:
    return _label_variable("workflow", "Workflow").multi(False).include_all(False)


def _label_variable(label: str, title: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(label)
        .label(title)
        .query(f"label_values({_LABEL_SOURCE}, {label})")
        .datasource(DATA_SOURCE)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )


def _all_option() -> models.VariableOption:
    return models.VariableOption(selected=True, text=["All"], value=["$__all"])


def _data_source_variable() -> Variable:
    return dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _gateway_variable() -> Variable:
    description = "Address of the gateway for your browser; links to console and runbook begin with it"
    return (
        dashboard.TextBoxVariable("gateway")
        .label("Gateway")
        .description(description)
        .default_value(GATEWAY)
        .current(models.VariableOption(selected=True, text=GATEWAY, value=GATEWAY))
    )


def _dashboard_links(own_uid: str) -> Iterator[dashboard.DashboardLink]:
    for uid, title in TITLES.items():
        if uid != own_uid:
            yield dashboard.DashboardLink(title).url(f"/d/{uid}").include_vars(True).keep_time(True).icon("dashboard")
    yield dashboard.DashboardLink("Runbook").url(RUNBOOK).target_blank(True).icon("doc")
    yield dashboard.DashboardLink("Console").url(CONSOLE).target_blank(True).icon("external link")
