"""One trigger: how it stands, what comes next, what came of it so far, and why something started nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ops.console import query_params
from ops.console.allowed_trigger_actions import possible_trigger_actions
from ops.console.context import ConsoleContext
from ops.console.visitor import Visitor
from ops.presenters.skip_reasons import describe_reason
from ops.presenters.trigger_lines import outlook_facts, trigger_facts
from triggers.control.trigger_entry import TriggerEntry
from triggers.control.trigger_names import find_exact, find_trigger
from triggers.control.trigger_view import show

MAX_NOTES = 50
MAX_PAUSED_APPS = 20


async def find_page_trigger(
    context: ConsoleContext, request: Request, visitor: Visitor
) -> tuple[TriggerEntry, str | None]:
    """With the app that is looked at: the visitor's own, or the one in the address."""
    workflow, name = request.path_params["workflow"], request.path_params["name"]
    app_id = visitor.caller.resolve_optional_app(query_params.text_param(request.query_params, "app_id"))
    if "@" in name:
        return await find_trigger(context.role, f"{workflow}/{name}", app_id=app_id), app_id
    return await find_exact(context.role, workflow, name, app_id=app_id), app_id


async def show_trigger(context: ConsoleContext, request: Request, visitor: Visitor) -> Response:
    known, app_id = await find_page_trigger(context, request, visitor)
    shown = await show(context.role, known, app_id=app_id, viewer=visitor.scope)
    of_app = None if known.app_id is not None or visitor.scope is not None else app_id
    outlook = _with_secret_states(shown["outlook"])
    return context.renderer.render(
        "trigger",
        visitor,
        title=f"{known.workflow}/{known.name}",
        section="triggers",
        trigger=shown,
        app_id=of_app,
        facts=[*trigger_facts(shown)],
        outlook=[*outlook_facts(outlook, is_paused=shown["state"] == "paused")],
        warning=outlook.get("warning"),
        paused_apps=[*shown["paused_apps"].items()][:MAX_PAUSED_APPS],
        notes=[{"at": note.get("at"), "words": describe_reason(note)} for note in shown["notes"][:MAX_NOTES]],
        orders=possible_trigger_actions(shown) if visitor.may_write else (),
        path=lambda action="": _action_path(known, action, of_app),
        runs=query_params.with_query(
            "/console/runs", {"workflow": known.workflow, "trigger": known.name, "app_id": known.app_id or app_id}
        ),
    )


def _action_path(known: TriggerEntry, action: str, app_id: str | None) -> str:
    return query_params.with_query(
        query_params.trigger_path(known.id) + (f"/{action}" if action else ""), {"app_id": app_id}
    )


def _with_secret_states(outlook: Mapping[str, Any]) -> Mapping[str, Any]:
    """The gateway looks in its own environment, which is the one that counts for secrets."""
    secrets: Sequence[Mapping[str, Any]] = outlook.get("secrets") or ()
    said = [f"{each['secret']}  {each['problem']}" if each["problem"] else each["secret"] for each in secrets]
    return {**outlook, "secrets": said} if secrets else outlook
