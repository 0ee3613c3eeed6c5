"""The dashboard Fleet: queue, objectives, outcomes, repairs and roles."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.dashboards.dashboard_frame import Panel, add_rows, app_variable, make_dashboard, workflows_variable
from ops.dashboards.panels import (
    PER_SECOND,
    add_threshold_lines,
    colour_by_outcome,
    count_column,
    critical_threshold,
    falling_thresholds,
    graph_panel,
    query,
    rising_thresholds,
    runbook_link,
    stack,
    stat_panel,
    table_panel,
)
from ops.dashboards.promql import RUNS, increase, quantile, rate, store_increase, store_rate, success_share

SELECTOR = 'app=~"$app", workflow=~"$workflow"'
FIRING = 'ALERTS{alertname=~"Unattended.*", alertstate="firing"}'
RECONCILE_AGE_S = "time() - max(unattended_reconcile_last_success_timestamp_seconds)"
EXPORT_AGE_S = "time() - max(unattended_exporter_last_success_timestamp_seconds)"

# By reference of the query: name, metric, and the label with details.
EVENTS = {
    "A": ("taken over", "unattended_reclaimed_total", "result"),
    "B": ("lease lost", "unattended_lease_lost_total", "reason"),
    "C": ("republished", "unattended_republished_total", "reason"),
    "D": ("fenced", "unattended_fenced_writes_total", ""),
    "E": ("corrected", "unattended_runs_corrected_total", "reason"),
}


def build() -> Dashboard:
    description = "Waiting runs and their holds, service level objectives, outcomes of runs, repairs, and roles."
    return add_rows(
        make_dashboard("unattended-fleet", description, [app_variable(), workflows_variable()]),
        {
            "Overview": _summary_panels(),
            "Queue": _queue_panels(),
            "Objectives": _objective_panels(),
            "Outcomes of runs ($app, $workflow)": _outcome_panels(),
            "Takeovers and repairs": _repair_panels(),
            "Roles": _role_panels(),
        },
    )


def _summary_panels() -> list[Panel]:
    oldest = (
        "How long the oldest run that may start has waited for a worker. Above a minute: too few workers, or none that "
        "consumes. Runs that are held or not due do not count."
    )
    slots = "Share of all workers' slots that are in use. Above 90 % for long: start another worker."
    parked = "Runs that used up their attempts. See what each has done, then replay or discard it."
    good = (
        "Share of the runs of the time range that ended well, of the chosen apps and workflows. Not counted: cancelled "
        "runs, runs that a budget stopped, and runs that the workflow itself ended as failed."
    )
    seconds = "Age of the exporter's numbers. Above 30 s: it does not reach MongoDB, and all numbers of runs are old."
    repaired = "Age of the last successful reconcile pass. Above a minute: no scheduler repairs or releases runs."
    return [
        stat_panel(101, "Oldest waiting run", oldest, "max(unattended_oldest_queued_age_seconds)", unit="s")
        .thresholds(rising_thresholds(30, 60))
        .links([runbook_link("Runs stay queued")]),
        stat_panel(
            102, "Slots in use", slots, "sum(unattended_worker_runs) / sum(unattended_worker_slots)", unit="percentunit"
        )
        .decimals(0)
        .thresholds(rising_thresholds(0.8, 0.95))
        .links([runbook_link("How many workers")]),
        stat_panel(103, "Ended well", good, success_share(SELECTOR), unit="percentunit")
        .decimals(1)
        .no_value("no runs")
        .thresholds(falling_thresholds(0.95, 0.99))
        .links([runbook_link("Runs fail")]),
        stat_panel(104, "Parked runs", parked, "max(unattended_runs_parked)", unit="short")
        .thresholds(rising_thresholds(1, 10))
        .links([runbook_link("A run is parked")]),
        stat_panel(105, "Age of the numbers", seconds, EXPORT_AGE_S, unit="s")
        .decimals(0)
        .thresholds(rising_thresholds(30, 120))
        .links([runbook_link("The exporter is stale")]),
        stat_panel(106, "Last reconcile pass", repaired, RECONCILE_AGE_S, unit="s")
        .decimals(0)
        .thresholds(rising_thresholds(30, 60))
        .links([runbook_link("No scheduler reconciles")]),
    ]


def _queue_panels() -> list[Panel]:
    queued = (
        "Runs that are due, by hold. `ready` waits for a worker; the others for a cap (`concurrency`), a rate, a "
        "budget, or the previous run of their order (`order`). They start by themselves when the hold ends."
    )
    age = "The line is one minute. If the age grows while slots are free, workers do not consume."
    busy = "Runs that a worker owns, as the store counts them, and the slots that workers report."
    start = "Time from when a run may start to its first start, without holds: median, 95 % and 99 % of the runs."
    held = "Runs per second that a limit returned to the queue. If high without new runs: two caps conflict."
    by_hold = 'label_replace(max by (hold) (unattended_runs_queued), "hold", "ready", "hold", "")'
    waited = "unattended_run_wait_seconds"
    return [
        stack(graph_panel(111, "Waiting runs by hold", queued, unit="short"))
        .with_target(query(by_hold, "{{hold}}"))
        .links([runbook_link("Runs stay queued")]),
        add_threshold_lines(graph_panel(112, "Age of the oldest waiting run", age, unit="s"), critical_threshold(60))
        .with_target(query("max(unattended_oldest_queued_age_seconds)", "oldest"))
        .links([runbook_link("Runs stay queued")]),
        graph_panel(113, "In progress and slots", busy, unit="short")
        .with_target(query("max(unattended_runs_in_progress)", "in progress"))
        .with_target(query("sum(unattended_worker_slots)", "slots", ref="B"))
        .links([runbook_link("How many workers")]),
        add_threshold_lines(graph_panel(114, "Time to start", start, unit="s", width=12), critical_threshold(30))
        .with_target(query(quantile(0.5, waited), "median"))
        .with_target(query(quantile(0.95, waited), "95 %", ref="B"))
        .with_target(query(quantile(0.99, waited), "99 %", ref="C"))
        .links([runbook_link("Runs start late")]),
        graph_panel(115, "Returned to the queue by a limit", held, unit=PER_SECOND, width=12).with_target(
            query(rate("unattended_runs_held_total", "hold"), "{{hold}}")
        ),
        *_person_wait_panels(),
    ]


def _person_wait_panels() -> list[Panel]:
    waiting = "Runs that wait for a person's answer, by workflow. They hold no slot."
    age = "How long the oldest of them has waited. The line is four hours; then an alert fires."
    link = runbook_link("A run waits for a person")
    return [
        stack(graph_panel(116, "Waiting for a person", waiting, unit="short", width=12))
        .with_target(query(_by_workflow("unattended_runs_waiting_for_person", "sum"), "{{workflow}}"))
        .links([link]),
        add_threshold_lines(
            graph_panel(117, "Longest wait for a person", age, unit="s", width=12), critical_threshold(4 * 3600)
        )
        .with_target(query(_by_workflow("unattended_oldest_waiting_for_person_age_seconds", "max"), "{{workflow}}"))
        .links([link]),
    ]


def _by_workflow(gauge: str, added: str) -> str:
    """Aggregate by workflow what every exporter shows by app and workflow."""
    return f"{added} by (workflow) (max by (app, workflow) ({gauge}{{{SELECTOR}}}))"


def _objective_panels() -> list[Panel]:
    """Use recording rules, as a month of runs is too much for each refresh."""
    burn = (
        "How fast the error budget burns: at 1 it lasts a month, at 14.4 two days. `start`: 99 % of the runs start "
        "within 30 s. `success`: 99.5 % end well. Needs the rules of ops/alerts/slo.yaml in Prometheus."
    )
    fast, slow = rising_thresholds(6, 14.4), rising_thresholds(1)
    return [
        add_threshold_lines(graph_panel(151, "Burn rate, one hour", burn, unit="suffix:x", width=12), fast)
        .with_target(query("unattended:slo_burn:1h", "{{slo}}"))
        .links([runbook_link("Runs start late"), runbook_link("Runs fail")]),
        add_threshold_lines(graph_panel(152, "Burn rate, three days", burn, unit="suffix:x", width=12), slow)
        .with_target(query("unattended:slo_burn:3d", "{{slo}}"))
        .links([runbook_link("Runs start late"), runbook_link("Runs fail")]),
    ]


def _outcome_panels() -> list[Panel]:
    outcomes = (
        "Runs that ended or parked, by outcome. Check all but `completed` and `cancelled`: "
        "`unattended runs list --outcome …` lists them."
    )
    by_workflow = "The chosen time range, by workflow and outcome. A workflow's name links to its dashboard."
    retries = "Failed attempts that are followed by another one. Many `model_error`: check the model's provider."
    return [
        colour_by_outcome(graph_panel(121, "Runs ended by outcome", outcomes, unit=PER_SECOND))
        .with_target(query(store_rate(RUNS, "outcome", SELECTOR), "{{outcome}}"))
        .links([runbook_link("Runs fail"), runbook_link("Replay after an incident")]),
        graph_panel(122, "Retries by reason", retries, unit=PER_SECOND).with_target(
            query(rate("unattended_run_retries_total", "reason", 'workflow=~"$workflow"'), "{{reason}}")
        ),
        table_panel(
            123,
            "Runs ended in the time range",
            by_workflow,
            {"workflow": "Workflow", "outcome": "Outcome"},
            [count_column("Runs", f"sort_desc({store_increase(RUNS, 'workflow, outcome', SELECTOR)} > 0)")],
        ).span(8),
    ]


def _repair_panels() -> list[Panel]:
    events = (
        "Faults that were detected and repaired. `taken over`: a worker died or froze, and another one resumed its "
        "run. `lease lost`: a worker stopped a run that it no longer owned. `republished`: a wake-up was overdue and "
        "was sent again. `fenced`: the write of a stale owner was refused. `corrected`: a queued run was repaired. A "
        "few are normal; a steady rate means that workers or Redis have problems."
    )
    numbers = "The same, counted over the time range. `parked`: a run killed five workers; check that run."
    faults = "Failed steps of reconcile passes: MongoDB was unavailable, or see `reconcile_step_failed` in the log."
    duration = "Duration of a reconcile pass: median and 95 % of the passes. Several seconds are too long."
    lines = graph_panel(131, "Takeovers, lost leases, repairs", events, unit=PER_SECOND, width=12)
    for ref, (name, metric, _) in EVENTS.items():
        lines = lines.with_target(query(rate(metric), name, ref=ref))
    table = table_panel(
        132,
        "Takeovers and repairs in the time range",
        numbers,
        {"event": "Event", "what": "Details"},
        [count_column("Count", f"sort_desc({_events_expression()})")],
    )
    passed = "unattended_reconcile_seconds"
    return [
        lines.links([runbook_link("Workers are lost"), runbook_link("Wake-ups are lost")]),
        table.span(12),
        graph_panel(133, "Duration of a reconcile pass", duration, unit="s", width=12)
        .with_target(query(quantile(0.5, passed), "median"))
        .with_target(query(quantile(0.95, passed), "95 %", ref="B")),
        graph_panel(134, "Failed steps of reconcile passes", faults, unit=PER_SECOND, width=12)
        .with_target(query(rate("unattended_reconcile_faults_total", "step"), "{{step}}"))
        .links([runbook_link("No scheduler reconciles")]),
    ]


def _events_expression() -> str:
    return " or ".join(
        f'label_replace({_rename_label(increase(metric, by), by)}, "event", "{name}", "", "")'
        for name, metric, by in EVENTS.values()
    )


def _rename_label(expression: str, label: str) -> str:
    return f'label_replace({expression}, "what", "$1", "{label}", "(.*)")' if label else expression


def _role_panels() -> list[Panel]:
    up = (
        "Processes that Prometheus reaches, by role. Each role needs at least one; without a scheduler nothing is "
        "repaired."
    )
    alerts = "Alerts of Unattended that fire now. Each links to its section of the runbook."
    memory = (
        "Resident memory of each worker. A worker above `UNATTENDED_MAX_MEMORY_MB` hands its runs back and "
        "restarts; the line is the default."
    )
    cpu = "CPU cores that each worker uses. A worker has one event loop: near 1, its runs wait for each other."
    read = "How long the exporter takes to read the store. Above five seconds it reads less often."
    worker = 'job="unattended", role="worker"'
    memory_line = critical_threshold(2048 * 1024 * 1024)
    return [
        stack(graph_panel(141, "Processes by role", up, unit="short"))
        .with_target(query('sum by (role) (up{job="unattended"})', "{{role}}"))
        .decimals(0)
        .links([runbook_link("A role is down")]),
        table_panel(
            142,
            "Firing alerts",
            alerts,
            {"alertname": "Alert", "severity": "Severity"},
            [count_column("Firing", f"count by (alertname, severity) ({FIRING})")],
        )
        .span(8)
        .no_value("none")
        .links([runbook_link("Alerts")]),
        graph_panel(143, "Time to read the store", read, unit="s")
        .with_target(query("max(unattended_exporter_read_seconds)", "exporter"))
        .links([runbook_link("The exporter is stale")]),
        add_threshold_lines(graph_panel(144, "Memory of workers", memory, unit="bytes", width=12), memory_line)
        .with_target(query(f"max by (instance) (process_resident_memory_bytes{{{worker}}})", "{{instance}}"))
        .links([runbook_link("Kubernetes and systemd")]),
        graph_panel(145, "CPU of workers", cpu, unit="short", width=12)
        .with_target(query(rate("process_cpu_seconds_total", "instance", worker), "{{instance}}"))
        .links([runbook_link("How many workers")]),
    ]
