"""The dashboard Workflow: the runs, agents, tools and cost of one workflow."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.dashboards.dashboard_frame import Panel, add_rows, app_variable, make_dashboard, workflow_variable
from ops.dashboards.panels import (
    COUNT,
    PER_SECOND,
    TableColumn,
    bar_panel,
    colour_by_outcome,
    count_column,
    falling_thresholds,
    graph_panel,
    query,
    rising_thresholds,
    runbook_link,
    stack,
    stat_panel,
    table_panel,
)
from ops.dashboards.promql import (
    AGENT_INPUT_TOKENS,
    AGENT_OUTPUT_TOKENS,
    COST,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    RUNS,
    increase,
    quantile,
    rate,
    store_increase,
    store_rate,
    success_share,
)

APPS_SELECTOR = 'workflow="$workflow", app=~"$app"'
WORKFLOW_SELECTOR = 'workflow="$workflow"'
HANDOFF_SELECTOR = f'{WORKFLOW_SELECTOR}, target!~"user|terminate"'  # only hand-offs to another agent
DURATION = "unattended_run_duration_seconds"
TOOL_SECONDS = "unattended_tool_call_seconds"
CALL_SECONDS = "unattended_model_call_seconds"
ALL_APPS_TEXT = "Covers all apps, as workers do not count by app."


def build() -> Dashboard:
    description = "One workflow: outcomes and durations of its runs, its agents and tools, and its cost."
    return add_rows(
        make_dashboard("unattended-workflow", description, [workflow_variable(), app_variable()]),
        {
            "$workflow in the time range": _summary_panels(),
            "Runs": _run_panels(),
            "Agents": _agent_panels(),
            "Tools": _tool_panels(),
            "Cost": _cost_panels(),
        },
    )


def _summary_panels() -> list[Panel]:
    good = (
        "Share of the runs that ended well. Not counted: cancelled runs, runs that a budget stopped, and runs that the "
        "workflow itself ended as failed. The table below has all outcomes."
    )
    total = f"({store_increase(RUNS, where=APPS_SELECTOR)} or vector(0))"
    cost = f"{store_increase(COST, where=APPS_SELECTOR)} / ({store_increase(RUNS, where=APPS_SELECTOR)} > 0)"
    finished = increase(f"{DURATION}_count", where=WORKFLOW_SELECTOR)
    turns = f"{increase('unattended_turns_total', where=WORKFLOW_SELECTOR)} / ({finished} > 0)"
    median, upper = (quantile(share, DURATION, "", WORKFLOW_SELECTOR, over="$__range") for share in (0.5, 0.95))
    lasted = f"from the first start of a run to its end, waiting included. {ALL_APPS_TEXT}"
    return [
        stat_panel(401, "Runs ended", "Runs of the chosen apps that ended or parked.", total, unit=COUNT).decimals(0),
        stat_panel(402, "Ended well", good, success_share(APPS_SELECTOR), unit="percentunit")
        .decimals(1)
        .no_value("no runs")
        .thresholds(falling_thresholds(0.95, 0.99))
        .links([runbook_link("Runs fail")]),
        stat_panel(403, "Duration, median", f"Median duration {lasted}", median, unit="s").no_value("no runs"),
        stat_panel(
            404, "Duration, 95 %", f"95 % of the runs took at most this long, {lasted}", upper, unit="s"
        ).no_value("no runs"),
        stat_panel(
            405,
            "Turns per run",
            f"Many more than usual: agents hand over in circles. {ALL_APPS_TEXT}",
            turns,
            unit="short",
        )
        .decimals(1)
        .no_value("no runs"),
        stat_panel(
            406,
            "USD per run",
            "Average cost of a run of the chosen apps, by the price table.",
            cost,
            unit="currencyUSD",
        ).no_value("no runs"),
    ]


def _run_panels() -> list[Panel]:
    outcomes = "Runs that ended or parked, by outcome. `unattended runs list --workflow … --outcome …` lists them."
    table = "Every outcome of the time range, by app. Check all but `completed` and `cancelled`."
    duration = f"From the first start of a run to its end or its parking, waiting included. {ALL_APPS_TEXT}"
    start = (
        "Time from acceptance to first start, holds included, by trigger type: 95 % of the runs of all workflows, "
        "which share the workers."
    )
    retries = f"Failed attempts that are followed by another one, by reason. {ALL_APPS_TEXT}"
    waited = "unattended_run_queue_seconds"
    return [
        colour_by_outcome(graph_panel(411, "Runs ended by outcome", outcomes, unit=PER_SECOND))
        .with_target(query(store_rate(RUNS, "outcome", APPS_SELECTOR), "{{outcome}}"))
        .links([runbook_link("Runs fail"), runbook_link("Replay after an incident")]),
        graph_panel(412, "Duration", duration, unit="s")
        .with_target(query(quantile(0.5, DURATION, "", WORKFLOW_SELECTOR), "median"))
        .with_target(query(quantile(0.95, DURATION, "", WORKFLOW_SELECTOR), "95 %", ref="B"))
        .with_target(query(quantile(0.99, DURATION, "", WORKFLOW_SELECTOR), "99 %", ref="C")),
        table_panel(
            413,
            "Outcomes in the time range",
            table,
            {"app": "App", "outcome": "Outcome"},
            [count_column("Runs", f"sort_desc({store_increase(RUNS, 'app, outcome', APPS_SELECTOR)} > 0)")],
        ).span(8),
        graph_panel(414, "Time to start, all workflows", start, unit="s", width=12)
        .with_target(query(quantile(0.95, waited, "trigger"), "{{trigger}}"))
        .links([runbook_link("Runs start late")]),
        graph_panel(415, "Retries by reason", retries, unit=PER_SECOND, width=12)
        .with_target(query(rate("unattended_run_retries_total", "reason", WORKFLOW_SELECTOR), "{{reason}}"))
        .links([runbook_link("A run is parked")]),
    ]


def _agent_panels() -> list[Panel]:
    turns = f"Committed turns by agent. {ALL_APPS_TEXT}"
    handoffs = f"Hand-offs by source and target: an agent, user or terminate. {ALL_APPS_TEXT}"
    calls = f"Duration of model calls: median and 95 % of the calls, by agent. {ALL_APPS_TEXT}"
    table = f"The time range by agent. Tokens are from the ledger, the rest is counted by workers. {ALL_APPS_TEXT}"
    return [
        stack(graph_panel(421, "Turns by agent", turns, unit=PER_SECOND)).with_target(
            query(rate("unattended_turns_total", "agent", WORKFLOW_SELECTOR), "{{agent}}")
        ),
        graph_panel(422, "Hand-offs by agent", handoffs, unit=PER_SECOND).with_target(
            query(rate("unattended_handoffs_total", "agent, target", WORKFLOW_SELECTOR), "{{agent}} → {{target}}")
        ),
        graph_panel(423, "Time of model calls by agent", calls, unit="s")
        .with_target(query(quantile(0.5, CALL_SECONDS, "agent", WORKFLOW_SELECTOR), "{{agent}} median"))
        .with_target(query(quantile(0.95, CALL_SECONDS, "agent", WORKFLOW_SELECTOR), "{{agent}} 95 %", ref="B")),
        table_panel(
            424,
            "Agents in the time range",
            table,
            {"agent": "Agent"},
            [
                count_column("Turns", f"sort_desc({increase('unattended_turns_total', 'agent', WORKFLOW_SELECTOR)})"),
                count_column("Hand-offs", increase("unattended_handoffs_total", "agent", HANDOFF_SELECTOR)),
                count_column("Model calls", increase(f"{CALL_SECONDS}_count", "agent", WORKFLOW_SELECTOR)),
                TableColumn(
                    "95 % of calls", quantile(0.95, CALL_SECONDS, "agent", WORKFLOW_SELECTOR, over="$__range"), "s"
                ),
                TableColumn("Input tokens", store_increase(AGENT_INPUT_TOKENS, "agent", WORKFLOW_SELECTOR)),
                TableColumn("Output tokens", store_increase(AGENT_OUTPUT_TOKENS, "agent", WORKFLOW_SELECTOR)),
            ],
        ).height(6),
    ]


def _tool_panels() -> list[Panel]:
    seconds = f"Duration of tool calls, failed ones included: median and 95 % of the calls. {ALL_APPS_TEXT}"
    errors = (
        "Tool calls that failed, or whose arguments were refused. The model gets the error and may try again; "
        f"`unattended runs show ID` has the message. {ALL_APPS_TEXT}"
    )
    table = f"The time range by tool. {ALL_APPS_TEXT}"
    calls, failed = f"{TOOL_SECONDS}_count", "unattended_tool_errors_total"
    share = f"{increase(failed, 'tool', WORKFLOW_SELECTOR)} / ({increase(calls, 'tool', WORKFLOW_SELECTOR)} > 0)"
    return [
        graph_panel(431, "Time of tool calls", seconds, unit="s")
        .with_target(query(quantile(0.5, TOOL_SECONDS, "tool", WORKFLOW_SELECTOR), "{{tool}} median"))
        .with_target(query(quantile(0.95, TOOL_SECONDS, "tool", WORKFLOW_SELECTOR), "{{tool}} 95 %", ref="B")),
        graph_panel(432, "Tool errors", errors, unit=PER_SECOND).with_target(
            query(rate(failed, "tool", WORKFLOW_SELECTOR), "{{tool}}")
        ),
        table_panel(
            433,
            "Tools in the time range",
            table,
            {"tool": "Tool"},
            [
                count_column("Calls", f"sort_desc({increase(calls, 'tool', WORKFLOW_SELECTOR)})"),
                count_column("Failed", increase(failed, "tool", WORKFLOW_SELECTOR)),
                TableColumn("Share", share, "percentunit", 0, rising_thresholds(0.05, 0.2)),
            ],
        ).span(8),
    ]


def _cost_panels() -> list[Panel]:
    hourly = "Cost of an hour of this workflow at the present rate, by app."
    tokens = "Tokens per second of the chosen apps. Input grows with the length of a chat: check turns per run."
    most = "The ten apps with the highest cost of this workflow in the time range."
    return [
        stack(graph_panel(441, "Cost per hour by app", hourly, unit="currencyUSD"))
        .with_target(query(f"3600 * {store_rate(COST, 'app', APPS_SELECTOR)}", "{{app}}"))
        .links([runbook_link("A budget is nearly spent")]),
        graph_panel(442, "Tokens", tokens, unit=PER_SECOND)
        .with_target(query(store_rate(INPUT_TOKENS, where=APPS_SELECTOR), "input"))
        .with_target(query(store_rate(OUTPUT_TOKENS, where=APPS_SELECTOR), "output", ref="B")),
        bar_panel(443, "Cost by app", most, unit="currencyUSD").with_target(
            query(f"sort_desc(topk(10, {store_increase(COST, 'app', APPS_SELECTOR)}))", "{{app}}", instant=True)
        ),
    ]
