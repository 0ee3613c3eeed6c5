"""Actions on a run: cancel, replay, discard, retry now, answer; each done as the command line does it."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ops.cli.runs.question_lines import numbers_text
from ops.console import asked
from ops.console.confirming import check_allowed, confirmation, done, not_yet_allowed
from ops.console.desk import Desk, Form
from ops.console.questions import given_answer, shown_questions
from ops.console.run_orders import Order, possible_orders
from ops.console.visitor import Visitor
from triggers.control.known import check_replay_approved
from triggers.gateway.problems import ProblemError
from workers.control.answer import answer
from workers.control.cancelling import cancel, discard
from workers.control.changed import Changed
from workers.control.effects import Effects, find_effects
from workers.control.errors import RunNotFoundError
from workers.control.replaying import ReplayOptions, replay
from workers.control.retrying import retry_now
from workers.store.run_document import as_json


async def confirm_on_run(desk: Desk, request: Request, visitor: Visitor) -> Response:
    run = await _run(desk, request, visitor)
    order = _order(request, run)
    first = not_yet_allowed(desk, request, visitor, order.label, is_approval=order.is_approval)
    if first is not None:
        return first
    values: dict[str, Any] = {"title": f"{order.label}?", "section": "runs", "run": run, "order": order}
    if order.name == "answer":
        path, questions = asked.run_path(run["run_id"]), shown_questions(run)
        return desk.pages.page("answer", visitor, path=path, questions=questions, **values)
    done = await find_effects(desk.ground.store, run["run_id"]) if order.name == "replay" else Effects()
    return confirmation(desk, request, visitor, "confirm_run", done=done, **values)


async def carry_out_on_run(desk: Desk, request: Request, visitor: Visitor, form: Form) -> Response:
    run_id, name = request.path_params["run_id"], request.path_params["action"]
    if name not in _ACTIONS:
        raise ProblemError(404, "there is no such action")
    check_allowed(visitor, is_approval=name in _APPROVALS)
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
            await check_replay_approved(desk.ground, store, run_id, app_id=app_id, may_approve=visitor.may_approve)
            # Only by a page that has listed what happens again.
            options = ReplayOptions(repeat_done="repeat_done" in form, new_keys="new_keys" in form)
            return await replay(store, wake, run_id, by=by, app_id=app_id, options=options)
        case _:
            return await retry_now(store, wake, run_id, by=by, app_id=app_id)


async def _answer(desk: Desk, request: Request, visitor: Visitor, form: Form) -> Response:
    """For the question that the form shows, and no other that may be asked meanwhile."""
    run = await _run(desk, request, visitor)
    said = given_answer(run, form)
    store, wake = desk.ground.store, desk.ground.wakeups
    done_ = await answer(store, wake, run["run_id"], by=visitor.name, app_id=visitor.scope, **said)
    waits = f"; {numbers_text(done_.waiting)} for an answer" if done_.waiting else ", and goes on"
    told = f"{done_.run_id} has answer {done_.number}{waits}."
    return await done(desk, visitor, told, asked.run_path(done_.run_id))


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


_APPROVALS = frozenset({"answer", "discard"})
_ACTIONS = frozenset({"cancel", "discard", "replay", "retry-now", "answer"})
