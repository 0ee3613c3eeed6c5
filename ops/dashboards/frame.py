"""What is around the panels: variables, links between the dashboards, time range, refresh."""

from collections.abc import Iterator, Mapping, Sequence

from grafana_foundation_sdk.builders import bargauge, dashboard, stat, table, timeseries
from grafana_foundation_sdk.models import dashboard as models

from ops.dashboards.look import CONSOLE, DATA_SOURCE, RUNBOOK

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
# A workflow that never ended a run may have spent tokens all the same, and the other way round.
_WHO = '{__name__=~"unattended_(runs|model_calls)_total"}'


def frame(uid: str, description: str, variables: Sequence[Variable], *, since: str = "now-1h") -> dashboard.Dashboard:
    made = (
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
    for variable in (_data_source(), *variables, _gateway()):
        made = made.with_variable(variable)
    for link in _links(uid):
        made = made.link(link)
    return made


def filled(made: dashboard.Dashboard, rows: Mapping[str, Sequence[Panel]]) -> dashboard.Dashboard:
    """Rows by their titles; panels stand side by side until a row of 24 columns is full."""
    for place, (title, panels) in enumerate(rows.items(), start=1):
        made = made.with_row(dashboard.Row(title).id(place))
        for panel in panels:
            made = made.with_panel(panel)
    return made


def app() -> Variable:
    return _of_labels("app", "App").multi(True).include_all(True).all_value(".*").current(_all())


def workflows() -> Variable:
    return _of_labels("workflow", "Workflow").multi(True).include_all(True).all_value(".*").current(_all())


def one_workflow() -> Variable:
    return _of_labels("workflow", "Workflow").multi(False).include_all(False)


def _of_labels(label: str, title: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(label)
        .label(title)
        .query(f"label_values({_WHO}, {label})")
        .datasource(DATA_SOURCE)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )


def _all() -> models.VariableOption:
    return models.VariableOption(selected=True, text=["All"], value=["$__all"])


def _data_source() -> Variable:
    return dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _gateway() -> Variable:
    said = "Where your browser reaches the gateway: links to console and runbook begin with it"
    return (
        dashboard.TextBoxVariable("gateway")
        .label("Gateway")
        .description(said)
        .default_value(GATEWAY)
        .current(models.VariableOption(selected=True, text=GATEWAY, value=GATEWAY))
    )


def _links(own: str) -> Iterator[dashboard.DashboardLink]:
    for uid, title in TITLES.items():
        if uid != own:
            yield dashboard.DashboardLink(title).url(f"/d/{uid}").include_vars(True).keep_time(True).icon("dashboard")
    yield dashboard.DashboardLink("Runbook").url(RUNBOOK).target_blank(True).icon("doc")
    yield dashboard.DashboardLink("Console").url(CONSOLE).target_blank(True).icon("external link")
