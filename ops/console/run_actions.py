"""Actions on a run: cancel, replay, discard, retry now, answer; each done as the command line does it."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ops.console import query_params
from ops.console.action_confirmation import check_may_act, confirmation_page, permission_page, redirect_with_notice
from ops.console.allowed_run_actions import ConsoleAction, possible_run_actions
from ops.console.context import ConsoleContext, Form
from ops.console.question_forms import parse_answer, question_views
from ops.console.visitor import Visitor
from ops.presenters.question_lines import waiting_text
from triggers.control.trigger_entry import check_replay_approved
from triggers.gateway.http_problems import ProblemError
from workers.control.answer import answer
from workers.control.cancelling import cancel, discard
from workers.control.changed import Changed
from workers.control.effects import Effects, find_effects
from workers.control.errors import RunNotFoundError
from workers.control.replaying import ReplayOptions, replay
from workers.control.retrying import retry_now
from workers.store.run_document import as_json


async def confirm_run_action(context: ConsoleContext, request: Request, visitor: Visitor) -> Response:
    run = await _find_run(context, request, visitor)
    order = _requested_action(request, run)
    first = permission_page(context, request, visitor, order.label, is_approval=order.is_approval)
    if first is not None:
        return first
    values: dict[str, Any] = {"title": f"{order.label}?", "section": "runs", "run": run, "order": order}
    if order.name == "answer":
        path, questions = query_params.run_path(run["run_id"]), question_views(run)
        return context.renderer.render("answer", visitor, path=path, questions=questions, **values)
    done = await find_effects(context.role.store, run["run_id"]) if order.name == "replay" else Effects()
    return confirmation_page(context, request, visitor, "confirm_run", done=done, **values)


async def execute_run_action(context: ConsoleContext, request: Request, visitor: Visitor, form: Form) -> Response:
    run_id, name = request.path_params["run_id"], request.path_params["action"]
    if name not in _ACTION_NAMES:
        raise ProblemError(404, "there is no such action")
    check_may_act(visitor, is_approval=name in _APPROVAL_ACTIONS)
    if name == "answer":
        return await _answer_question(context, request, visitor, form)
    changed = await _change_run(context, visitor, run_id, name, form)
    return await redirect_with_notice(
        context, visitor, f"{run_id}: {changed.said}.", query_params.run_path(changed.new_run_id or run_id)
    )


async def _change_run(context: ConsoleContext, visitor: Visitor, run_id: str, name: str, form: Form) -> Changed:
    """RunNotFoundError, or RefusedError where its state does not take it any more."""
    store, wake = context.role.store, context.role.wakeups
    by, app_id = visitor.name, visitor.scope
    match name:
        case "cancel":
            return await cancel(store, run_id, by=by, app_id=app_id)
        case "discard":
            return await discard(store, run_id, by=by, app_id=app_id)
        case "replay":
            await check_replay_approved(context.role, store, run_id, app_id=app_id, may_approve=visitor.may_approve)
            # Only by a page that has listed what happens again.
            options = ReplayOptions(repeat_done="repeat_done" in form, new_keys="new_keys" in form)
            return await replay(store, wake, run_id, by=by, app_id=app_id, options=options)
        case _:
            return await retry_now(store, wake, run_id, by=by, app_id=app_id)


async def _answer_question(context: ConsoleContext, request: Request, visitor: Visitor, form: Form) -> Response:
    """For the question that the form shows, and no other that may be asked meanwhile."""
    run = await _find_run(context, request, visitor)
    said = parse_answer(run, form)
    store, wake = context.role.store, context.role.wakeups
    done_ = await answer(store, wake, run["run_id"], by=visitor.name, app_id=visitor.scope, **said)
    waits = f"; {waiting_text(done_.waiting)} for an answer" if done_.waiting else ", and goes on"
    told = f"{done_.run_id} has answer {done_.number}{waits}."
    return await redirect_with_notice(context, visitor, told, query_params.run_path(done_.run_id))


async def _find_run(context: ConsoleContext, request: Request, visitor: Visitor) -> Mapping[str, Any]:
    run_id = request.path_params["run_id"]
    found = await context.role.store.find(run_id, app_id=visitor.scope)
    if found is None:
        raise RunNotFoundError(run_id)
    return as_json(found)


def _requested_action(request: Request, run: Mapping[str, Any]) -> ConsoleAction:
    name = request.path_params["action"]
    if name not in _ACTION_NAMES:
        raise ProblemError(404, "there is no such action")
    found = next((order for order in possible_run_actions(run) if order.name == name), None)
    if found is None:
        raise ProblemError(409, f"{run['run_id']} is {run['state'].replace('_', ' ')} now: it does not take that")
    return found


_APPROVAL_ACTIONS = frozenset({"answer", "discard"})
_ACTION_NAMES = frozenset({"cancel", "discard", "replay", "retry-now", "answer"})
