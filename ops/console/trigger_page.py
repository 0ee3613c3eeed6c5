"""The page of one trigger: state, facts, what comes next, and skipped events."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ops.console import query_params
from ops.console.allowed_trigger_actions import possible_trigger_actions
from ops.console.console_context import ConsoleContext
from ops.console.visitor import Visitor
from ops.presenters.skip_reasons import describe_reason
from ops.presenters.trigger_lines import apps_text, outlook_facts, trigger_facts
from triggers.control.trigger_entry import TriggerEntry
from triggers.control.trigger_names import find_exact, find_trigger
from triggers.control.trigger_view import show

MAX_APPS = 20
MAX_NOTES = 50
MAX_PAUSED_APPS = 20


async def find_page_trigger(
    context: ConsoleContext, request: Request, visitor: Visitor
) -> tuple[TriggerEntry, str | None]:
    """Find the trigger, and the app of the page: the visitor's own, or the one in the address."""
    workflow, name = request.path_params["workflow"], request.path_params["name"]
    app_id = visitor.caller.resolve_optional_app(query_params.text_param(request.query_params, "app_id"))
    if "@" in name:
        return await find_trigger(context.role, f"{workflow}/{name}", app_id=app_id), app_id
    return await find_exact(context.role, workflow, name, app_id=app_id), app_id


async def show_trigger(context: ConsoleContext, request: Request, visitor: Visitor) -> Response:
    entry, app_id = await find_page_trigger(context, request, visitor)
    trigger = await show(context.role, entry, app_id=app_id, viewer=visitor.scope)
    shown_app = None if entry.app_id is not None or visitor.scope is not None else app_id
    outlook = _with_secret_states(trigger["outlook"])
    return context.renderer.render(
        "trigger",
        visitor,
        title=f"{entry.workflow}/{entry.name}",
        section="triggers",
        trigger=trigger,
        app_id=shown_app,
        apps_text=apps_text(trigger, max_apps=MAX_APPS),
        facts=[*trigger_facts(trigger)],
        outlook=[*outlook_facts(outlook, is_paused=trigger["state"] == "paused")],
        warning=outlook.get("warning"),
        paused_apps=[*trigger["paused_apps"].items()][:MAX_PAUSED_APPS],
        notes=[{"at": note.get("at"), "text": describe_reason(note)} for note in trigger["notes"][:MAX_NOTES]],
        actions=possible_trigger_actions(trigger) if visitor.may_write else (),
        path=lambda action="": _action_path(entry, action, shown_app),
        runs=query_params.with_query(
            "/console/runs", {"workflow": entry.workflow, "trigger": entry.name, "app_id": entry.app_id or app_id}
        ),
    )


def _action_path(entry: TriggerEntry, action: str, app_id: str | None) -> str:
    return query_params.with_query(
        query_params.trigger_path(entry.id) + (f"/{action}" if action else ""), {"app_id": app_id}
    )


def _with_secret_states(outlook: Mapping[str, Any]) -> Mapping[str, Any]:
    """Report problems without naming the environment: the gateway's own is the one that counts."""
    secrets: Sequence[Mapping[str, Any]] = outlook.get("secrets") or ()
    texts = [f"{state['secret']}  {state['problem']}" if state["problem"] else state["secret"] for state in secrets]
    return {**outlook, "secrets": texts} if secrets else outlook
