"""One trigger: how it stands, what comes next, what came of it so far, and why something started nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ops.cli.triggers.reasons import reason_in_words
from ops.cli.triggers.show_lines import facts, outlook_facts
from ops.console import asked
from ops.console.desk import Desk
from ops.console.trigger_orders import possible_orders
from ops.console.visitor import Visitor
from triggers.control.known import Known
from triggers.control.naming import exact, find
from triggers.control.showing import show

MOST_NOTES = 50
MOST_PAUSED_APPS = 20


async def known_trigger(desk: Desk, request: Request, visitor: Visitor) -> tuple[Known, str | None]:
    """With the app that is looked at: the visitor's own, or the one in the address."""
    workflow, name = request.path_params["workflow"], request.path_params["name"]
    app_id = visitor.caller.within(asked.text(request.query_params, "app_id"))
    if "@" in name:
        return await find(desk.ground, f"{workflow}/{name}", app_id=app_id), app_id
    return await exact(desk.ground, workflow, name, app_id=app_id), app_id


async def show_trigger(desk: Desk, request: Request, visitor: Visitor) -> Response:
    known, app_id = await known_trigger(desk, request, visitor)
    shown = await show(desk.ground, known, app_id=app_id, viewer=visitor.scope)
    of_app = None if known.app_id is not None or visitor.scope is not None else app_id
    outlook = _outlook(shown["outlook"])
    return desk.pages.page(
        "trigger",
        visitor,
        title=f"{known.workflow}/{known.name}",
        section="triggers",
        trigger=shown,
        app_id=of_app,
        facts=[*facts(shown)],
        outlook=[*outlook_facts(outlook, is_paused=shown["state"] == "paused")],
        warning=outlook.get("warning"),
        paused_apps=[*shown["paused_apps"].items()][:MOST_PAUSED_APPS],
        notes=[{"at": note.get("at"), "words": reason_in_words(note)} for note in shown["notes"][:MOST_NOTES]],
        orders=possible_orders(shown) if visitor.may_write else (),
        path=lambda action="": _path(known, action, of_app),
        runs=asked.with_query(
            "/console/runs", {"workflow": known.workflow, "trigger": known.name, "app_id": known.app_id or app_id}
        ),
    )


def _path(known: Known, action: str, app_id: str | None) -> str:
    return asked.with_query(asked.trigger_path(known.id) + (f"/{action}" if action else ""), {"app_id": app_id})


def _outlook(outlook: Mapping[str, Any]) -> Mapping[str, Any]:
    """The gateway looks in its own environment, which is the one that counts for secrets."""
    secrets: Sequence[Mapping[str, Any]] = outlook.get("secrets") or ()
    said = [f"{each['secret']}  {each['problem']}" if each["problem"] else each["secret"] for each in secrets]
    return {**outlook, "secrets": said} if secrets else outlook
