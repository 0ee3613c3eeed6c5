"""The dashboard Usage and cost: cost by app, workflow and model, budgets, and data quality."""

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as models

from ops.dashboards.dashboard_frame import Panel, add_rows, app_variable, make_dashboard, workflows_variable
from ops.dashboards.panels import (
    COUNT,
    PER_SECOND,
    TableColumn,
    add_threshold_lines,
    bar_panel,
    count_column,
    critical_threshold,
    graph_panel,
    query,
    rising_thresholds,
    runbook_link,
    stack,
    stat_panel,
    table_panel,
)
from ops.dashboards.promql import (
    BUDGET_REJECTIONS,
    CACHED_TOKENS,
    COST,
    INPUT_TOKENS,
    MODEL_CALLS,
    OUTPUT_TOKENS,
    REASONING_TOKENS,
    USAGE_ESTIMATED,
    USAGE_MISSING,
    USAGE_UNPRICED,
    StoreCounter,
    store_increase,
    store_rate,
)

SELECTOR = 'app=~"$app", workflow=~"$workflow"'
APP_SELECTOR = 'app=~"$app"'
# A budget for all apps or workflows together has an empty label.
BUDGET_SELECTOR = 'app=~"$app|", workflow=~"$workflow|"'
BUDGET_LABELS = "app, workflow, window, unit"
BUDGET_SHARE = (
    f"max by ({BUDGET_LABELS}) "
    f"(unattended_budget_used{{{BUDGET_SELECTOR}}} / (unattended_budget_limit{{{BUDGET_SELECTOR}}} > 0))"
)
BUDGET_NAME = "{{app}} {{workflow}} {{window}}, {{unit}}"
LEDGER_TEXT = "From the ledger, which has every call: the same numbers as `unattended usage`."


def build() -> Dashboard:
    description = "Cost and tokens by app, workflow and model, budgets, and calls whose usage or price is incomplete."
    return add_rows(
        make_dashboard("unattended-usage", description, [app_variable(), workflows_variable()], since="now-24h"),
        {
            "Totals in the time range": _summary_panels(),
            "Cost by app, workflow and model": _consumer_panels(),
            "Over time": _time_panels(),
            "Budgets": _budget_panels(),
            "Data quality": _data_quality_panels(),
        },
    )


def _summary_panels() -> list[Panel]:
    cached = (
        "Share of the input tokens that were read from the provider's cache, which costs less. If it is low: prompts "
        "that begin differently each time cannot be cached."
    )
    unknown = (
        "Calls of the chosen apps without usage, with estimated tokens, or without a price. Sums in USD lack their "
        "cost; see the last row."
    )
    incomplete = " + ".join(
        f"({store_increase(counter, where=where)} or vector(0))"
        for counter, where in (
            (USAGE_MISSING, SELECTOR),
            (USAGE_ESTIMATED, APP_SELECTOR),
            (USAGE_UNPRICED, APP_SELECTOR),
        )
    )
    share = f"{_range_total(CACHED_TOKENS)} / ({store_increase(INPUT_TOKENS, where=SELECTOR)} > 0)"
    return [
        stat_panel(201, "Cost", f"By the price table. {LEDGER_TEXT}", _range_total(COST), unit="currencyUSD"),
        stat_panel(
            202, "Input tokens", f"Cached tokens included. {LEDGER_TEXT}", _range_total(INPUT_TOKENS), unit="short"
        ),
        stat_panel(
            203, "Output tokens", f"Reasoning tokens included. {LEDGER_TEXT}", _range_total(OUTPUT_TOKENS), unit="short"
        ),
        stat_panel(204, "Read from a cache", cached, share, unit="percentunit").decimals(0).no_value("no calls"),
        stat_panel(
            205, "Model calls", f"Failed calls included. {LEDGER_TEXT}", _range_total(MODEL_CALLS), unit=COUNT
        ).decimals(0),
        stat_panel(206, "Calls of unknown cost", unknown, incomplete, unit=COUNT)
        .decimals(0)
        .thresholds(rising_thresholds(1))
        .links([runbook_link("Model calls come without usage"), runbook_link("A model has no price")]),
    ]


def _range_total(counter: StoreCounter) -> str:
    """Return 0 without usage, as series begin with their first count."""
    return f"({store_increase(counter, where=SELECTOR)} or vector(0))"


def _consumer_panels() -> list[Panel]:
    most = "The ten with the highest cost in the time range."
    table = "The time range by app, workflow and model. Output includes reasoning, and input includes cached tokens."
    return [
        *(
            bar_panel(id_, f"Cost by {name}", most, unit="currencyUSD")
            .height(6)
            .with_target(query(f"sort_desc(topk(10, {store_increase(COST, by, SELECTOR)}))", legend, instant=True))
            for id_, name, by, legend in (
                (211, "app", "app", "{{app}}"),
                (212, "workflow", "workflow", "{{workflow}}"),
                (213, "model", "model, provider", "{{model}} ({{provider}})"),
            )
        ),
        table_panel(
            214,
            "By app, workflow and model",
            table,
            {"app": "App", "workflow": "Workflow", "model": "Model", "provider": "Provider"},
            [
                TableColumn("USD", f"sort_desc({_by_model(COST)})", "currencyUSD"),
                count_column("Calls", _by_model(MODEL_CALLS)),
                TableColumn("Input", _by_model(INPUT_TOKENS)),
                TableColumn("Cached", _by_model(CACHED_TOKENS)),
                TableColumn("Output", _by_model(OUTPUT_TOKENS)),
                TableColumn("Reasoning", _by_model(REASONING_TOKENS)),
            ],
        ).height(10),
    ]


