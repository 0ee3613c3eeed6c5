"""Actions on a trigger: pause, resume and fire, as on the command line."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ops.console import query_params
from ops.console.action_confirmation import check_may_act, confirmation_page, permission_page, redirect_with_notice
from ops.console.allowed_trigger_actions import TRIGGER_ACTIONS
from ops.console.console_context import ConsoleContext, Form
from ops.console.question_forms import parse_json_object
from ops.console.sessions import new_action_id
from ops.console.trigger_page import find_page_trigger
from ops.console.visitor import Visitor
from ops.presenters.amounts import pluralize
from triggers.change_stream.stream_control import ResumeFrom, StreamControl
from triggers.control.manual_fire import fire
from triggers.control.trigger_entry import TriggerEntry
from triggers.control.trigger_pauses import MAX_NOTE_LENGTH, pause, resume
from triggers.gateway.http_problems import ProblemError

MAX_APPS_OFFERED = 100
MAX_RUNS_NAMED = 5


async def confirm_trigger_action(context: ConsoleContext, request: Request, visitor: Visitor) -> Response:
    entry, app_id = await find_page_trigger(context, request, visitor)
    action = TRIGGER_ACTIONS.get(request.path_params["action"])
    if action is None:
        raise ProblemError(404, "there is no such action")
    return permission_page(context, request, visitor, action.label) or confirmation_page(
        context,
        request,
        visitor,
        "confirm_trigger",
        title=f"{action.label}?",
        section="triggers",
        action=action,
        action_id=new_action_id(),
        trigger=entry,
        app_id=app_id,
        apps=_app_choices(entry, visitor)[:MAX_APPS_OFFERED],
        has_stream=visitor.scope is None and _has_stream(context, entry),
        max_note_length=MAX_NOTE_LENGTH,
    )


async def execute_trigger_action(context: ConsoleContext, request: Request, visitor: Visitor, form: Form) -> Response:
    entry, app_id = await find_page_trigger(context, request, visitor)
    name = request.path_params["action"]
    if name not in TRIGGER_ACTIONS:
        raise ProblemError(404, "there is no such action")
    check_may_act(visitor)
    if form_app := form.get("app_id", "").strip():
        app_id = visitor.caller.resolve_optional_app(form_app)
    if name == "fire":
        notice, path = await _fire_trigger(context, visitor, entry, app_id, form)
        return await redirect_with_notice(context, visitor, notice, path)
    if name == "pause":
        changed = await pause(context.role, entry, by=visitor.name, note=form.get("note", "").strip(), app_id=app_id)
    else:
        from_: ResumeFrom | None = (
            "now" if form.get("from") == "now" else "token" if form.get("from") == "token" else None
        )
        changed = await resume(context.role, entry, by=visitor.name, app_id=app_id, from_=from_, viewer=visitor.scope)
    return await redirect_with_notice(
        context,
        visitor,
        f"{entry.id} {changed.said}.",
        query_params.trigger_path(entry.id, app_id=_shown_app(entry, visitor, app_id)),
    )


async def _fire_trigger(
    context: ConsoleContext, visitor: Visitor, entry: TriggerEntry, app_id: str | None, form: Form
) -> tuple[str, str]:
    """Fire once per confirmation page: a second click would otherwise start more runs."""
    event = _parse_event(form.get("event", ""))
    if not form.get("order_id") or not await context.sessions.claim_action(visitor.session, form["order_id"]):
        raise ProblemError(409, "this form was sent already; check the runs, and reload the page to fire again")
    started = await fire(context.role, entry, by=visitor.name, app_id=app_id, event=event, **visitor.caller.rights)
    if len(started) == 1:
        return f"{entry.id} has fired: this is its run.", query_params.run_path(started[0].run_id)
    first = ", ".join(run.run_id for run in started[:MAX_RUNS_NAMED])
    rest = f" and {len(started) - MAX_RUNS_NAMED} more" if len(started) > MAX_RUNS_NAMED else ""
    path = query_params.trigger_path(entry.id, app_id=_shown_app(entry, visitor, app_id))
    return f"{entry.id} has fired; it started {pluralize(len(started), 'run')}: {first}{rest}.", path


def _parse_event(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    event = parse_json_object(text)
    if event is None:
        raise ProblemError(422, 'event: write a JSON object, such as {"order": {"id": 7}}')
    return event


def _app_choices(entry: TriggerEntry, visitor: Visitor) -> list[str]:
    """Offer a choice of apps if the page shows a whole trigger of several apps."""
    return [] if visitor.scope is not None or entry.app_id is not None else list(entry.apps)


def _has_stream(context: ConsoleContext, entry: TriggerEntry) -> bool:
    return entry.trigger is not None and StreamControl(context.role.database).stream_id_of(entry.trigger) is not None


def _shown_app(entry: TriggerEntry, visitor: Visitor, app_id: str | None) -> str | None:
    return None if entry.app_id is not None or visitor.scope is not None else app_id
