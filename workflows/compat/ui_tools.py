"""UI tools headless: questions go the way of `workflows.tools`, and what is only shown is noted in the log."""

import logging
from typing import Any

from workflows.chat.chat_state import live_turn
from workflows.chat.questions.package_call import PackageCall, current_call
from workflows.chat.questions.question import digest
from workflows.context.values.storable_values import plain_copy
from workflows.tools import UIToolError, use_ui_tool

__all__ = ["UIToolError", "emit_ui_surface", "use_ui_tool"]

log = logging.getLogger(__name__)

MAX_NAME_CHARACTERS = 100


async def emit_ui_surface(
    tool_id: str,
    payload: Any = None,
    *,
    chat_id: str | None = None,
    workflow_name: str | None = None,
    display: str | None = None,
    agent_name: str | None = None,
) -> str:
    """Logs that a surface was to be shown, and returns the id that showing it would have had.

    No person sees it and none is asked, so that the function goes on. The same call gives the same id again, so that a
    tool which puts it into a question asks the same question when it is repeated. UIToolError outside of a run.
    """
    del chat_id, workflow_name, agent_name  # the run has its own
    name = str(tool_id).strip()
    if not name:
        raise UIToolError("tool_id: give a name, such as 'StatusCard'")
    call = current_call("emit_ui_surface")
    made_of = [_call_place(call), call.position, call.function, name, plain_copy(payload)]
    log.info("ui_surface_not_shown", extra={"tool": name[:MAX_NAME_CHARACTERS], "display": display or "inline"})
    return f"{name}_{digest(made_of)[:8]}"


def _call_place(call: PackageCall) -> str:
    """The turn, else the run, in a form that is the same when the call is made again."""
    try:
        return str(live_turn().idempotency_key)
    except LookupError:  # before the first turn, or after the last one
        return "" if call.chat is None else str(call.chat.fixed_values.get("run_id"))
