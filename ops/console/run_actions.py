"""Actions on a run: cancel, replay, discard, retry now, answer; each done as the command line does it."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ops.console import asked
from ops.console.confirming import check_allowed, confirmation, done, not_yet_allowed
from ops.console.desk import Desk, Form
from ops.console.run_orders import Order, possible_orders
from ops.console.visitor import Visitor
from triggers.gateway.body import parse_json
from triggers.gateway.problems import ProblemError
from workers.control.answer import answer
from workers.control.cancelling import cancel, discard
from workers.control.changed import Changed
from workers.control.effects import Effects, effects_of
from workers.control.errors import RunNotFoundError
from workers.control.replaying import ReplayOptions, replay
from workers.control.retrying import retry_now
from workers.store.run_document import as_json

KEY = "key."  # in the names of fields: of what a tool gets
WHOLE = "responses"


async def confirm_on_run(desk: Desk, request: Request, visitor: Visitor) -> Response:
    run = await _run(desk, request, visitor)
    order = _order(request, run)
    refused = not_yet_allowed(desk, request, visitor, order.label)
    if refused is not None:
        return refused
    done = await effects_of(desk.ground.store, {**run, "_id": run["run_id"]}) if order.name == "replay" else Effects()
    return confirmation(
        desk, request, visitor, "confirm_run", title=f"{order.label}?", section="runs", run=run, order=order, done=done
    )


async def carry_out_on_run(desk: Desk, request: Request, visitor: Visitor, form: Form) -> Response:
    run_id, name = request.path_params["run_id"], request.path_params["action"]
    if name not in _ACTIONS:
        raise ProblemError(404, "there is no such action")
    check_allowed(visitor)
    if name == "answer":
        return await _answer(desk, request, visitor, form)
    changed = await _change(desk, visitor, run_id, name, form)
    return await done(desk, visitor, f"{run_id}: {changed.said}.", asked.run_path(changed.new_run_id or run_id))


async def _change(desk: Desk, visitor: Visitor, run_id: str, name: str, form: Form) -> Changed:
    """RunNotFoundError, or RefusedError where its state does not take it any more."""
    store, wake = desk.ground.store, desk.ground.wakeups
    by, app_id = visitor.name, visitor.scope
    match name:
        case "cancel":
            return await cancel(store, run_id, by=by, app_id=app_id)
        case "discard":
            return await discard(store, run_id, by=by, app_id=app_id)
        case "replay":
            # Only by a page that has listed what happens again.
            options = ReplayOptions(repeat_done="repeat_done" in form, new_keys="new_keys" in form)
            return await replay(store, wake, run_id, by=by, app_id=app_id, options=options)
        case _:
            return await retry_now(store, wake, run_id, by=by, app_id=app_id)


async def _answer(desk: Desk, request: Request, visitor: Visitor, form: Form) -> Response:
    """For the question that was shown, and no other that may be asked meanwhile."""
    run = await _run(desk, request, visitor)
    question = run.get("question") or {}
    number = form.get("question", "")
    said: dict[str, Any] = {"question": int(number) if number.isascii() and number.isdigit() else None}
    if "message" in form:
        said["message"] = form["message"]
    else:
        said["responses"] = {str(question.get("tool", "tool")): _responses(form)}
    store, wake = desk.ground.store, desk.ground.wakeups
    done_ = await answer(store, wake, run["run_id"], by=visitor.name, app_id=visitor.scope, **said)
    told = f"{done_.run_id} has answer {done_.number}, and goes on."
    return await done(desk, visitor, told, asked.run_path(done_.run_id))


def _responses(form: Form) -> Mapping[str, Any]:
    """A field for each key that the package waits for, or JSON where it names none."""
    if WHOLE in form:
        try:
            whole = parse_json(form[WHOLE].encode())
        except ProblemError:
            whole = None
        if not isinstance(whole, dict):
            raise ProblemError(422, 'the answer: write keys and values as JSON, such as {"approved": true}')
        return whole
    return {name.removeprefix(KEY): _value(text) for name, text in form.items() if name.startswith(KEY)}


def _value(text: str) -> Any:
    """JSON where it is JSON, else text, as `unattended runs answer --response` takes it."""
    try:
        return parse_json(text.encode())
    except ProblemError:
        return text


async def _run(desk: Desk, request: Request, visitor: Visitor) -> Mapping[str, Any]:
    run_id = request.path_params["run_id"]
    found = await desk.ground.store.find(run_id, app_id=visitor.scope)
    if found is None:
        raise RunNotFoundError(run_id)
    return as_json(found)


def _order(request: Request, run: Mapping[str, Any]) -> Order:
    name = request.path_params["action"]
    if name not in _ACTIONS:
        raise ProblemError(404, "there is no such action")
    found = next((order for order in possible_orders(run) if order.name == name), None)
    if found is None:
        raise ProblemError(409, f"{run['run_id']} is {run['state'].replace('_', ' ')} now: it does not take that")
    return found


_ACTIONS = frozenset({"cancel", "discard", "replay", "retry-now", "answer"})
