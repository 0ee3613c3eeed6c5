"""The overview: what waits, what goes on, what needs somebody, and what is nearly spent; each leads to its list."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from accounting.totals.reading import Wanted as WantedUsage
from ops.cli.runs.lines import lasting
from ops.console import asked
from ops.console.budgets import WARNS_AT, budget_rows
from ops.console.desk import Desk
from ops.console.runs import row_of
from ops.console.triggers import rows_of
from ops.console.usage_chart import chart_of
from ops.console.visitor import Visitor
from triggers.api.paging import Paging
from triggers.api.run_reading import newest_runs
from triggers.control.listing import Wanted, made_query
from workers.store.matching import Matching
from workers.store.run import HoldKind, RunState
from workers.store.run_listing import RunListing
from workers.store.run_store import RunStore
from workers.together import together

LATELY = timedelta(hours=24)
MOST_COUNTED = 1_000
NEWEST = 8
MOST_PAUSED = 8
MAX_WAITING = 8
MAX_QUESTION = 300  # characters
TROUBLED = (
    RunState.FAILED,
    RunState.CANCELLED,
    RunState.PARKED,
)  # runs that wait for a person have a list of their own
MOST_LOOKED_AT = 500  # of triggers made at run time: no index knows which are inactive


@dataclass(frozen=True, slots=True)
class Tile:
    """`kind` is its colour where there is any."""

    label: str
    kind: str
    path: str
    matching: Matching


def _tiles(app_id: str | None, now: datetime) -> Sequence[Tile]:
    def tile(label: str, kind: str, **query: str) -> Tile:
        hold = HoldKind(query["hold"]) if "hold" in query else None
        since = now - LATELY if "since" in query else None
        matching = Matching(app_id=app_id, states=(RunState(query["state"]),), hold=hold, since=since)
        return Tile(label, kind, asked.with_query("/console/runs", query), matching)

    return (
        tile("running", "busy", state="running"),
        tile("queued", "busy", state="queued"),
        *(tile(f"held by a {hold} limit" if hold != "budget" else "held by a budget", "warn", state="queued", hold=hold)
          for hold in HoldKind),
        tile("waiting for a person", "warn", state="needs_human"),
        tile("parked", "bad", state="parked"),
        tile("failed in 24 hours", "bad", state="failed", since="24h"),
    )  # fmt: skip


async def overview(desk: Desk, _request: Request, visitor: Visitor) -> Response:
    store, app_id, now = desk.ground.store, visitor.scope, datetime.now(UTC)
    tiles = _tiles(app_id, now)
    chart, budgets, newest, troubled, waiting, paused, inactive, made, *counts = await _together(
        chart_of(desk.ground.database, WantedUsage(app_id=app_id, since=now - LATELY), None, now=now),
        budget_rows(desk.ground.database, visitor.caller),
        _runs(store, Matching(app_id=app_id)),
        _troubled(store, app_id, now - LATELY),
        _longest_waiting(store, app_id, now),
        rows_of(desk, visitor, Wanted(app_id, state="paused"), limit=MOST_PAUSED),
        rows_of(desk, visitor, Wanted(app_id, state="inactive"), limit=MOST_PAUSED, looks=MOST_LOOKED_AT),
        desk.ground.triggers.triggers.count_documents(made_query(Wanted(app_id), ""), limit=MOST_LOOKED_AT + 1),
        *(_count(store, each.matching) for each in tiles),
    )
    return desk.pages.page(
        "overview",
        visitor,
        title="Overview",
        section="",
        tiles=[
            _shown(tile, count) for tile, count in zip(tiles, counts, strict=True) if count or not tile.matching.hold
        ],
        newest=newest,
        troubled=troubled,
        waiting=waiting,
        paused=paused,
        inactive=inactive,
        looked_at=MOST_LOOKED_AT if made > MOST_LOOKED_AT else None,
        budgets=[each for each in budgets if each["exhausted"] or (each["share"] or 0.0) >= WARNS_AT],
        chart=chart,
    )


async def _together(*asked_for: Awaitable[Any]) -> list[Any]:
    """Of several types, at once: each answer is waited for on its way, and little else."""
    return await together(asked_for)


async def _count(store: RunStore, matching: Matching) -> int:
    """At most one more than are counted: how many there are beyond a thousand, Prometheus knows."""
    return await RunListing(store).count(matching, up_to=MOST_COUNTED + 1)


def _shown(tile: Tile, count: int) -> Mapping[str, Any]:
    text = f"{MOST_COUNTED:,}+" if count > MOST_COUNTED else f"{count:,}"
    return {"label": tile.label, "kind": tile.kind if count else "none", "path": tile.path, "count": text}


async def _longest_waiting(store: RunStore, app_id: str | None, now: datetime) -> list[dict[str, Any]]:
    """Runs that wait for a person, the one that has waited longest first. Each began when its turn ended."""
    shown = (
        "app_id",
        "workflow",
        "finished_at",
        "question.agent",
        "question.text",
        "question.title",
        "questions.number",
    )
    found = await RunListing(store).longest_waiting(app_id, shown, limit=MAX_WAITING)
    return [_waiting_row(run, now) for run in found]


def _waiting_row(run: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    question = run.get("question") or {}
    return {
        "run_id": run["_id"],
        "path": asked.run_path(run["_id"]),
        "app_id": run["app_id"],
        "workflow": run["workflow"],
        "agent": question.get("agent") or "",
        "question": str(question.get("title") or question.get("text") or "")[:MAX_QUESTION],
        "further": max(len(run.get("questions") or ()) - 1, 0),  # a run of an older version asks one at most
        "since": run["finished_at"],
        "waited": lasting(run["finished_at"], now),
    }


async def _runs(store: RunStore, matching: Matching) -> list[dict[str, Any]]:
    paging = Paging(NEWEST - 1, None, "", ())
    return [row_of(run) async for run in newest_runs(store, matching, paging)]


async def _troubled(store: RunStore, app_id: str | None, since: datetime) -> list[dict[str, Any]]:
    """One query per state: MongoDB takes the index of runs at rest for one state or for all four, not for three."""
    queries = [_runs(store, Matching(app_id=app_id, states=(state,), since=since)) for state in TROUBLED]
    found = [row for rows in await together(queries) for row in rows]
    return sorted(found, key=lambda row: (row["created_at"], row["run_id"]), reverse=True)[:NEWEST]
