"""The list of triggers: how each stands and why, when it fires, and what lately started nothing."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ops.cli.triggers.reasons import reason_in_words
from ops.console import asked
from ops.console.desk import Desk
from ops.console.visitor import Visitor
from triggers.control.known import Known
from triggers.control.listing import Wanted, each_trigger
from triggers.control.standing import STATES
from triggers.control.telling import notes_for
from workflows.package.trigger_specs.kinds import SPEC_BY_TYPE

PAGE = 50
MOST_APPS = 4
TYPES = tuple(sorted({str(spec.model_fields["type"].default) for spec in SPEC_BY_TYPE.values()}))
FILTERS = ("app_id", "workflow", "type", "state")

Row = dict[str, Any]


async def list_triggers(desk: Desk, request: Request, visitor: Visitor) -> Response:
    query = request.query_params
    wanted = wanted_of(request, visitor)
    after = asked.text(query, "after") or ""
    found = await rows_of(desk, visitor, wanted, after=after, limit=PAGE + 1)
    given = {name: query.get(name, "") for name in FILTERS}
    last = found[PAGE - 1]["trigger_id"] if len(found) > PAGE else None
    return desk.pages.page(
        "triggers",
        visitor,
        title="Triggers",
        section="triggers",
        triggers=found[:PAGE],
        given=given,
        further=last and asked.with_query("/console/triggers", {**given, "after": last}),
        first=asked.with_query("/console/triggers", given),
        is_first=not after,
        types=TYPES,
        states=STATES,
    )


def wanted_of(request: Request, visitor: Visitor) -> Wanted:
    query = request.query_params
    state = next((each for each in STATES if each == asked.one_word(query, "state", STATES)), None)
    app_id = visitor.caller.within(asked.text(query, "app_id"))
    return Wanted(app_id, asked.text(query, "workflow"), asked.one_word(query, "type", TYPES), state)


async def rows_of(
    desk: Desk, visitor: Visitor, wanted: Wanted, *, after: str = "", limit: int, looks: int = 0
) -> Sequence[Row]:
    found_one_by_one = each_trigger(desk.ground, wanted, viewer=visitor.scope, after=after, limit=limit, looks=looks)
    async with aclosing(found_one_by_one) as each:
        rows = [row async for row in each]
    records = await desk.ground.triggers.records([row["trigger_id"] for row in rows])
    found: list[Row] = []
    for row in rows:
        record = records.get(row["trigger_id"])
        # Without its spec: then it counts as one of several apps, and tells a visitor of one app the least.
        known = Known(row["workflow"], row["name"], row["type"], row["app_id"], None, record)
        notes = notes_for(known, visitor.scope)
        newest = None if not notes else {"at": notes[0].get("at"), "words": reason_in_words(notes[0])}
        link = asked.trigger_path(row["trigger_id"], app_id=None if row["app_id"] else wanted.app_id)
        found.append({**row, "path": link, "whose": _apps(row), "why": _why(row), "newest": newest})
    return found


def _apps(row: Mapping[str, Any]) -> str:
    if row["apps_from"] is not None:
        return f"from the {row['apps_from']}"
    apps = row["apps"]
    more = f" and {len(apps) - MOST_APPS} more" if len(apps) > MOST_APPS else ""
    return (", ".join(apps[:MOST_APPS]) + more) or "no app"


def _why(row: Mapping[str, Any]) -> str:
    """Paused by whom and why, inactive why."""
    paused = row["paused"] or (row["state"] == "paused" and next(iter(row["paused_apps"].values()), None))
    if paused:
        return f"by {paused['by']}{': ' + paused['note'] if paused['note'] else ''}"
    some = f"paused for {len(row['paused_apps'])} of its apps" if row["paused_apps"] else ""
    return str(row["inactive"] or some)
