"""The dashboard Triggers: do schedules fire in time, do streams keep up, what do callers get?"""

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
OPLOG_WINDOW = "max by (stream) (unattended_stream_oplog_window_seconds)"
STATES = {
    "0": value_text("read by nobody", YELLOW, 0),
    "1": value_text("read", GREEN, 1),
    "2": value_text("suspended", RED, 2),
    "3": value_text("refused", RED, 3),
}


def build() -> Dashboard:
    said = "Do schedules fire in time, do change streams keep up, and what do callers of webhooks and forms get?"
    return add_rows(
        make_dashboard("unattended-triggers", said, [workflows_variable()]),
        {
            "At a glance": _summary_panels(),
            "Schedules": _schedule_panels(),
            "Change streams": _stream_panels(),
            "Webhooks, forms and the API": _call_panels(),
            "Pauses": _pause_panels(),
        },
    )


def _summary_panels() -> list[Panel]:
    overdue = "For how long the schedule that should have fired first has been due. Above a minute: no scheduler fires."
    unread = "Streams that nobody reads, that are suspended, or that MongoDB refuses. None of them starts runs."
    position = (
        "Age of the saved position as a share of the oplog window, of the worst stream. At 100 % MongoDB has forgotten "
        "what comes next, and the stream is suspended. Start a watcher, or enlarge the oplog."
    )
    gaps = (
        "Gaps in streams that were recorded in the time range: changes that started nothing. `triggers show` has them."
    )
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
    paused = "Pauses of triggers that nobody has ended, by people, budgets or failures."
    seconds = "95 % of the calls to webhooks, forms and the API were answered within this time."
    refused = (
        "Calls of the time range that were answered 5xx or not in time. Senders come again; look at MongoDB first."
    )
    slow = quantile(0.95, "unattended_webhook_seconds", "endpoint", over="$__range")
    failed = increase("unattended_webhook_requests_total", where='result=~"unavailable|error|timeout"')
    return [
        stat_panel(305, "Calls that failed", refused, f"{failed} or vector(0)", width=3, unit=COUNT)
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
    table = (
        "When each schedule fires next, how late its newest run was, and what was missed or skipped in the time range. "
        "A schedule without a row has no next time. `unattended triggers show NAME` says why something was skipped."
    )
    lag = "Seconds between the time a schedule was due and its run. Seconds are usual; minutes mean a busy scheduler."
    skips = "Times that started no run. `overlap`: the run before was not done. Steady: choose a longer interval."
    misfires = "Times seen only after the grace, since no scheduler ran, by what became of them."
    return [
        table_panel(
            311,
            "Next fires",
            table,
            {"trigger": "Schedule"},
            [
                TableColumn(
                    "Next", f"sort(1000 * {_by_trigger('min', 'next_fire_timestamp_seconds')})", "dateTimeFromNow"
                ),
                TableColumn("Lag", _by_trigger("max", "lag_seconds"), "s", thresholds=rising_thresholds(15, 60)),
                count_column("Skipped", increase("unattended_schedule_skips_total", "trigger", TRIGGER_SELECTOR)),
                count_column(
                    "Late or missed", increase("unattended_schedule_misfires_total", "trigger", TRIGGER_SELECTOR)
                ),
            ],
        )
        .span(12)
        .links([runbook_link("Schedules are late")]),
        add_threshold_lines(graph_panel(312, "Schedule lag", lag, unit="s", width=12), critical_threshold(60))
        .with_target(query(_by_trigger("max", "lag_seconds"), "{{trigger}}"))
        .links([runbook_link("Schedules are late")]),
        graph_panel(313, "Skipped, by reason", skips, unit=PER_SECOND, width=12).with_target(
            query(
                rate("unattended_schedule_skips_total", "trigger, reason", TRIGGER_SELECTOR), "{{trigger}} {{reason}}"
            )
        ),
        graph_panel(314, "Late or missed, by what became of it", misfires, unit=PER_SECOND, width=12).with_target(
            query(
                rate("unattended_schedule_misfires_total", "trigger, reason", TRIGGER_SELECTOR),
                "{{trigger}} {{reason}}",
            )
        ),
    ]


def _by_trigger(over: str, metric: str) -> str:
    return f"{over} by (trigger) (unattended_schedule_{metric}{{{TRIGGER_SELECTOR}}})"


def _stream_panels() -> list[Panel]:
    table = (
        "`suspended`: MongoDB has forgotten the saved position; decide how to go on. `refused`: MongoDB does not do "
        "what the trigger asks for. `read by nobody`: no watcher runs. Position and window: how old the saved position "
        "is, and how old it may get."
    )
    late = "Age of the newest change when its runs were durable. Growing: more changes than one watcher reads."
    lag, near = "max by (stream) (unattended_stream_lag_seconds)", rising_thresholds(0.3, 0.7)
    passed_over = "unattended_stream_events_skipped_total"
    position = "Age of the saved position against the oplog window. At 100 % the stream is lost; act at 70 %."
    skipped = "Events that started no run. `when`: the trigger's condition let them pass. `loop_guard`: own writes."
    return [
        table_panel(
            321,
            "Streams",
            table,
            {"stream": "Stream"},
            [
                TableColumn("State", STATE, value_texts=STATES),
                TableColumn("Lag", lag, "s", thresholds=rising_thresholds(10, 60)),
                TableColumn("Position", POSITION_AGE, "s"),
                TableColumn("Oplog window", OPLOG_WINDOW, "s"),
                count_column("Gaps", increase("unattended_stream_gaps_total", "stream"), critical_threshold(1)),
            ],
        )
        .span(12)
        .links(
            [
                runbook_link("A stream is suspended"),
                runbook_link("A stream is refused"),
                runbook_link("A stream has a gap"),
            ]
        ),
        add_threshold_lines(graph_panel(322, "Stream lag", late, unit="s", width=12), rising_thresholds(10, 60))
        .with_target(query(lag, "{{stream}}"))
        .links([runbook_link("A stream falls behind")]),
        add_threshold_lines(
            graph_panel(323, "Position as share of the oplog window", position, unit="percentunit", width=12), near
        )
        .with_target(query(f"{POSITION_AGE} / ({OPLOG_WINDOW} > 0)", "{{stream}}"))
        .links([runbook_link("A stream falls behind"), runbook_link("Size the oplog")]),
        graph_panel(324, "Events that started nothing", skipped, unit=PER_SECOND, width=12)
        .with_target(query(rate(passed_over, "trigger, reason", TRIGGER_SELECTOR), "{{trigger}} {{reason}}"))
        .links([runbook_link("A trigger starts nothing")]),
    ]


def _call_panels() -> list[Panel]:
    results = (
        "Calls per second, by what came of them. `unauthorized`: a signature or key did not verify; clocks differ, or "
        "another secret. `unavailable`: MongoDB was away. `invalid`: the sender should look at the answer's sentence."
    )
    seconds = "Half, 95 % and 99 % of all calls were answered within this time. MongoDB's majority writes are in it."
    duplicates = "Deliveries and changes that had already started a run. Senders repeat themselves: that is normal."
    calls = "Calls of the time range, by endpoint and by what came of them."
    took = "unattended_webhook_seconds"
    return [
        stack(graph_panel(331, "Calls by result", results, unit="reqps"))
        .with_target(query(rate("unattended_webhook_requests_total", "endpoint, result"), "{{endpoint}} {{result}}"))
        .links([runbook_link("Webhooks are refused")]),
        graph_panel(332, "Time to answer", seconds, unit="s")
        .with_target(query(quantile(0.5, took), "half"))
        .with_target(query(quantile(0.95, took), "95 %", ref="B"))
        .with_target(query(quantile(0.99, took), "99 %", ref="C"))
        .links([runbook_link("Webhooks fail")]),
        graph_panel(333, "Duplicates dropped", duplicates, unit=PER_SECOND).with_target(
            query(rate("unattended_duplicates_dropped_total", "trigger", TRIGGER_SELECTOR), "{{trigger}}")
        ),
        table_panel(
            334,
            "Calls in the time range",
            calls,
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
    paused = "Pauses that nobody has ended. Those of a budget end with it; those of people wait for people."
    made = "Triggers made over the API or the command line. Those of packages stand in their files, and do not count."
    return [
        stack(graph_panel(341, "Paused triggers by reason", paused, unit="short", width=12))
        .with_target(query("max by (reason) (unattended_triggers_paused)", "{{reason}}"))
        .links([runbook_link("A trigger starts nothing"), runbook_link("A schedule is paused after failures")]),
        stack(graph_panel(342, "Triggers made at run time", made, unit="short", width=12)).with_target(
            query("max by (type) (unattended_triggers_made)", "{{type}}")
        ),
    ]
