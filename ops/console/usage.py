"""Usage: what was used and what it cost, by app, workflow, model, agent or day, and how the budgets stand."""

from datetime import UTC, datetime
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response

from accounting.totals.reading import Wanted, usage_totals
from ops.cli.amounts import decimals_for
from ops.console import asked
from ops.console.budgets import budget_rows
from ops.console.desk import Desk
from ops.console.usage_chart import chart_of
from ops.console.visitor import Visitor
from triggers.api.usage_models import Key

MOST_ROWS = 200
USUAL_SINCE = "7d"
FILTERS = ("app_id", "workflow", "agent", "model", "since", "until")
TIMES = ("day", "hour")
KEYS: tuple[str, ...] = get_args(Key)
_SUMMED = ("calls", "input_tokens", "cached_input_tokens", "output_tokens", "missing", "estimated", "unpriced")
NEXT_KEY = {"app_id": "workflow", "workflow": "agent", "model": "agent", "agent": "day"}  # looked at more closely
PERIODS = (("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days"), ("90d", "90 days"))


async def show_usage(desk: Desk, request: Request, visitor: Visitor) -> Response:
    query, now, database = request.query_params, datetime.now(UTC), desk.ground.database
    key = str(asked.one_word(query, "by", KEYS, "app_id" if visitor.scope is None else "workflow"))
    given = {name: query.get(name, "") for name in FILTERS} | {"since": query.get("since", "") or USUAL_SINCE}
    wanted = _wanted(request, visitor)
    rows = [
        row.as_json() | {"name": str(row.key[key] or "none")} for row in await usage_totals(database, [key], wanted)
    ]
    if key not in TIMES:
        rows.sort(key=lambda row: (-(row["cost_usd"] or 0.0), -row["input_tokens"] - row["output_tokens"]))
    chart = await chart_of(database, wanted, None if key in TIMES else key, now=now)
    measure = "tokens" if chart is None else chart.measure
    largest = max((_amount(row, measure) for row in rows), default=0.0)
    return desk.pages.page(
        "usage",
        visitor,
        title="Usage",
        section="usage",
        rows=[
            row | {"bar": round(_amount(row, measure) / largest * 100, 2) if largest else 0.0}
            for row in rows[:MOST_ROWS]
        ],
        unseen=max(len(rows) - MOST_ROWS, 0),
        totals=_totals(rows),
        decimals=decimals_for(row["cost_usd"] for row in rows),
        by=key,
        keys=KEYS,
        given=given,
        periods=PERIODS,
        chart=chart,
        budgets=await budget_rows(database, visitor.caller),
        narrowed=lambda name: (
            asked.with_query("/console/usage", {**given, key: name, "by": NEXT_KEY[key]}) if key in NEXT_KEY else None
        ),
    )


def _wanted(request: Request, visitor: Visitor) -> Wanted:
    query = request.query_params
    since = asked.moment(query, "since") if query.get("since") else asked.age(USUAL_SINCE)
    return Wanted(
        app_id=visitor.caller.within(asked.text(query, "app_id")),
        workflow=asked.text(query, "workflow"),
        agent=asked.text(query, "agent"),
        model=asked.text(query, "model"),
        since=since,
        until=asked.moment(query, "until"),
    )


def _amount(row: dict[str, Any], measure: str) -> float:
    return (row["cost_usd"] or 0.0) if measure == "USD" else float(row["input_tokens"] + row["output_tokens"])


def _totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of all rows, also those that are not shown. Unknown where the price of no call is known."""
    costs = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    return {name: sum(row[name] for row in rows) for name in _SUMMED} | {"cost_usd": sum(costs) if costs else None}
