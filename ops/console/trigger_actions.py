"""Actions on a trigger: pause, resume, fire; each done as the command line does it."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ops.console import query_params
from ops.console.action_confirmation import check_may_act, confirmation_page, permission_page, redirect_with_notice
from ops.console.allowed_trigger_actions import TRIGGER_ACTIONS
from ops.console.context import ConsoleContext, Form
from ops.console.question_forms import parse_json_object
from ops.console.sessions import new_action_id
from ops.console.trigger_page import find_page_trigger
from ops.console.visitor import Visitor
from triggers.change_stream.stream_control import ResumeFrom, StreamControl
from triggers.control.manual_fire import fire
from triggers.control.trigger_entry import TriggerEntry
from triggers.control.trigger_pauses import MAX_NOTE_LENGTH, pause, resume
from triggers.gateway.http_problems import ProblemError

MAX_APPS_OFFERED = 100
MAX_RUNS_NAMED = 5


async def confirm_trigger_action(context: ConsoleContext, request: Request, visitor: Visitor) -> Response:
    known, app_id = await find_page_trigger(context, request, visitor)
    order = TRIGGER_ACTIONS.get(request.path_params["action"])
    if order is None:
        raise ProblemError(404, "there is no such action")
    return permission_page(context, request, visitor, order.label) or confirmation_page(
        context,
        request,
        visitor,
        "confirm_trigger",
        title=f"{order.label}?",
        section="triggers",
        order=order,
        order_id=new_action_id(),
        trigger=known,
        app_id=app_id,
        apps=_app_choices(known, visitor)[:MAX_APPS_OFFERED],
        is_of_stream=visitor.scope is None and _has_stream(context, known),
        longest_note=MAX_NOTE_LENGTH,
    )


async def execute_trigger_action(context: ConsoleContext, request: Request, visitor: Visitor, form: Form) -> Response:
    known, app_id = await find_page_trigger(context, request, visitor)
    name = request.path_params["action"]
    if name not in TRIGGER_ACTIONS:
        raise ProblemError(404, "there is no such action")
    check_may_act(visitor)
    if chosen := form.get("app_id", "").strip():
        app_id = visitor.caller.resolve_optional_app(chosen)
    if name == "fire":
        said, path = await _fire_trigger(context, visitor, known, app_id, form)
        return await redirect_with_notice(context, visitor, said, path)
    if name == "pause":
        changed = await pause(context.role, known, by=visitor.name, note=form.get("note", "").strip(), app_id=app_id)
    else:
        from_: ResumeFrom | None = (
            "now" if form.get("from") == "now" else "token" if form.get("from") == "token" else None
        )
        asked_for: dict[str, Any] = {"app_id": app_id, "from_": from_, "viewer": visitor.scope}
        changed = await resume(context.role, known, by=visitor.name, **asked_for)
    return await redirect_with_notice(
        context,
        visitor,
        f"{known.id} {changed.said}.",
        query_params.trigger_path(known.id, app_id=_shown_app(known, visitor, app_id)),
    )


async def _fire_trigger(
    context: ConsoleContext, visitor: Visitor, known: TriggerEntry, app_id: str | None, form: Form
) -> tuple[str, str]:
    """A form that is sent twice, by a second click, fires once: unlike a pause, it would start other runs."""
    event = _parse_event(form.get("event", ""))
    if not form.get("order_id") or not await context.sessions.claim_action(visitor.session, form["order_id"]):
        raise ProblemError(409, "this form was sent already; look at the runs, and open the page again for another one")
    fired = await fire(context.role, known, by=visitor.name, app_id=app_id, event=event, **visitor.caller.rights)
    if len(fired) == 1:
        return f"{known.id} has fired: this is its run.", query_params.run_path(fired[0].run_id)
    first = ", ".join(each.run_id for each in fired[:MAX_RUNS_NAMED])
    more = f" and {len(fired) - MAX_RUNS_NAMED} more" if len(fired) > MAX_RUNS_NAMED else ""
    path = query_params.trigger_path(known.id, app_id=_shown_app(known, visitor, app_id))
    return f"{known.id} has fired; it started {len(fired)} runs: {first}{more}.", path


def _parse_event(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    event = parse_json_object(text)
    if event is None:
        raise ProblemError(422, 'event: write a JSON object, such as {"order": {"id": 7}}')
    return event


def _app_choices(known: TriggerEntry, visitor: Visitor) -> list[str]:
    """To choose from, where a whole trigger is looked at that is for several apps."""
    return [] if visitor.scope is not None or known.app_id is not None else list(known.apps)


def _has_stream(context: ConsoleContext, known: TriggerEntry) -> bool:
    return known.trigger is not None and StreamControl(context.role.database).stream_id_of(known.trigger) is not None


def _shown_app(known: TriggerEntry, visitor: Visitor, app_id: str | None) -> str | None:
    return None if known.app_id is not None or visitor.scope is not None else app_id