def _by_model(counter: StoreCounter) -> str:
    return store_increase(counter, "app, workflow, model, provider", SELECTOR)


def _time_panels() -> list[Panel]:
    hourly = "Cost of an hour at the present rate. A step up: a new workflow, a loop, or a larger model."
    tokens = "Tokens per second: uncached input, cached input, and output."
    models = "Model calls per second. Failed calls have `ok` false: the provider failed, or the request was wrong."
    fresh = f"{store_rate(INPUT_TOKENS, where=SELECTOR)} - ({store_rate(CACHED_TOKENS, where=SELECTOR)} or vector(0))"
    return [
        stack(graph_panel(221, "Cost per hour by app", hourly, unit="currencyUSD")).with_target(
            query(f"3600 * {store_rate(COST, 'app', SELECTOR)}", "{{app}}")
        ),
        stack(graph_panel(222, "Tokens by kind", tokens, unit=PER_SECOND))
        .with_target(query(fresh, "input, not cached"))
        .with_target(query(store_rate(CACHED_TOKENS, where=SELECTOR), "input, cached", ref="B"))
        .with_target(query(store_rate(OUTPUT_TOKENS, where=SELECTOR), "output", ref="C")),
        stack(graph_panel(223, "Model calls by model", models, unit=PER_SECOND)).with_target(
            query(store_rate(MODEL_CALLS, "model, ok", SELECTOR), "{{model}}, ok {{ok}}")
        ),
    ]


def _budget_panels() -> list[Panel]:
    used = (
        "Share of each budget that is spent in its present window. At 80 % an alert fires; at 100 % runs wait, are "
        "refused, or stop, as the budget is set. A budget without an app is for all apps together."
    )
    over_time = "The lines are 80 % and 100 %. The share falls when a new window begins or a limit is raised."
    rejected = "Limits and amounts of the budgets, and the runs and calls that they held or refused in the time range."
    limit = f"max by ({BUDGET_LABELS}) (unattended_budget_limit{{{BUDGET_SELECTOR}}})"
    near = rising_thresholds(0.8, 1)
    spent: list[Builder[models.DashboardLink]] = [
        runbook_link("A budget is nearly spent"),
        runbook_link("A budget is spent"),
    ]
    return [
        bar_panel(231, "Budgets used", used, unit="percentunit")
        .span(7)
        .max(1)
        .with_target(query(f"sort_desc({BUDGET_SHARE})", BUDGET_NAME, instant=True))
        .thresholds(near)
        .no_value("no budgets")
        .links(spent),
        add_threshold_lines(graph_panel(232, "Budgets used over time", over_time, unit="percentunit", width=7), near)
        .with_target(query(BUDGET_SHARE, BUDGET_NAME))
        .links(spent),
        table_panel(
            233,
            "Limits and rejections",
            rejected,
            {"app": "App", "workflow": "Workflow", "window": "Window", "unit": "Unit"},
            [
                TableColumn("Limit", limit),
                TableColumn("Used", f"max by ({BUDGET_LABELS}) (unattended_budget_used{{{BUDGET_SELECTOR}}})"),
                count_column(
                    "Rejected", store_increase(BUDGET_REJECTIONS, BUDGET_LABELS, BUDGET_SELECTOR), rising_thresholds(1)
                ),
            ],
        )
        .span(10)
        .links([runbook_link("A budget is spent")]),
    ]


def _data_quality_panels() -> list[Panel]:
    incomplete = (
        "Calls of the time range whose usage or price is unknown. `missing`: the provider reported no tokens, or the "
        "call failed; sums lack their tokens. `estimated`: tokens are estimated. `no price`: sums in USD lack their "
        "cost. The first is of the chosen apps and workflows, the others of the chosen apps."
    )
    ledger = (
        "Calls in progress, and ledger rows that are not added to the totals yet. Usage metrics include them; if the "
        "number only grows, no scheduler runs the roll-up."
    )
    late = "Age of the oldest row that waits for the totals, and of the oldest undelivered batch. The line is one hour."
    billing = "Billing batches that wait for delivery, and dead ones, which an operator has to replay or drop."
    model = "model, provider"
    columns = [
        count_column("Missing", store_increase(USAGE_MISSING, model, SELECTOR), rising_thresholds(1)),
        count_column("Estimated", store_increase(USAGE_ESTIMATED, model, APP_SELECTOR), rising_thresholds(1)),
        count_column("No price", store_increase(USAGE_UNPRICED, model, APP_SELECTOR), rising_thresholds(1)),
    ]
    labels = {"model": "Model", "provider": "Provider"}
    return [
        table_panel(241, "Calls of unknown cost by model", incomplete, labels, columns)
        .span(12)
        .links([runbook_link("Model calls come without usage"), runbook_link("A model has no price")]),
        graph_panel(242, "Calls in progress and waiting rows", ledger, unit="short", width=12)
        .with_target(query("max(unattended_model_calls_open)", "calls in progress"))
        .with_target(query("max(unattended_usage_rows_waiting)", "waiting rows", ref="B")),
        graph_panel(243, "Billing batches", billing, unit="short", width=12)
        .with_target(query("max(unattended_billing_batches_pending)", "pending"))
        .with_target(query("max(unattended_billing_batches_dead)", "dead", ref="B"))
        .links([runbook_link("Billing is late")]),
        add_threshold_lines(
            graph_panel(244, "Delay of totals and billing", late, unit="s", width=12), critical_threshold(3600)
        )
        .with_target(query("max(unattended_usage_oldest_waiting_seconds)", "totals"))
        .with_target(query("max(unattended_billing_oldest_pending_seconds)", "billing", ref="B"))
        .links([runbook_link("Billing is late")]),
    ]
