"""The dashboard Usage and cost: who spends how much on what, what may still be spent, and whether the numbers hold."""

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as models

from ops.dashboards.expressions import (
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
    store_grown,
    store_rate,
)
from ops.dashboards.frame import Panel, app, filled, frame, workflows
from ops.dashboards.look import (
    COUNT,
    PER_SECOND,
    Column,
    bad_from,
    bars,
    counted,
    graph,
    lined,
    query,
    red_from,
    rows,
    runbook,
    stacked,
    stat_of,
)

WHO = 'app=~"$app", workflow=~"$workflow"'
APP = 'app=~"$app"'
# A budget for all apps or workflows together has an empty label.
SCOPE = 'app=~"$app|", workflow=~"$workflow|"'
BUDGET = "app, workflow, window, unit"
SHARE = f"max by ({BUDGET}) (unattended_budget_used{{{SCOPE}}} / (unattended_budget_limit{{{SCOPE}}} > 0))"
BUDGET_NAME = "{{app}} {{workflow}} {{window}}, {{unit}}"
EXACT = "Out of the ledger, which has every call: the same numbers as `unattended usage`."


def build() -> Dashboard:
    said = "Who spends how much, on which models, what budgets still allow, and whether the numbers can be trusted."
    return filled(
        frame("unattended-usage", said, [app(), workflows()], since="now-24h"),
        {
            "In the chosen time range": _glance(),
            "Who spends it": _who(),
            "When": _when(),
            "Budgets": _budgets(),
            "Can the numbers be trusted?": _trust(),
        },
    )


def _glance() -> list[Panel]:
    cached = "Share of the input tokens that were read from the provider's cache, which costs less. Low: prompts that "
    cached += "begin differently each time cannot be cached."
    unknown = (
        "Calls of the chosen apps whose cost is not exactly known: without usage, with estimated tokens, or without a "
        "price. Their sums in USD are too low; see the last row."
    )
    doubtful = " + ".join(
        f"({store_grown(counter, where=where)} or vector(0))"
        for counter, where in ((USAGE_MISSING, WHO), (USAGE_ESTIMATED, APP), (USAGE_UNPRICED, APP))
    )
    share = f"{_total(CACHED_TOKENS)} / ({store_grown(INPUT_TOKENS, where=WHO)} > 0)"
    return [
        stat_of(201, "Cost", f"What the calls cost by the price table. {EXACT}", _total(COST), unit="currencyUSD"),
        stat_of(202, "Input tokens", f"Cached ones included. {EXACT}", _total(INPUT_TOKENS), unit="short"),
        stat_of(203, "Output tokens", f"Reasoning included. {EXACT}", _total(OUTPUT_TOKENS), unit="short"),
        stat_of(204, "Read from a cache", cached, share, unit="percentunit").decimals(0).no_value("no calls"),
        stat_of(205, "Model calls", f"Failed ones included. {EXACT}", _total(MODEL_CALLS), unit=COUNT).decimals(0),
        stat_of(206, "Calls of unknown cost", unknown, doubtful, unit=COUNT)
        .decimals(0)
        .thresholds(bad_from(1))
        .links([runbook("Model calls come without usage"), runbook("A model has no price")]),
    ]


def _total(counter: StoreCounter) -> str:
    """Nothing spent yet is 0: the series begin with their first count."""
    return f"({store_grown(counter, where=WHO)} or vector(0))"


def _who() -> list[Panel]:
    most = "The ten that cost most in the time range."
    table = "The time range by app, workflow and model. Reasoning is inside output, cached is inside input."
    return [
        *(
            bars(id_, f"Cost by {name}", most, unit="currencyUSD")
            .height(6)
            .with_target(query(f"sort_desc(topk(10, {store_grown(COST, by, WHO)}))", legend, instant=True))
            for id_, name, by, legend in (
                (211, "app", "app", "{{app}}"),
                (212, "workflow", "workflow", "{{workflow}}"),
                (213, "model", "model, provider", "{{model}} ({{provider}})"),
            )
        ),
        rows(
            214,
            "By app, workflow and model",
            table,
            {"app": "App", "workflow": "Workflow", "model": "Model", "provider": "Provider"},
            [
                Column("USD", f"sort_desc({_by_model(COST)})", "currencyUSD"),
                counted("Calls", _by_model(MODEL_CALLS)),
                Column("Input", _by_model(INPUT_TOKENS)),
                Column("Cached", _by_model(CACHED_TOKENS)),
                Column("Output", _by_model(OUTPUT_TOKENS)),
                Column("Reasoning", _by_model(REASONING_TOKENS)),
            ],
        ).height(10),
    ]


