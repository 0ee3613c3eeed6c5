"""Actions on a trigger: pause, resume, fire; each done as the command line does it."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ops.console import asked
from ops.console.confirming import check_allowed, confirmation, done, not_yet_allowed
from ops.console.desk import Desk, Form
from ops.console.sessions import new_order
from ops.console.trigger import known_trigger
from ops.console.trigger_orders import ORDERS
from ops.console.visitor import Visitor
from triggers.change_stream.control import From, StreamControl
from triggers.control.firing import fire
from triggers.control.known import Known
from triggers.control.pausing import MAX_NOTE_LENGTH, pause
from triggers.control.resuming import resume
from triggers.gateway.body import parse_json
from triggers.gateway.problems import ProblemError

MOST_APPS_OFFERED = 100
MOST_TOLD = 5


async def confirm_on_trigger(desk: Desk, request: Request, visitor: Visitor) -> Response:
    known, app_id = await known_trigger(desk, request, visitor)
    order = ORDERS.get(request.path_params["action"])
    if order is None:
        raise ProblemError(404, "there is no such action")
    return not_yet_allowed(desk, request, visitor, order.label) or confirmation(
        desk,
        request,
        visitor,
        "confirm_trigger",
        title=f"{order.label}?",
        section="triggers",
        order=order,
        order_id=new_order(),
        trigger=known,
        app_id=app_id,
        apps=_apps(known, visitor)[:MOST_APPS_OFFERED],
        is_of_stream=visitor.scope is None and _has_stream(desk, known),
        longest_note=MAX_NOTE_LENGTH,
    )


async def carry_out_on_trigger(desk: Desk, request: Request, visitor: Visitor, form: Form) -> Response:
    known, app_id = await known_trigger(desk, request, visitor)
    name = request.path_params["action"]
    if name not in ORDERS:
        raise ProblemError(404, "there is no such action")
    check_allowed(visitor)
    if chosen := form.get("app_id", "").strip():
        app_id = visitor.caller.within(chosen)
    if name == "fire":
        said, path = await _fire(desk, visitor, known, app_id, form)
        return await done(desk, visitor, said, path)
    if name == "pause":
        changed = await pause(desk.ground, known, by=visitor.name, note=form.get("note", "").strip(), app_id=app_id)
    else:
        from_: From | None = "now" if form.get("from") == "now" else "token" if form.get("from") == "token" else None
        asked_for: dict[str, Any] = {"app_id": app_id, "from_": from_, "viewer": visitor.scope}
        changed = await resume(desk.ground, known, by=visitor.name, **asked_for)
    return await done(
        desk,
        visitor,
        f"{known.id} {changed.said}.",
        asked.trigger_path(known.id, app_id=_looked_at(known, visitor, app_id)),
    )


async def _fire(desk: Desk, visitor: Visitor, known: Known, app_id: str | None, form: Form) -> tuple[str, str]:
    """A form that is sent twice, by a second click, fires once: unlike a pause, it would start other runs."""
    event = _event(form.get("event", ""))
    if not form.get("order_id") or not await desk.sessions.use(visitor.session, form["order_id"]):
        raise ProblemError(409, "this form was sent already; look at the runs, and open the page again for another one")
    fired = await fire(desk.ground, known, by=visitor.name, app_id=app_id, event=event, **visitor.caller.rights)
    if len(fired) == 1:
        return f"{known.id} has fired: this is its run.", asked.run_path(fired[0].run_id)
    first = ", ".join(each.run_id for each in fired[:MOST_TOLD])
    more = f" and {len(fired) - MOST_TOLD} more" if len(fired) > MOST_TOLD else ""
    path = asked.trigger_path(known.id, app_id=_looked_at(known, visitor, app_id))
    return f"{known.id} has fired; it started {len(fired)} runs: {first}{more}.", path


def _event(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        event = parse_json(text.encode())
    except ProblemError:
        event = None
    if not isinstance(event, dict):
        raise ProblemError(422, 'event: write a JSON object, such as {"order": {"id": 7}}')
    return event


def _apps(known: Known, visitor: Visitor) -> list[str]:
    """To choose from, where a whole trigger is looked at that is for several apps."""
    return [] if visitor.scope is not None or known.app_id is not None else list(known.apps)


def _has_stream(desk: Desk, known: Known) -> bool:
    return known.trigger is not None and StreamControl(desk.ground.database).stream_of(known.trigger) is not None


def _looked_at(known: Known, visitor: Visitor, app_id: str | None) -> str | None:
    return None if known.app_id is not None or visitor.scope is not None else app_id
