"""The list of runs: filters in the address, pages that nothing moves, the newest first."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ops.cli.runs.lines import lasting
from ops.cli.runs.listing import state_of
from ops.console import asked
from ops.console.desk import SEE_OTHER, Desk
from ops.console.visitor import Visitor
from triggers.api.paging import address_of, cursor_of, paging_of
from triggers.api.run_reading import newest_runs, place_of_run
from workers.control.naming import whole_run_id
from workers.store.matching import Matching
from workers.store.run import HoldKind, RunState
from workflows.outcome import OutcomeKind
from workflows.package.trigger_specs.kinds import SPEC_BY_TYPE

PAGE = 50
PATIENCE_MS = 5_000  # a filter that no index knows, and hardly a run meets, reads all of them
FILTERS = ("app_id", "workflow", "trigger", "state", "outcome", "hold", "since", "until")


async def list_runs(desk: Desk, request: Request, visitor: Visitor) -> Response:
    query = request.query_params
    if named := asked.text(query, "id"):
        run_id = await whole_run_id(desk.ground.store, named, app_id=visitor.scope)
        return RedirectResponse(asked.run_path(run_id), SEE_OTHER)
    matching = matching_of(request, visitor)
    paging = paging_of(request, PAGE, query.get("cursor"))
    found = await newest_runs(desk.ground.store, matching, paging).max_time_ms(PATIENCE_MS).to_list(None)
    page, given = found[:PAGE], {name: query.get(name, "") for name in FILTERS}
    return desk.pages.page(
        "runs",
        visitor,
        title="Runs",
        section="runs",
        runs=[row_of(run) for run in page],
        given=given,
        first=asked.with_query("/console/runs", given),
        words=matching.as_words(),
        further=address_of(paging, cursor_of(paging, place_of_run(page[-1]))) if len(found) > PAGE else None,
        is_first="cursor" not in query,
        states=[*RunState],
        outcomes=[*OutcomeKind],
        holds=[*HoldKind],
        types=sorted({str(spec.model_fields["type"].default) for spec in SPEC_BY_TYPE.values()} | {"api", "cli"}),
    )


def matching_of(request: Request, visitor: Visitor) -> Matching:
    query = request.query_params
    state = asked.one_of(query, "state", RunState)
    outcome = asked.one_of(query, "outcome", OutcomeKind)
    return Matching(
        app_id=visitor.caller.within(asked.text(query, "app_id")),
        workflow=asked.text(query, "workflow"),
        states=() if state is None else (state,),
        trigger=asked.text(query, "trigger"),
        outcome=None if outcome is None else outcome.value,
        hold=asked.one_of(query, "hold", HoldKind),
        since=asked.moment(query, "since"),
        until=asked.moment(query, "until"),
    )


def row_of(run: Mapping[str, Any]) -> dict[str, Any]:
    outcome, usage = run.get("outcome") or {}, run.get("usage") or {}
    state, _, why = state_of(dict(run)).partition(" (")
    return {
        "run_id": run["_id"],
        "path": asked.run_path(run["_id"]),
        "state": state,
        "why": why.rstrip(")"),
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
        "took": lasting(run.get("started_at"), run.get("finished_at")),
    }
