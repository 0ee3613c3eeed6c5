"""The page that lists runs: filters in the address, and stable pages, the newest run first."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ops.console import query_params
from ops.console.console_context import STATUS_SEE_OTHER, ConsoleContext
from ops.console.visitor import Visitor
from ops.presenters.run_lines import describe_state
from ops.presenters.times import format_duration
from triggers.api.paging import make_cursor, page_url, parse_paging
from triggers.api.run_queries import find_newest_runs, run_position
from workers.control.run_ids import resolve_run_id
from workers.store.run import HoldKind, RunState
from workers.store.run_filter import RunFilter
from workflows.outcome import OutcomeKind
from workflows.package.trigger_specs.trigger_spec import TRIGGER_TYPES

PAGE_SIZE = 50
TIMEOUT_MS = 5_000  # a filter without an index that matches few runs reads all of them
FILTER_PARAMS = ("app_id", "workflow", "trigger", "state", "outcome", "hold", "since", "until")


async def list_runs(context: ConsoleContext, request: Request, visitor: Visitor) -> Response:
    query = request.query_params
    if run_ref := query_params.text_param(query, "id"):
        run_id = await resolve_run_id(context.role.store, run_ref, app_id=visitor.scope)
        return RedirectResponse(query_params.run_path(run_id), STATUS_SEE_OTHER)
    run_filter = parse_run_filter(request, visitor)
    paging = parse_paging(request, PAGE_SIZE, query.get("cursor"))
    found = await find_newest_runs(context.role.store, run_filter, paging).max_time_ms(TIMEOUT_MS).to_list(None)
    page, filters = found[:PAGE_SIZE], {name: query.get(name, "") for name in FILTER_PARAMS}
    return context.renderer.render(
        "runs",
        visitor,
        title="Runs",
        section="runs",
        runs=[run_row(run) for run in page],
        filters=filters,
        first=query_params.with_query("/console/runs", filters),
        filter_text=run_filter.describe(),
        further=page_url(paging, make_cursor(paging, run_position(page[-1]))) if len(found) > PAGE_SIZE else None,
        is_first="cursor" not in query,
        states=[*RunState],
        outcomes=[*OutcomeKind],
        holds=[*HoldKind],
        types=sorted({*TRIGGER_TYPES, "api", "cli"}),
    )


def parse_run_filter(request: Request, visitor: Visitor) -> RunFilter:
    query = request.query_params
    state = query_params.choice_param(query, "state", RunState)
    outcome = query_params.choice_param(query, "outcome", OutcomeKind)
    return RunFilter(
        app_id=visitor.caller.resolve_optional_app(query_params.text_param(query, "app_id")),
        workflow=query_params.text_param(query, "workflow"),
        states=() if state is None else (state,),
        trigger=query_params.text_param(query, "trigger"),
        outcome=None if outcome is None else outcome.value,
        hold=query_params.choice_param(query, "hold", HoldKind),
        since=query_params.moment_param(query, "since"),
        until=query_params.moment_param(query, "until"),
    )


def run_row(run: Mapping[str, Any]) -> dict[str, Any]:
    outcome, usage = run.get("outcome") or {}, run.get("usage") or {}
    state, _, reason = describe_state(dict(run)).partition(" (")
    return {
        "run_id": run["_id"],
        "path": query_params.run_path(run["_id"]),
        "state": state,
        "state_reason": reason.rstrip(")"),
        "app_id": run["app_id"],
        "workflow": run["workflow"],
        "trigger": run["trigger"],
        "outcome": "" if outcome.get("kind") in (None, state) else outcome["kind"].replace("_", " "),
        "stranded": bool(outcome.get("stranded")),
        "reason": "" if state == RunState.SUCCEEDED else outcome.get("reason", ""),
        "turn": run["turn"],
        "failed_tools": run.get("failed_tools", 0),
        "attempt": run["attempt"],
        "tokens": usage.get("input_tokens", 0) + usage.get("output_tokens", 0) if usage else None,
        "cost_usd": usage.get("cost_usd"),
        "created_at": run["created_at"],
        "took": format_duration(run.get("started_at"), run.get("finished_at")),
    }
