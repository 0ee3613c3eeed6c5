"""The overview page: counts of runs and triggers, questions, failures, budgets and usage."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from accounting.infra.aio import gather_all
from accounting.totals.usage_query import UsageFilter
from ops.console import query_params
from ops.console.budget_rows import budget_rows
from ops.console.console_context import ConsoleContext
from ops.console.run_list_page import run_row
from ops.console.trigger_list_page import trigger_rows
from ops.console.usage_chart import read_usage_chart
from ops.console.visitor import Visitor
from ops.presenters.budget_text import WARNING_SHARE
from ops.presenters.times import format_duration
from triggers.api.paging import Paging
from triggers.api.run_queries import find_newest_runs
from triggers.control.trigger_lists import TriggerFilter
from workers.store.run import HoldKind, RunState
from workers.store.run_filter import RunFilter
from workers.store.run_reads import RunLists
from workers.store.run_store import RunStore

RECENT_PERIOD = timedelta(hours=24)
MAX_COUNTED = 1_000
MAX_NEWEST = 8
MAX_PAUSED = 8
MAX_WAITING = 8
MAX_QUESTION_CHARACTERS = 300
FAILURE_STATES = (RunState.FAILED, RunState.CANCELLED, RunState.PARKED)


@dataclass(frozen=True, slots=True)
class Tile:
    """A count with a link to its list; `kind` is the colour for a count above zero."""

    label: str
    kind: str
    path: str
    run_filter: RunFilter


def _tiles(app_id: str | None, now: datetime) -> Sequence[Tile]:
    def tile(label: str, kind: str, **query: str) -> Tile:
        hold = HoldKind(query["hold"]) if "hold" in query else None
        since = now - RECENT_PERIOD if "since" in query else None
        matching = RunFilter(app_id=app_id, states=(RunState(query["state"]),), hold=hold, since=since)
        return Tile(label, kind, query_params.with_query("/console/runs", query), matching)

    return (
        tile("running", "busy", state="running"),
        tile("queued", "busy", state="queued"),
        *(tile(f"held by a {hold} limit" if hold != "budget" else "held by a budget", "warn", state="queued", hold=hold)
          for hold in HoldKind),
        tile("waiting for a person", "warn", state="needs_human"),
        tile("parked", "bad", state="parked"),
        tile("failed in 24 hours", "bad", state="failed", since="24h"),
    )  # fmt: skip


async def show_overview(context: ConsoleContext, _request: Request, visitor: Visitor) -> Response:
    store, app_id, now = context.role.store, visitor.scope, datetime.now(UTC)
    tiles, max_scanned = _tiles(app_id, now), context.options.max_triggers_scanned
    chart, budgets, newest, failed, waiting, paused, inactive, runtime_triggers, *counts = await _gather(
        read_usage_chart(context.role.database, UsageFilter(app_id=app_id, since=now - RECENT_PERIOD), None, now=now),
        budget_rows(context.role.database, visitor.caller),
        _find_newest_runs(store, RunFilter(app_id=app_id)),
        _find_failed_runs(store, app_id, now - RECENT_PERIOD),
        _find_longest_waiting(store, app_id, now),
        trigger_rows(context, visitor, TriggerFilter(app_id, state="paused"), limit=MAX_PAUSED),
        _find_inactive_triggers(context, visitor),
        context.role.triggers.count_runtime_triggers(app_id, limit=max_scanned + 1),
        *(_count_runs(store, tile.run_filter) for tile in tiles),
    )
    return context.renderer.render(
        "overview",
        visitor,
        title="Overview",
        section="",
        tiles=[
            _tile_fields(tile, count)
            for tile, count in zip(tiles, counts, strict=True)
            if count or not tile.run_filter.hold
        ],
        newest=newest,
        failed=failed,
        waiting=waiting,
        paused=paused,
        inactive=inactive,
        max_scanned=max_scanned if runtime_triggers > max_scanned else None,
        budgets=[row for row in budgets if row["exhausted"] or (row["share"] or 0.0) >= WARNING_SHARE],
        chart=chart,
    )


async def _find_inactive_triggers(context: ConsoleContext, visitor: Visitor) -> Sequence[Mapping[str, Any]]:
    inactive = TriggerFilter(visitor.scope, state="inactive")
    return await trigger_rows(
        context, visitor, inactive, limit=MAX_PAUSED, max_scanned=context.options.max_triggers_scanned
    )


async def _gather(*awaitables: Awaitable[Any]) -> list[Any]:
    """Run queries of different types at once; they mostly wait for the network."""
    return await gather_all(awaitables)


async def _count_runs(store: RunStore, run_filter: RunFilter) -> int:
    """Count up to one above the limit; Prometheus has larger numbers."""
    return await RunLists(store).count(run_filter, up_to=MAX_COUNTED + 1)


def _tile_fields(tile: Tile, count: int) -> Mapping[str, Any]:
    text = f"{MAX_COUNTED:,}+" if count > MAX_COUNTED else f"{count:,}"
    return {"label": tile.label, "kind": tile.kind if count else "none", "path": tile.path, "count": text}


async def _find_longest_waiting(store: RunStore, app_id: str | None, now: datetime) -> list[dict[str, Any]]:
    """Find runs that wait for a person, the longest wait first; a wait begins at the end of the turn."""
    shown = (
        "app_id",
        "workflow",
        "finished_at",
        "question.agent",
        "question.text",
        "question.title",
        "questions.number",
    )
    found = await RunLists(store).longest_waiting(app_id, shown, limit=MAX_WAITING)
    return [_waiting_row(run, now) for run in found]


def _waiting_row(run: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    question = run.get("question") or {}
    return {
        "run_id": run["_id"],
        "path": query_params.run_path(run["_id"]),
        "app_id": run["app_id"],
        "workflow": run["workflow"],
        "agent": question.get("agent") or "",
        "question": str(question.get("title") or question.get("text") or "")[:MAX_QUESTION_CHARACTERS],
        "further": max(len(run.get("questions") or ()) - 1, 0),  # runs of older versions have one question
        "since": run["finished_at"],
        "waited": format_duration(run["finished_at"], now),
    }


async def _find_newest_runs(store: RunStore, run_filter: RunFilter) -> list[dict[str, Any]]:
    paging = Paging(MAX_NEWEST - 1, None, "", ())
    return [run_row(run) async for run in find_newest_runs(store, run_filter, paging)]


async def _find_failed_runs(store: RunStore, app_id: str | None, since: datetime) -> list[dict[str, Any]]:
    """Query each state separately: MongoDB uses the index of runs at rest for one state or all four, not for three."""
    queries = [
        _find_newest_runs(store, RunFilter(app_id=app_id, states=(state,), since=since)) for state in FAILURE_STATES
    ]
    found = [row for rows in await gather_all(queries) for row in rows]
    return sorted(found, key=lambda row: (row["created_at"], row["run_id"]), reverse=True)[:MAX_NEWEST]
