"""The dashboard Workflow: how one workflow gets on, its agents, its tools, and what it costs."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.dashboards.expressions import (
    AGENT_INPUT_TOKENS,
    AGENT_OUTPUT_TOKENS,
    COST,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    RUNS,
    grown,
    quantile,
    rate,
    store_grown,
    store_rate,
    succeeded_share,
)
from ops.dashboards.frame import Panel, app, filled, frame, one_workflow
from ops.dashboards.look import (
    COUNT,
    PER_SECOND,
    Column,
    bad_from,
    bars,
    by_outcome,
    counted,
    good_from,
    graph,
    query,
    rows,
    runbook,
    stacked,
    stat_of,
)

OF_APPS = 'workflow="$workflow", app=~"$app"'
OF_ALL = 'workflow="$workflow"'
TO_AGENTS = f'{OF_ALL}, target!~"user|terminate"'  # hand-offs that end or pause a chat are none to another agent
DURATION = "unattended_run_duration_seconds"
TOOL_SECONDS = "unattended_tool_call_seconds"
CALL_SECONDS = "unattended_model_call_seconds"
ALL_APPS = "Of all apps: workers do not count by app."


def build() -> Dashboard:
    said = "One workflow: how its runs end and how long they take, its agents and tools, and what it costs."
    return filled(
        frame("unattended-workflow", said, [one_workflow(), app()]),
        {
            "$workflow in the chosen time range": _glance(),
            "Runs": _runs(),
            "Agents": _agents(),
            "Tools": _tools(),
            "What it costs": _costs(),
        },
    )


def _glance() -> list[Panel]:
    good = (
        "Share of the runs that ended well. Not counted: cancelled ones, those that a budget stopped, and those that "
        "the workflow itself called failed. The table below has all of them."
    )
    total = f"({store_grown(RUNS, where=OF_APPS)} or vector(0))"
    cost = f"{store_grown(COST, where=OF_APPS)} / ({store_grown(RUNS, where=OF_APPS)} > 0)"
    turns = f"{grown('unattended_turns_total', where=OF_ALL)} / ({grown(f'{DURATION}_count', where=OF_ALL)} > 0)"
    half, most = (quantile(share, DURATION, "", OF_ALL, over="$__range") for share in (0.5, 0.95))
    lasted = f"from the first start of a run to its end, with all waiting in between. {ALL_APPS}"
    return [
        stat_of(401, "Runs ended", "Runs of the chosen apps that ended or parked.", total, unit=COUNT).decimals(0),
        stat_of(402, "Ended well", good, succeeded_share(OF_APPS), unit="percentunit")
        .decimals(1)
        .no_value("no runs")
        .thresholds(good_from(0.95, 0.99))
        .links([runbook("Runs fail")]),
        stat_of(403, "Duration, half", f"Half of the runs: {lasted}", half, unit="s").no_value("no runs"),
        stat_of(404, "Duration, 95 %", f"95 % of the runs: {lasted}", most, unit="s").no_value("no runs"),
        stat_of(405, "Turns per run", f"Many more than usual: agents go in circles. {ALL_APPS}", turns, unit="short")
        .decimals(1)
        .no_value("no runs"),
        stat_of(
            406,
            "USD per run",
            "What a run of the chosen apps costs on average, by the price table.",
            cost,
            unit="currencyUSD",
        ).no_value("no runs"),
    ]


def _runs() -> list[Panel]:
    outcomes = "Runs that ended or parked, by outcome. `unattended runs list --workflow … --outcome …` names them."
    table = "Every outcome of the time range, by app. All but `completed` and `cancelled` deserve a look."
    duration = f"From the first start of a run to its end or its parking, with all waiting in between. {ALL_APPS}"
    start = (
        "From acceptance to first start, held or not, by kind of trigger: 95 % of the runs of all workflows, "
        "which share the workers."
    )
    retries = f"Attempts that failed and are followed by another one, by reason. {ALL_APPS}"
    waited = "unattended_run_queue_seconds"
    return [
        by_outcome(graph(411, "Runs ended by outcome", outcomes, unit=PER_SECOND))
        .with_target(query(store_rate(RUNS, "outcome", OF_APPS), "{{outcome}}"))
        .links([runbook("Runs fail"), runbook("Replay after an incident")]),
        graph(412, "Duration", duration, unit="s")
        .with_target(query(quantile(0.5, DURATION, "", OF_ALL), "half"))
        .with_target(query(quantile(0.95, DURATION, "", OF_ALL), "95 %", ref="B"))
        .with_target(query(quantile(0.99, DURATION, "", OF_ALL), "99 %", ref="C")),
        rows(
            413,
            "Outcomes in the time range",
            table,
            {"app": "App", "outcome": "Outcome"},
            [counted("Runs", f"sort_desc({store_grown(RUNS, 'app, outcome', OF_APPS)} > 0)")],
        ).span(8),
        graph(414, "Time to start, all workflows", start, unit="s", width=12)
        .with_target(query(quantile(0.95, waited, "trigger"), "{{trigger}}"))
        .links([runbook("Runs start late")]),
        graph(415, "Retries by reason", retries, unit=PER_SECOND, width=12)
        .with_target(query(rate("unattended_run_retries_total", "reason", OF_ALL), "{{reason}}"))
        .links([runbook("A run is parked")]),
    ]


def _agents() -> list[Panel]:
    turns = f"Turns that were committed, by agent. {ALL_APPS}"
    handoffs = f"Turns that handed over, by source and target: an agent, user or terminate. {ALL_APPS}"
    calls = f"Time a model took to answer: half and 95 % of the calls, by agent. {ALL_APPS}"
    table = f"The time range by agent. Tokens out of the ledger, the rest as workers counted it. {ALL_APPS}"
    return [
        stacked(graph(421, "Turns by agent", turns, unit=PER_SECOND)).with_target(
            query(rate("unattended_turns_total", "agent", OF_ALL), "{{agent}}")
        ),
        graph(422, "Hand-offs by agent", handoffs, unit=PER_SECOND).with_target(
            query(rate("unattended_handoffs_total", "agent, target", OF_ALL), "{{agent}} → {{target}}")
        ),
        graph(423, "Time of model calls by agent", calls, unit="s")
        .with_target(query(quantile(0.5, CALL_SECONDS, "agent", OF_ALL), "{{agent}} half"))
        .with_target(query(quantile(0.95, CALL_SECONDS, "agent", OF_ALL), "{{agent}} 95 %", ref="B")),
        rows(
            424,
            "Agents in the time range",
            table,
            {"agent": "Agent"},
            [
                counted("Turns", f"sort_desc({grown('unattended_turns_total', 'agent', OF_ALL)})"),
                counted("Hand-offs", grown("unattended_handoffs_total", "agent", TO_AGENTS)),
                counted("Model calls", grown(f"{CALL_SECONDS}_count", "agent", OF_ALL)),
                Column("95 % of calls", quantile(0.95, CALL_SECONDS, "agent", OF_ALL, over="$__range"), "s"),
                Column("Input tokens", store_grown(AGENT_INPUT_TOKENS, "agent", OF_ALL)),
                Column("Output tokens", store_grown(AGENT_OUTPUT_TOKENS, "agent", OF_ALL)),
            ],
        ).height(6),
    ]


def _tools() -> list[Panel]:
    seconds = f"Time a tool took to answer or to fail: half and 95 % of the calls. {ALL_APPS}"
    errors = (
        "Calls of tools that failed or were refused for their arguments. The model is told and may try again; "
        f"`unattended runs show ID` has the message. {ALL_APPS}"
    )
    table = f"The time range by tool. {ALL_APPS}"
    calls, failed = f"{TOOL_SECONDS}_count", "unattended_tool_errors_total"
    share = f"{grown(failed, 'tool', OF_ALL)} / ({grown(calls, 'tool', OF_ALL)} > 0)"
    return [
        graph(431, "Time of tool calls", seconds, unit="s")
        .with_target(query(quantile(0.5, TOOL_SECONDS, "tool", OF_ALL), "{{tool}} half"))
        .with_target(query(quantile(0.95, TOOL_SECONDS, "tool", OF_ALL), "{{tool}} 95 %", ref="B")),
        graph(432, "Tool errors", errors, unit=PER_SECOND).with_target(query(rate(failed, "tool", OF_ALL), "{{tool}}")),
        rows(
            433,
            "Tools in the time range",
            table,
            {"tool": "Tool"},
            [
                counted("Calls", f"sort_desc({grown(calls, 'tool', OF_ALL)})"),
                counted("Failed", grown(failed, "tool", OF_ALL)),
                Column("Share", share, "percentunit", 0, bad_from(0.05, 0.2)),
            ],
        ).span(8),
    ]


def _costs() -> list[Panel]:
    hourly = "What an hour of this workflow costs at the present pace, by app."
    tokens = "Tokens per second of the chosen apps. Input grows with the length of a chat: look at turns per run."
    most = "The ten apps that this workflow cost most in the time range."
    return [
        stacked(graph(441, "Cost per hour by app", hourly, unit="currencyUSD"))
        .with_target(query(f"3600 * {store_rate(COST, 'app', OF_APPS)}", "{{app}}"))
        .links([runbook("A budget is nearly spent")]),
        graph(442, "Tokens", tokens, unit=PER_SECOND)
        .with_target(query(store_rate(INPUT_TOKENS, where=OF_APPS), "input"))
        .with_target(query(store_rate(OUTPUT_TOKENS, where=OF_APPS), "output", ref="B")),
        bars(443, "Cost by app", most, unit="currencyUSD").with_target(
            query(f"sort_desc(topk(10, {store_grown(COST, 'app', OF_APPS)}))", "{{app}}", instant=True)
        ),
    ]
