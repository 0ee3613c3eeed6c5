"""The dashboard Usage and cost: who spends how much on what, what may still be spent, and whether the numbers hold."""

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
LEDGER_TEXT = "Out of the ledger, which has every call: the same numbers as `unattended usage`."


def build() -> Dashboard:
    said = "Who spends how much, on which models, what budgets still allow, and whether the numbers can be trusted."
    return add_rows(
        make_dashboard("unattended-usage", said, [app_variable(), workflows_variable()], since="now-24h"),
        {
            "In the chosen time range": _summary_panels(),
            "Who spends it": _consumer_panels(),
            "When": _time_panels(),
            "Budgets": _budget_panels(),
            "Can the numbers be trusted?": _data_quality_panels(),
        },
    )


def _summary_panels() -> list[Panel]:
    cached = "Share of the input tokens that were read from the provider's cache, which costs less. Low: prompts that "
    cached += "begin differently each time cannot be cached."
    unknown = (
        "Calls of the chosen apps whose cost is not exactly known: without usage, with estimated tokens, or without a "
        "price. Their sums in USD are too low; see the last row."
    )
    doubtful = " + ".join(
        f"({store_increase(counter, where=where)} or vector(0))"
        for counter, where in (
            (USAGE_MISSING, SELECTOR),
            (USAGE_ESTIMATED, APP_SELECTOR),
            (USAGE_UNPRICED, APP_SELECTOR),
        )
    )
    share = f"{_range_total(CACHED_TOKENS)} / ({store_increase(INPUT_TOKENS, where=SELECTOR)} > 0)"
    return [
        stat_panel(
            201,
            "Cost",
            f"What the calls cost by the price table. {LEDGER_TEXT}",
            _range_total(COST),
            unit="currencyUSD",
        ),
        stat_panel(
            202, "Input tokens", f"Cached ones included. {LEDGER_TEXT}", _range_total(INPUT_TOKENS), unit="short"
        ),
        stat_panel(
            203, "Output tokens", f"Reasoning included. {LEDGER_TEXT}", _range_total(OUTPUT_TOKENS), unit="short"
        ),
        stat_panel(204, "Read from a cache", cached, share, unit="percentunit").decimals(0).no_value("no calls"),
        stat_panel(
            205, "Model calls", f"Failed ones included. {LEDGER_TEXT}", _range_total(MODEL_CALLS), unit=COUNT
        ).decimals(0),
        stat_panel(206, "Calls of unknown cost", unknown, doubtful, unit=COUNT)
        .decimals(0)
        .thresholds(rising_thresholds(1))
        .links([runbook_link("Model calls come without usage"), runbook_link("A model has no price")]),
    ]


def _range_total(counter: StoreCounter) -> str:
    """Nothing spent yet is 0: the series begin with their first count."""
    return f"({store_increase(counter, where=SELECTOR)} or vector(0))"


def _consumer_panels() -> list[Panel]:
    most = "The ten that cost most in the time range."
    table = "The time range by app, workflow and model. Reasoning is inside output, cached is inside input."
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
    hourly = "What an hour costs at the present pace. A step up: a new workflow, a loop, or a larger model."
    tokens = "Tokens per second: input that is new to the provider, input from its cache, and output."
    models = "Model calls per second. Calls that failed have `ok` false; the provider's trouble, or a wrong request."
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
        "How much of each budget its present window has used. At 80 % somebody should know; at 100 % runs wait, are "
        "refused, or stop, as the budget says. Without an app: for all of them together."
    )
    over_time = "The lines are 80 and 100 %. It falls when a window turns or a limit is raised."
    rejected = "Runs that a budget held or refused, and calls that it kept from being made, in the time range."
    limit = f"max by ({BUDGET_LABELS}) (unattended_budget_limit{{{BUDGET_SELECTOR}}})"
    near = rising_thresholds(0.8, 1)
    spent: list[Builder[models.DashboardLink]] = [
        runbook_link("A budget is nearly spent"),
        runbook_link("A budget is spent"),
    ]
    names = {"app": "App", "workflow": "Workflow", "window": "Window", "unit": "Unit"}
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
            "Limits, and what they kept back",
            rejected,
            names,
            [
                TableColumn("Limit", limit),
                TableColumn("Used", f"max by ({BUDGET_LABELS}) (unattended_budget_used{{{BUDGET_SELECTOR}}})"),
                count_column(
                    "Kept back", store_increase(BUDGET_REJECTIONS, BUDGET_LABELS, BUDGET_SELECTOR), rising_thresholds(1)
                ),
            ],
        )
        .span(10)
        .links([runbook_link("A budget is spent")]),
    ]


def _data_quality_panels() -> list[Panel]:
    doubtful = (
        "Calls of the time range whose usage or price is not known. `missing`: the provider told no tokens, or the "
        "call failed; they count nothing. `estimated`: our guess. `no price`: in no sum of USD. The first two are of "
        "the chosen apps and workflows, the last of the chosen apps."
    )
    ledger = (
        "Calls under way, and rows of the ledger that no scheduler has added to the totals yet. What is shown as usage "
        "has them; a number that only grows means that no scheduler adds up."
    )
    late = "Age of the oldest row that waits for the totals, and of the oldest bill not delivered. The line is an hour."
    billing = "Billing batches on their way, and those that nobody took. Dead ones wait for your decision."
    model = "model, provider"
    return [
        table_panel(
            241,
            "Calls of unknown cost by model",
            doubtful,
            {"model": "Model", "provider": "Provider"},
            [
                count_column("Missing", store_increase(USAGE_MISSING, model, SELECTOR), rising_thresholds(1)),
                count_column("Estimated", store_increase(USAGE_ESTIMATED, model, APP_SELECTOR), rising_thresholds(1)),
                count_column("No price", store_increase(USAGE_UNPRICED, model, APP_SELECTOR), rising_thresholds(1)),
            ],
        )
        .span(12)
        .links([runbook_link("Model calls come without usage"), runbook_link("A model has no price")]),
        graph_panel(242, "Calls under way and rows that wait", ledger, unit="short", width=12)
        .with_target(query("max(unattended_model_calls_open)", "calls under way"))
        .with_target(query("max(unattended_usage_rows_waiting)", "rows not added up", ref="B")),
        graph_panel(243, "Billing batches", billing, unit="short", width=12)
        .with_target(query("max(unattended_billing_batches_pending)", "on their way"))
        .with_target(query("max(unattended_billing_batches_dead)", "dead", ref="B"))
        .links([runbook_link("Billing is late")]),
        add_threshold_lines(
            graph_panel(244, "How late totals and bills are", late, unit="s", width=12), critical_threshold(3600)
        )
        .with_target(query("max(unattended_usage_oldest_waiting_seconds)", "totals"))
        .with_target(query("max(unattended_billing_oldest_pending_seconds)", "bills", ref="B"))
        .links([runbook_link("Billing is late")]),
    ]
