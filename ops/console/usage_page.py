"""The usage page: tokens and cost by app, workflow, model, agent or time, and the budgets."""

from datetime import UTC, datetime
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response

from accounting.totals.usage_query import UsageFilter, usage_totals
from ops.console import query_params
from ops.console.budget_rows import budget_rows
from ops.console.console_context import ConsoleContext
from ops.console.usage_chart import read_usage_chart
from ops.console.visitor import Visitor
from ops.presenters.amounts import usd_decimals
from ops.presenters.times import parse_moment
from triggers.api.usage_models import UsageKey

MAX_ROWS = 200
DEFAULT_SINCE = "7d"
FILTER_PARAMS = ("app_id", "workflow", "agent", "model", "since", "until")
TIME_KEYS = ("day", "hour")
KEYS: tuple[str, ...] = get_args(UsageKey)
_SUM_FIELDS = ("calls", "input_tokens", "cached_input_tokens", "output_tokens", "missing", "estimated", "unpriced")
NEXT_KEY = {
    "app_id": "workflow",
    "workflow": "agent",
    "model": "agent",
    "agent": "day",
}  # the key that a click on a row groups by
PERIODS = (("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days"), ("90d", "90 days"))


async def show_usage(context: ConsoleContext, request: Request, visitor: Visitor) -> Response:
    query, now, database = request.query_params, datetime.now(UTC), context.role.database
    key = str(query_params.word_param(query, "by", KEYS, "app_id" if visitor.scope is None else "workflow"))
    filters = {name: query.get(name, "") for name in FILTER_PARAMS} | {"since": query.get("since", "") or DEFAULT_SINCE}
    usage_filter = _parse_usage_filter(request, visitor)
    totals = await usage_totals(database, [key], usage_filter)
    rows = [row.as_json() | {"name": str(row.key[key] or "none")} for row in totals]
    if key not in TIME_KEYS:
        rows.sort(key=lambda row: (-(row["cost_usd"] or 0.0), -row["input_tokens"] - row["output_tokens"]))
    chart = await read_usage_chart(database, usage_filter, None if key in TIME_KEYS else key, now=now)
    measure = "tokens" if chart is None else chart.measure
    largest = max((_row_amount(row, measure) for row in rows), default=0.0)
    return context.renderer.render(
        "usage",
        visitor,
        title="Usage",
        section="usage",
        rows=[
            row | {"bar": round(_row_amount(row, measure) / largest * 100, 2) if largest else 0.0}
            for row in rows[:MAX_ROWS]
        ],
        hidden_rows=max(len(rows) - MAX_ROWS, 0),
        totals=_sum_rows(rows),
        decimals=usd_decimals(row["cost_usd"] for row in rows),
        by=key,
        keys=KEYS,
        filters=filters,
        periods=PERIODS,
        chart=chart,
        budgets=await budget_rows(database, visitor.caller),
        row_path=lambda name: (
            query_params.with_query("/console/usage", {**filters, key: name, "by": NEXT_KEY[key]})
            if key in NEXT_KEY
            else None
        ),
    )


def _parse_usage_filter(request: Request, visitor: Visitor) -> UsageFilter:
    query = request.query_params
    since = query_params.moment_param(query, "since") if query.get("since") else parse_moment(DEFAULT_SINCE)
    return UsageFilter(
        app_id=visitor.caller.resolve_optional_app(query_params.text_param(query, "app_id")),
        workflow=query_params.text_param(query, "workflow"),
        agent=query_params.text_param(query, "agent"),
        model=query_params.text_param(query, "model"),
        since=since,
        until=query_params.moment_param(query, "until"),
    )


def _row_amount(row: dict[str, Any], measure: str) -> float:
    return (row["cost_usd"] or 0.0) if measure == "USD" else float(row["input_tokens"] + row["output_tokens"])


def _sum_rows(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum all rows, also hidden ones; the cost is None if no call has a price."""
    costs = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    return {name: sum(row[name] for row in rows) for name in _SUM_FIELDS} | {"cost_usd": sum(costs) if costs else None}