def _by_model(counter: StoreCounter) -> str:
    return store_grown(counter, "app, workflow, model, provider", WHO)


def _when() -> list[Panel]:
    hourly = "What an hour costs at the present pace. A step up: a new workflow, a loop, or a larger model."
    tokens = "Tokens per second: input that is new to the provider, input from its cache, and output."
    models = "Model calls per second. Calls that failed have `ok` false; the provider's trouble, or a wrong request."
    fresh = f"{store_rate(INPUT_TOKENS, where=WHO)} - ({store_rate(CACHED_TOKENS, where=WHO)} or vector(0))"
    return [
        stacked(graph(221, "Cost per hour by app", hourly, unit="currencyUSD")).with_target(
            query(f"3600 * {store_rate(COST, 'app', WHO)}", "{{app}}")
        ),
        stacked(graph(222, "Tokens by kind", tokens, unit=PER_SECOND))
        .with_target(query(fresh, "input, not cached"))
        .with_target(query(store_rate(CACHED_TOKENS, where=WHO), "input, cached", ref="B"))
        .with_target(query(store_rate(OUTPUT_TOKENS, where=WHO), "output", ref="C")),
        stacked(graph(223, "Model calls by model", models, unit=PER_SECOND)).with_target(
            query(store_rate(MODEL_CALLS, "model, ok", WHO), "{{model}}, ok {{ok}}")
        ),
    ]


def _budgets() -> list[Panel]:
    used = (
        "How much of each budget its present window has used. At 80 % somebody should know; at 100 % runs wait, are "
        "refused, or stop, as the budget says. Without an app: for all of them together."
    )
    over_time = "The lines are 80 and 100 %. It falls when a window turns or a limit is raised."
    rejected = "Runs that a budget held or refused, and calls that it kept from being made, in the time range."
    limit = f"max by ({BUDGET}) (unattended_budget_limit{{{SCOPE}}})"
    near = bad_from(0.8, 1)
    spent: list[Builder[models.DashboardLink]] = [runbook("A budget is nearly spent"), runbook("A budget is spent")]
    names = {"app": "App", "workflow": "Workflow", "window": "Window", "unit": "Unit"}
    return [
        bars(231, "Budgets used", used, unit="percentunit")
        .span(7)
        .max(1)
        .with_target(query(f"sort_desc({SHARE})", BUDGET_NAME, instant=True))
        .thresholds(near)
        .no_value("no budgets")
        .links(spent),
        lined(graph(232, "Budgets used over time", over_time, unit="percentunit", width=7), near)
        .with_target(query(SHARE, BUDGET_NAME))
        .links(spent),
        rows(
            233,
            "Limits, and what they kept back",
            rejected,
            names,
            [
                Column("Limit", limit),
                Column("Used", f"max by ({BUDGET}) (unattended_budget_used{{{SCOPE}}})"),
                counted("Kept back", store_grown(BUDGET_REJECTIONS, BUDGET, SCOPE), bad_from(1)),
            ],
        )
        .span(10)
        .links([runbook("A budget is spent")]),
    ]


def _trust() -> list[Panel]:
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
        rows(
            241,
            "Calls of unknown cost by model",
            doubtful,
            {"model": "Model", "provider": "Provider"},
            [
                counted("Missing", store_grown(USAGE_MISSING, model, WHO), bad_from(1)),
                counted("Estimated", store_grown(USAGE_ESTIMATED, model, APP), bad_from(1)),
                counted("No price", store_grown(USAGE_UNPRICED, model, APP), bad_from(1)),
            ],
        )
        .span(12)
        .links([runbook("Model calls come without usage"), runbook("A model has no price")]),
        graph(242, "Calls under way and rows that wait", ledger, unit="short", width=12)
        .with_target(query("max(unattended_model_calls_open)", "calls under way"))
        .with_target(query("max(unattended_usage_rows_waiting)", "rows not added up", ref="B")),
        graph(243, "Billing batches", billing, unit="short", width=12)
        .with_target(query("max(unattended_billing_batches_pending)", "on their way"))
        .with_target(query("max(unattended_billing_batches_dead)", "dead", ref="B"))
        .links([runbook("Billing is late")]),
        lined(graph(244, "How late totals and bills are", late, unit="s", width=12), red_from(3600))
        .with_target(query("max(unattended_usage_oldest_waiting_seconds)", "totals"))
        .with_target(query("max(unattended_billing_oldest_pending_seconds)", "bills", ref="B"))
        .links([runbook("Billing is late")]),
    ]
