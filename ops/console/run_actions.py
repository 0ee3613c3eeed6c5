"""Actions on a run: cancel, replay, discard, retry now and answer, as on the command line."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ops.console import query_params
from ops.console.action_confirmation import check_may_act, confirmation_page, permission_page, redirect_with_notice
from ops.console.allowed_run_actions import ConsoleAction, possible_run_actions
from ops.console.console_context import ConsoleContext, Form
from ops.console.question_forms import parse_answer, question_views
from ops.console.visitor import Visitor
from ops.presenters.question_lines import answer_result_text
from triggers.control.trigger_entry import check_replay_approved
from triggers.gateway.http_problems import ProblemError
from workers.control.change_result import RunChange, RunNotFoundError
from workers.control.run_answers import submit_answer
from workers.control.run_cancellation import cancel, discard
from workers.control.run_effects import RunEffects, find_effects
from workers.control.run_replay import ReplayOptions, replay
from workers.control.run_retry import retry_now
from workers.store.run_document import as_json

_APPROVAL_ACTIONS = frozenset({"answer", "discard"})
_ACTION_NAMES = frozenset({"cancel", "discard", "replay", "retry-now", "answer"})


async def confirm_run_action(context: ConsoleContext, request: Request, visitor: Visitor) -> Response:
    run = await _find_run(context, request, visitor)
    action = _requested_action(request, run)
    refusal = permission_page(context, request, visitor, action.label, is_approval=action.is_approval)
    if refusal is not None:
        return refusal
    values: dict[str, Any] = {"title": f"{action.label}?", "section": "runs", "run": run, "action": action}
    if action.name == "answer":
        path, questions = query_params.run_path(run["run_id"]), question_views(run)
        return context.renderer.render("answer", visitor, path=path, questions=questions, **values)
    effects = await find_effects(context.role.store, run["run_id"]) if action.name == "replay" else RunEffects()
    return confirmation_page(context, request, visitor, "confirm_run", done=effects, **values)


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


async def _change_run(context: ConsoleContext, visitor: Visitor, run_id: str, name: str, form: Form) -> RunChange:
    """Change the run, or raise RunNotFoundError, or RefusedError if its state does not allow it any more."""
    store, wakeups = context.role.store, context.role.wakeups
    by, app_id = visitor.name, visitor.scope
    match name:
        case "cancel":
            return await cancel(store, run_id, by=by, app_id=app_id)
        case "discard":
            return await discard(store, run_id, by=by, app_id=app_id)
        case "replay":
            await check_replay_approved(context.role, store, run_id, app_id=app_id, may_approve=visitor.may_approve)
            # The page sets repeat_done only after it has listed the effects.
            options = ReplayOptions(repeat_done="repeat_done" in form, new_keys="new_keys" in form)
            return await replay(store, wakeups, run_id, by=by, app_id=app_id, options=options)
        case _:
            return await retry_now(store, wakeups, run_id, by=by, app_id=app_id)


async def _answer_question(context: ConsoleContext, request: Request, visitor: Visitor, form: Form) -> Response:
    """Answer the question that the form shows, even if the run asks another one by now."""
    run = await _find_run(context, request, visitor)
    fields = parse_answer(run, form)
    store, wakeups = context.role.store, context.role.wakeups
    answered = await submit_answer(store, wakeups, run["run_id"], by=visitor.name, app_id=visitor.scope, **fields)
    notice = f"{answered.run_id} {answer_result_text(answered.number, answered.waiting)}."
    return await redirect_with_notice(context, visitor, notice, query_params.run_path(answered.run_id))


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
    action = next((action for action in possible_run_actions(run) if action.name == name), None)
    if action is None:
        state = run["state"].replace("_", " ")
        raise ProblemError(409, f"{run['run_id']} is {state} now, which does not allow this action")
    return action
