"""Run queries: one run, pages of runs and of turns, in the caller's app."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Depends, Query, Response
from pymongo.asynchronous.cursor import AsyncCursor

from accounting.totals.usage_query import run_totals
from triggers.api.caller_access import Caller, Reader
from triggers.api.field_types import Moment, Name
from triggers.api.json_responses import api_response
from triggers.api.paging import Paging, Position, invalid_cursor, page_response
from workers.control.change_result import RunNotFoundError
from workers.control.open_questions import waiting_questions
from workers.control.run_replay import find_replays
from workers.store.run import HoldKind, RunState
from workers.store.run_document import as_json
from workers.store.run_filter import RunFilter
from workers.store.run_reads import RunLists, RunReads
from workers.store.run_store import RunStore
from workflows.outcome import OutcomeKind

Document = Mapping[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Without input, context and history: a thousand of these may be gigabytes.
_SUMMARY_FIELDS = (
    *("app_id", "user_id", "chat_id", "workflow", "package_version", "trigger", "dedupe_key", "correlation_id"),
    *("parent_run_id", "replay_of", "keys_of", "priority", "state", "hold", "held_by", "held_until", "attempt"),
    *("lease", "turn"),
    *("next_agent", "outcome", "usage", "not_before", "created_at", "started_at", "finished_at", "cancel_requested"),
    *("resolved", "failed_tools"),
)
_HIDDEN_TURN_FIELDS = frozenset({"_id", "token"})


async def _run_filter_params(  # noqa: PLR0913 -- one for each filter of `unattended runs list`
    *,
    caller: Reader,
    app_id: Annotated[Name | None, Query(description="Only this app's. A key of one app sees no other.")] = None,
    workflow: Annotated[Name | None, Query(description="Only of this workflow.")] = None,
    state: Annotated[list[RunState] | None, Query(description="Only in this state; may be repeated.")] = None,
    trigger: Annotated[
        Name | None, Query(description="Only of this trigger: its name, or a type such as `webhook`.")
    ] = None,
    outcome: Annotated[OutcomeKind | None, Query(description="Only with this outcome.")] = None,
    hold: Annotated[HoldKind | None, Query(description="Only held back by this kind of limit.")] = None,
    since: Annotated[Moment | None, Query(description="Only accepted at this time or later.")] = None,
    until: Annotated[Moment | None, Query(description="Only accepted before this time.")] = None,
) -> RunFilter:
    return RunFilter(
        app_id=caller.resolve_optional_app(app_id),
        workflow=workflow,
        states=tuple(state or ()),
        trigger=trigger,
        outcome=None if outcome is None else outcome.value,
        hold=hold,
        since=since,
        until=until,
    )


RunFilterParams = Annotated[RunFilter, Depends(_run_filter_params)]


async def runs_page_response(store: RunStore, run_filter: RunFilter, paging: Paging) -> Response:
    return await page_response(paging, find_newest_runs(store, run_filter, paging), run_position, as_json)


def find_newest_runs(store: RunStore, run_filter: RunFilter, paging: Paging) -> AsyncCursor[dict[str, Any]]:
    """Finds the newest runs behind the last page, and one more than fits a page."""
    after = paging.start_after(int, str)
    before = None if after is None else _accepted_at(after)
    return RunLists(store).newest(run_filter, _SUMMARY_FIELDS, limit=paging.limit + 1, before=before)


def run_position(run: Document) -> Position:
    return [(run["created_at"] - _EPOCH) // timedelta(milliseconds=1), run["_id"]]


def _accepted_at(position: Position) -> tuple[datetime, str]:
    milliseconds, run_id = position
    try:
        return _EPOCH + timedelta(milliseconds=int(milliseconds)), str(run_id)
    except OverflowError:
        raise invalid_cursor() from None


async def run_details_response(store: RunStore, caller: Caller, run_id: str) -> Response:
    run = await store.find(run_id, app_id=caller.scope)
    if run is None:
        raise RunNotFoundError(run_id)
    usage = await run_totals(store.database, run_id, is_running=run["state"] == RunState.RUNNING.value)
    replays = [replayed["_id"] for replayed in await find_replays(store, run)]
    exchange = {"questions": waiting_questions(run), "answers": run.get("answers") or []}
    return api_response({**as_json(run), **exchange, "usage": usage.as_json(), "replays": replays})


async def turns_page_response(store: RunStore, caller: Caller, run_id: str, paging: Paging) -> Response:
    """Shows the turns that the run counts.

    A turn of an owner that lost the run is not shown.
    """
    reads = RunReads(store)
    run = await reads.find_fields(run_id, ("turn",), app_id=caller.scope)
    if run is None:
        raise RunNotFoundError(run_id)
    after = paging.start_after(int)
    last = 0 if after is None else int(after[0])
    found = reads.turns_after(run_id, after=last, up_to=run["turn"], limit=paging.limit + 1)
    return await page_response(paging, found, lambda turn: [turn["number"]], _visible_turn)


def _visible_turn(turn: Document) -> Document:
    return {name: value for name, value in turn.items() if name not in _HIDDEN_TURN_FIELDS}
