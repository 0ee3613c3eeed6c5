"""The page that lists triggers: state, reason, times, and the newest skipped event."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ops.console import query_params
from ops.console.console_context import ConsoleContext
from ops.console.visitor import Visitor
from ops.presenters.skip_reasons import describe_reason
from ops.presenters.trigger_lines import apps_text, state_reason
from triggers.control.trigger_entry import TriggerEntry
from triggers.control.trigger_lists import TriggerFilter, iter_triggers
from triggers.control.trigger_status import TRIGGER_STATES
from triggers.control.trigger_view import visible_notes
from workflows.package.trigger_specs.trigger_spec import TRIGGER_TYPES

PAGE_SIZE = 50
MAX_APPS = 4
FILTER_PARAMS = ("app_id", "workflow", "type", "state")

Row = dict[str, Any]


async def list_triggers(context: ConsoleContext, request: Request, visitor: Visitor) -> Response:
    query = request.query_params
    trigger_filter = parse_trigger_filter(request, visitor)
    after = query_params.text_param(query, "after") or ""
    found = await trigger_rows(context, visitor, trigger_filter, after=after, limit=PAGE_SIZE + 1)
    filters = {name: query.get(name, "") for name in FILTER_PARAMS}
    last = found[PAGE_SIZE - 1]["trigger_id"] if len(found) > PAGE_SIZE else None
    return context.renderer.render(
        "triggers",
        visitor,
        title="Triggers",
        section="triggers",
        triggers=found[:PAGE_SIZE],
        filters=filters,
        further=last and query_params.with_query("/console/triggers", {**filters, "after": last}),
        first=query_params.with_query("/console/triggers", filters),
        is_first=not after,
        types=sorted(TRIGGER_TYPES),
        states=TRIGGER_STATES,
    )


def parse_trigger_filter(request: Request, visitor: Visitor) -> TriggerFilter:
    query = request.query_params
    state_param = query_params.word_param(query, "state", TRIGGER_STATES)
    state = next((state for state in TRIGGER_STATES if state == state_param), None)
    app_id = visitor.caller.resolve_optional_app(query_params.text_param(query, "app_id"))
    return TriggerFilter(
        app_id, query_params.text_param(query, "workflow"), query_params.word_param(query, "type", TRIGGER_TYPES), state
    )


async def trigger_rows(
    context: ConsoleContext,
    visitor: Visitor,
    trigger_filter: TriggerFilter,
    *,
    after: str = "",
    limit: int,
    max_scanned: int = 0,
) -> Sequence[Row]:
    iterator = iter_triggers(
        context.role, trigger_filter, viewer=visitor.scope, after=after, limit=limit, max_scanned=max_scanned
    )
    async with aclosing(iterator) as triggers:
        rows = [row async for row in triggers]
    records = await context.role.triggers.find_records([row["trigger_id"] for row in rows])
    found: list[Row] = []
    for row in rows:
        record = records.get(row["trigger_id"])
        # Without its spec, the entry counts as one of several apps, and shows a visitor of one app the least.
        entry = TriggerEntry(row["workflow"], row["name"], row["type"], row["app_id"], None, record)
        notes = visible_notes(entry, visitor.scope)
        newest_skip = None if not notes else {"at": notes[0].get("at"), "text": describe_reason(notes[0])}
        link = query_params.trigger_path(row["trigger_id"], app_id=None if row["app_id"] else trigger_filter.app_id)
        apps, reason = apps_text(row, max_apps=MAX_APPS), state_reason(row, inactive=row["inactive"] or "")
        found.append({**row, "path": link, "apps_text": apps, "reason": reason, "newest_skip": newest_skip})
    return found
