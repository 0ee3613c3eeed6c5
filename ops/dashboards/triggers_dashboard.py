"""The dashboard Triggers: schedules, change streams, calls and pauses."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.dashboards.dashboard_frame import Panel, add_rows, make_dashboard, workflows_variable
from ops.dashboards.panels import (
    COUNT,
    GREEN,
    PER_SECOND,
    RED,
    YELLOW,
    TableColumn,
    add_threshold_lines,
    count_column,
    critical_threshold,
    graph_panel,
    query,
    rising_thresholds,
    runbook_link,
    stack,
    stat_panel,
    table_panel,
    value_text,
)
from ops.dashboards.promql import increase, quantile, rate

# The label `trigger` is workflow/name.
TRIGGER_SELECTOR = 'trigger=~"($workflow)/.*"'
STATE = "max by (stream) (unattended_stream_state)"
POSITION_AGE = "max by (stream) (unattended_stream_token_age_seconds)"
STREAM_LAG = "max by (stream) (unattended_stream_lag_seconds)"
OPLOG_WINDOW = "max by (stream) (unattended_stream_oplog_window_seconds)"
STATES = {
    "0": value_text("not read", YELLOW, 0),
    "1": value_text("read", GREEN, 1),
    "2": value_text("suspended", RED, 2),
    "3": value_text("refused", RED, 3),
}


def build() -> Dashboard:
    description = (
        "Schedules and their lag, change streams and their positions, calls to webhooks and forms, and pauses."
    )
    return add_rows(
        make_dashboard("unattended-triggers", description, [workflows_variable()]),
        {
            "Overview": _summary_panels(),
            "Schedules": _schedule_panels(),
            "Change streams": _stream_panels(),
            "Webhooks, forms and the API": _call_panels(),
            "Pauses": _pause_panels(),
        },
    )


def _summary_panels() -> list[Panel]:
    overdue = "How long the most overdue schedule has been due. Above a minute: no scheduler fires."
    unread = "Streams that no watcher reads, that are suspended, or that MongoDB refuses. None of them starts runs."
    position = (
        "Age of the saved position as a share of the oplog window, of the worst stream. At 100 % MongoDB no longer has "
        "the next changes, and the stream is suspended. Start a watcher, or enlarge the oplog."
    )
    gaps = "Gaps that were recorded in the time range: changes that started no runs. `triggers show` lists them."
    return [
        stat_panel(301, "Schedules overdue", overdue, "max(unattended_schedule_overdue_seconds)", width=3, unit="s")
        .thresholds(rising_thresholds(15, 60))
        .links([runbook_link("Schedules are late")]),
        stat_panel(302, "Streams not read", unread, f"count({STATE} != 1) or vector(0)", width=3, unit="short")
        .thresholds(critical_threshold(1))
        .links([runbook_link("A stream is suspended"), runbook_link("A stream is refused")]),
        stat_panel(
            303, "Oplog used up", position, f"max({POSITION_AGE} / ({OPLOG_WINDOW} > 0))", width=3, unit="percentunit"
        )
        .decimals(1)
        .no_value("no streams")
        .thresholds(rising_thresholds(0.3, 0.7))
        .links([runbook_link("A stream falls behind"), runbook_link("Size the oplog")]),
        stat_panel(
            304,
            "Gaps in streams",
            gaps,
            f"{increase('unattended_stream_gaps_total')} or vector(0)",
            width=3,
            unit=COUNT,
        )
        .decimals(0)
        .thresholds(critical_threshold(1))
        .links([runbook_link("A stream has a gap")]),
        *_call_and_pause_stats(),
    ]


def _call_and_pause_stats() -> list[Panel]:
    paused = "Pauses of triggers that are in effect, made by operators, budgets or failures."
    seconds = "95 % of the calls to webhooks, forms and the API were answered within this time."
    refused = "Calls of the time range that were answered 5xx or too late. Senders retry; check MongoDB first."
    slow = quantile(0.95, "unattended_webhook_seconds", "endpoint", over="$__range")
    failed = increase("unattended_webhook_requests_total", where='result=~"unavailable|error|timeout"')
    return [
        stat_panel(305, "Failed calls", refused, f"{failed} or vector(0)", width=3, unit=COUNT)
        .decimals(0)
        .thresholds(rising_thresholds(1))
        .links([runbook_link("Webhooks fail")]),
        stat_panel(
            306, "Paused triggers", paused, "sum(max by (reason) (unattended_triggers_paused))", width=3, unit="short"
        )
        .thresholds(rising_thresholds(1))
        .links([runbook_link("A trigger starts nothing")]),
        stat_panel(307, "Answered within (95 %)", seconds, slow, legend="{{endpoint}}", unit="s", width=6).thresholds(
            rising_thresholds(0.5, 2)
        ),
    ]


def _schedule_panels() -> list[Panel]:
    lag = "Time between a schedule's due time and its run. Seconds are normal; minutes mean a busy scheduler."
    skips = "Times that started no run. `overlap`: the previous run was not done. If steady: choose a longer interval."
    misfires = "Times that were processed after their grace, as no scheduler ran, by result."
    return [
        _schedule_table(),
        add_threshold_lines(graph_panel(312, "Schedule lag", lag, unit="s", width=12), critical_threshold(60))
        .with_target(query(_by_trigger("max", "lag_seconds"), "{{trigger}}"))
        .links([runbook_link("Schedules are late")]),
        graph_panel(313, "Skipped, by reason", skips, unit=PER_SECOND, width=12).with_target(
            query(
                rate("unattended_schedule_skips_total", "trigger, reason", TRIGGER_SELECTOR), "{{trigger}} {{reason}}"
            )
        ),
        graph_panel(314, "Late or missed, by result", misfires, unit=PER_SECOND, width=12).with_target(
            query(
                rate("unattended_schedule_misfires_total", "trigger, reason", TRIGGER_SELECTOR),
                "{{trigger}} {{reason}}",
            )
        ),
    ]


def _schedule_table() -> Panel:
    description = (
        "When each schedule fires next, how late its newest run was, and which times were missed or skipped in the "
        "range. A schedule without a row has no next time. `unattended triggers show NAME` shows the reasons of skips."
    )
    next_fire = f"sort(1000 * {_by_trigger('min', 'next_fire_timestamp_seconds')})"
    columns = [
        TableColumn("Next", next_fire, "dateTimeFromNow"),
        TableColumn("Lag", _by_trigger("max", "lag_seconds"), "s", thresholds=rising_thresholds(15, 60)),
        count_column("Skipped", increase("unattended_schedule_skips_total", "trigger", TRIGGER_SELECTOR)),
        count_column("Late or missed", increase("unattended_schedule_misfires_total", "trigger", TRIGGER_SELECTOR)),
    ]
    table = table_panel(311, "Next fires", description, {"trigger": "Schedule"}, columns)
    return table.span(12).links([runbook_link("Schedules are late")])


def _by_trigger(over: str, metric: str) -> str:
    return f"{over} by (trigger) (unattended_schedule_{metric}{{{TRIGGER_SELECTOR}}})"


def _stream_panels() -> list[Panel]:
    late = "Age of the newest change when its runs were durable. If it grows: more changes than one watcher reads."
    near = rising_thresholds(0.3, 0.7)
    skipped_metric = "unattended_stream_events_skipped_total"
    position = "Age of the saved position against the oplog window. At 100 % the stream is suspended; act at 70 %."
    skipped = "Events that started no run. `when`: the trigger's condition was false. `loop_guard`: own writes."
    return [
        _stream_table(),
        add_threshold_lines(graph_panel(322, "Stream lag", late, unit="s", width=12), rising_thresholds(10, 60))
        .with_target(query(STREAM_LAG, "{{stream}}"))
        .links([runbook_link("A stream falls behind")]),
        add_threshold_lines(
            graph_panel(323, "Position as share of the oplog window", position, unit="percentunit", width=12), near
        )
        .with_target(query(f"{POSITION_AGE} / ({OPLOG_WINDOW} > 0)", "{{stream}}"))
        .links([runbook_link("A stream falls behind"), runbook_link("Size the oplog")]),
        graph_panel(324, "Skipped events", skipped, unit=PER_SECOND, width=12)
        .with_target(query(rate(skipped_metric, "trigger, reason", TRIGGER_SELECTOR), "{{trigger}} {{reason}}"))
        .links([runbook_link("A trigger starts nothing")]),
    ]


def _stream_table() -> Panel:
    description = (
        "`suspended`: MongoDB no longer has the saved position; resume the stream from another one. `refused`: MongoDB "
        "refuses the trigger's pipeline. `not read`: no watcher runs. Position is the age of the saved position, and "
        "the oplog window its limit."
    )
    columns = [
        TableColumn("State", STATE, value_texts=STATES),
        TableColumn("Lag", STREAM_LAG, "s", thresholds=rising_thresholds(10, 60)),
        TableColumn("Position", POSITION_AGE, "s"),
        TableColumn("Oplog window", OPLOG_WINDOW, "s"),
        count_column("Gaps", increase("unattended_stream_gaps_total", "stream"), critical_threshold(1)),
    ]
    headings = ("A stream is suspended", "A stream is refused", "A stream has a gap")
    table = table_panel(321, "Streams", description, {"stream": "Stream"}, columns)
    return table.span(12).links([runbook_link(heading) for heading in headings])


def _call_panels() -> list[Panel]:
    results = (
        "Calls per second, by result. `unauthorized`: a signature or key did not verify, as clocks or secrets differ. "
        "`unavailable`: MongoDB was unavailable. `invalid`: the response tells the sender what to correct."
    )
    seconds = "Time to answer of median, 95 % and 99 % of all calls, MongoDB's majority writes included."
    duplicates = "Deliveries and changes that had already started a run. Repeated deliveries are normal."
    took = "unattended_webhook_seconds"
    return [
        stack(graph_panel(331, "Calls by result", results, unit="reqps"))
        .with_target(query(rate("unattended_webhook_requests_total", "endpoint, result"), "{{endpoint}} {{result}}"))
        .links([runbook_link("Webhooks are refused")]),
        graph_panel(332, "Time to answer", seconds, unit="s")
        .with_target(query(quantile(0.5, took), "median"))
        .with_target(query(quantile(0.95, took), "95 %", ref="B"))
        .with_target(query(quantile(0.99, took), "99 %", ref="C"))
        .links([runbook_link("Webhooks fail")]),
        graph_panel(333, "Duplicates dropped", duplicates, unit=PER_SECOND).with_target(
            query(rate("unattended_duplicates_dropped_total", "trigger", TRIGGER_SELECTOR), "{{trigger}}")
        ),
        table_panel(
            334,
            "Calls in the time range",
            "Calls of the time range, by endpoint and by result.",
            {"endpoint": "Endpoint", "result": "Result"},
            [count_column("Calls", f"sort_desc({increase('unattended_webhook_requests_total', 'endpoint, result')})")],
        ).span(12),
        table_panel(
            335,
            "Duplicates in the time range",
            duplicates,
            {"trigger": "Trigger"},
            [
                count_column(
                    "Dropped",
                    f"sort_desc({increase('unattended_duplicates_dropped_total', 'trigger', TRIGGER_SELECTOR)})",
                )
            ],
        ).span(12),
    ]


def _pause_panels() -> list[Panel]:
    paused = "Pauses that are in effect. A budget ends its own pauses; an operator has to resume the others."
    created = "Triggers created by the API or the command line. Triggers in packages do not count."
    return [
        stack(graph_panel(341, "Paused triggers by reason", paused, unit="short", width=12))
        .with_target(query("max by (reason) (unattended_triggers_paused)", "{{reason}}"))
        .links([runbook_link("A trigger starts nothing"), runbook_link("A schedule is paused after failures")]),
        stack(graph_panel(342, "Triggers created at run time", created, unit="short", width=12)).with_target(
            query("max by (type) (unattended_triggers_made)", "{{type}}")
        ),
    ]
